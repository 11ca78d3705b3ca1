"""The kit for a transform: applied to a workload's mini profile and computed, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlbench.conformance.transform_checks import TRANSFORM_CHECKS, TransformCheck, TransformSubject
from mlbench.conformance.workload_kit import COMPUTES, check_available, modules_of
from mlbench.conformance.workload_subject import WorkloadTrial
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.settings.layers import fill_template
from mlbench.settings.transforms import choose_transforms


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformCheckRequest:
    """Which transform to examine, and how."""

    transform: str
    """With its options: ``prune-layers:0.25``."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """``workload.<option>`` to value, as typed, of the workload that it is checked on."""
    timeout_s: float = 60.0
    """For each check, from one answer to the next."""

    def subject(self) -> TransformSubject:
        """Return the transform on trial.

        Raises:
            UsageError: the transform, an option of it, its workload or a setting is unknown.
            PluginError: a plugin is broken, or a backend cannot run here.
        """
        plugins = Plugins.discover()
        (transform,) = choose_transforms(self.transform, plugins)
        if transform.writes_files:
            raise UsageError(
                f"{transform.name} writes files for engines that load them, and the kit computes graphs.",
                hint=f"Run it: mlbench run WORKLOAD --backend vllm --transform {transform.name}.",
            )
        if transform.checked_on not in plugins.workloads:
            raise UsageError(
                f"{transform.name} is checked on {transform.checked_on}, which is not installed.",
                hint="Install that workload, or name another one in checked_on.",
            )
        workload = plugins.workload(transform.checked_on)
        fill_template(workload.options, "workload", self.settings)
        check_available(plugins, COMPUTES)
        backend = plugins.backend(COMPUTES)
        eager = backend.with_options(replace(backend.options, compile=False))
        trial = WorkloadTrial(workload, eager, self.settings)
        return TransformSubject(transform=transform, trial=trial, timeout_s=self.timeout_s)

    def checks(self) -> Sequence[TransformCheck]:
        """Return all checks, once nothing is wrong with the request; raises as `subject`."""
        self.subject()
        return TRANSFORM_CHECKS

    def modules(self) -> Sequence[str]:
        """Return the modules that its checks import."""
        return modules_of(self.subject().trial.workload)
