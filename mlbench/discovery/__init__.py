"""Entry points become plugins. A broken one is a row with its reason, never a crash and never silence."""

from mlbench.discovery.plugins import GROUP, BrokenPlugin, Plugins, nearest

__all__ = ["GROUP", "BrokenPlugin", "Plugins", "nearest"]
