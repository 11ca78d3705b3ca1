"""Loads plugins from entry points.

A broken plugin is listed with its reason; it never crashes a command and is never skipped silently.
"""

from mlbench.discovery.plugins import GROUP, BrokenPlugin, Plugins, nearest

__all__ = ["GROUP", "BrokenPlugin", "Plugins", "nearest"]
