"""The kit for a workload: its mini profile, computed and damaged on a backend, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlbench.conformance.kit import MODULES_OF_KIT
from mlbench.conformance.workload_checks import WORKLOAD_CHECKS, WorkloadCheck
from mlbench.conformance.workload_subject import WorkloadSubject, WorkloadTrial
from mlbench.contracts.workload import Workload
from mlbench.discovery import Plugins
from mlbench.errors import UnavailableError
from mlbench.settings.layers import fill_template

COMPUTES = "pytorch"
"""The backend that computes, since damage is done to torch modules."""

COMPUTES_NOTHING = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCheckRequest:
    """Which workload to examine, and how."""

    workload: str
    """Its name, as in `mlbench list`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """``workload.<option>`` to value, as typed."""
    timeout_s: float = 60.0
    """For each check, from one answer to the next."""

    def subject(self) -> WorkloadSubject:
        """Return the workload on trial.

        Raises:
            UsageError: the workload or a setting is unknown.
            PluginError: the workload or a backend is broken, or a backend cannot run here.
        """
        plugins = Plugins.discover()
        workload = plugins.workload(self.workload)
        fill_template(workload.options, "workload", self.settings)
        check_available(plugins, COMPUTES, COMPUTES_NOTHING)
        trial = WorkloadTrial(workload, plugins.backend(COMPUTES), self.settings)
        return WorkloadSubject(trial=trial, null=plugins.backend(COMPUTES_NOTHING), timeout_s=self.timeout_s)

    def checks(self) -> Sequence[WorkloadCheck]:
        """Return all checks, once nothing is wrong with the request; raises as `subject`."""
        self.subject()
        return WORKLOAD_CHECKS

    def modules(self) -> Sequence[str]:
        """Return the modules that its checks import."""
        return modules_of(Plugins.discover().workload(self.workload))


def check_available(plugins: Plugins, *names: str) -> None:
    """Raise `UnavailableError` where a backend that the kit needs cannot run here."""
    for name in names:
        if not (probe := plugins.probe(name)).is_available:
            raise UnavailableError(f"{name}, which the kit needs, cannot run here: {probe.reason}.", hint=probe.install)


def modules_of(workload: Workload) -> tuple[str, ...]:
    """Return the modules that checks of a workload load."""
    return tuple(dict.fromkeys((*MODULES_OF_KIT, "torch", *workload.preload, *workload.preload_always)))
