"""The plugins that come with mlbench, imported: a process that forks for each run imports them once for all of them.

So it does with what they import as they name what they bring, and with the rules that this is checked by.

Those from outside are not: one that starts a thread when it is imported would forbid forks to all runs. A workload of
theirs names what is safe to import in `Workload.preload_always`.
"""

from __future__ import annotations

from contextlib import suppress

import mlbench.execution.batch_sweep
import mlbench.execution.composed_engine  # noqa: F401 - most engines need it, and no discovery
from mlbench.contracts import hookspecs
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.discovery import validation
from mlbench.discovery.plugins import GROUP
from mlbench.rules.round_files import read_tables
from mlbench.system.installed import find_installed
from mlbench.version import DISTRIBUTION

_HOOKS = {
    hookspecs.mlbench_scenarios: validation.check_scenario,
    hookspecs.mlbench_workloads: validation.check_workload,
    hookspecs.mlbench_backends: validation.check_backend,
    hookspecs.mlbench_power_meters: validation.check_power_meter,
    hookspecs.mlbench_sensors: validation.check_sensor,
    hookspecs.mlbench_transforms: validation.check_transform,
    hookspecs.mlbench_commands: id,
}
"""And the check of what each names, which reads rules and resolves annotations once for all discoveries."""

read_tables(DEFAULT_ROUND)
for _installed in find_installed(GROUP):
    if _installed.name == DISTRIBUTION:
        for _entry in _installed.entry_points:
            with suppress(Exception):  # `Plugins.discover` finds it again, and names it
                _plugin = _entry.load()
                for _hook, _check in _HOOKS.items():
                    for _brought in getattr(_plugin, _hook.__name__, list)():
                        _check(_brought)
