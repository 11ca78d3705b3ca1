"""The version of mlbench."""

__version__ = "0.1.0"
