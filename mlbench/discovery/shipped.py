"""The plugins that come with mlbench, imported: a process that forks for each run imports them once for all of them."""

from __future__ import annotations

from contextlib import suppress

from mlbench.discovery.plugins import GROUP
from mlbench.system.installed import find_installed
from mlbench.version import DISTRIBUTION

for _installed in find_installed(GROUP):
    if _installed.name == DISTRIBUTION:
        for _entry in _installed.entry_points:
            with suppress(Exception):  # `Plugins.discover` finds it again, and names it
                _entry.load()
