"""The only package that knows LoadGen: its scenarios, settings, callbacks and logs."""
