"""The part of a run that happens in its own process: from settings to a verdict, with LoadGen's logs on the way."""
