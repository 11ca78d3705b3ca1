"""Checks the requested number of instances."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.scenario import Scenario
from mlbench.errors import UsageError
from mlbench.execution.cores import Core, physical_cores
from mlbench.execution.devices import named_devices


def check_demand(plan: EnginePlan, scenario: Scenario) -> None:
    """Check how many instances a plan asks for in a scenario.

    Raises:
        UsageError: fewer than one, more than cores, a sweep where none can be made, or devices that are not here or
            would have no instance.
    """
    if devices := named_devices(plan.devices):
        if plan.instances == "auto" or plan.instances < len(devices):
            raise UsageError(
                f"execution.instances is {plan.instances}, and execution.devices names {len(devices)}.",
                hint=f"Give at least as many instances: execution.instances={len(devices)}.",
            )
    if plan.instances == 1:
        return
    asked = f"execution.instances is {plan.instances}"
    if plan.instances == "auto":
        if not scenario.sends_all_at_once:
            raise UsageError(
                f"{asked} in {scenario.name}.", hint="A sweep needs Offline; give the number that it chose."
            )
        return
    cores_for(plan.instances)


def cores_for(instances: int) -> Sequence[Core]:
    """Return the cores that so many instances have between them: all that this process may use.

    Raises:
        UsageError: fewer than one instance, or more than cores.
    """
    cores = physical_cores()
    if not 1 <= instances <= len(cores):
        raise UsageError(
            f"execution.instances is {instances}, and this process may use {len(cores)} physical cores.",
            hint=f"Expected 1 to {len(cores)}, or auto.",
        )
    return cores
