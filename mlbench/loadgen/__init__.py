"""The only room that knows LoadGen: its scenarios, settings, callbacks and logs."""
