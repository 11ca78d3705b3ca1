"""The part of a run in its own process: from settings over LoadGen's logs to a verdict."""
