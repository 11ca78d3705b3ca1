"""The plugins that come with mlbench, imported: a process that forks for each run imports them once for all of them.

Those from outside are not: one that starts a thread when it is imported would forbid forks to all runs. A workload of
theirs names what is safe to import in `Workload.preload_always`.
"""

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
