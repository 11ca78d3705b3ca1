"""Graphs exported for runtimes, and the cache of what was made."""
