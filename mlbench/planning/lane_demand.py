"""Whether runs can be made side by side, and on which parts of this machine."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.power import AUTO, NONE
from mlbench.contracts.scenario import MOST_LANES
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.execution.lanes import Lane, make_lanes
from mlbench.planning.requests import ResolvedRequest, RunRequest

_ON_CPU = ("cpu", "none", "avx", "amx")
"""Prefixes of the device names by which backends mean the processor."""
_ELSEWHERE = "server"
"""Device that a backend reports if it uses a server."""
_ALONE = "Leave --parallel out: its runs are made one at a time."


def lanes_for(requests: Sequence[ResolvedRequest], plugins: Plugins, parallel: int) -> tuple[Lane, ...]:
    """Return the lanes on which some runs are made; none where they are made one at a time.

    A lane has an NVIDIA GPU or a slice of one where there are any and a backend may use them, and cores alone where all
    run on the processor.

    Raises:
        UsageError: a run needs more than one lane has, or would share it unnoticed with one beside it; there are fewer
            devices or cores than lanes.
    """
    if not 1 <= parallel <= MOST_LANES:
        raise UsageError(f"parallel is {parallel}.", hint=f"It lies from 1 to {MOST_LANES}.")
    if parallel == 1:
        return ()
    for request in requests:
        check_one_lane(request, request.settings.fill("execution", EnginePlan()))
    backends = dict.fromkeys(request.backend for request in requests)
    by_backend = {name: [*plugins.probe(name).devices] for name in backends}
    if others := [name for name, devices in by_backend.items() if _ELSEWHERE in devices]:
        raise UsageError(f"{others[0]} asks a server, which runs side by side would share.", hint=_ALONE)
    with_devices = any(not each.startswith(_ON_CPU) for devices in by_backend.values() for each in devices)
    lanes = make_lanes(parallel, with_devices=with_devices)
    _check_instances(requests, lanes)
    return lanes


def check_one_lane(request: RunRequest, plan: EnginePlan) -> None:
    """Check that a run asks for no more than one lane can have.

    Raises:
        UsageError: it asks for other machines, for devices by name, or for a power meter.
    """
    if request.network or plan.nodes:
        raise UsageError("--parallel is given with runs on other machines.", hint=_ALONE)
    if plan.devices:
        raise UsageError(
            f"--parallel is given together with execution.devices={plan.devices}.",
            hint="Each lane needs its own device, out of those in CUDA_VISIBLE_DEVICES.",
        )
    if request.power not in (AUTO, NONE):
        raise UsageError(f"power meter {request.power} would count all runs side by side.", hint=_ALONE)


def _check_instances(requests: Sequence[ResolvedRequest], lanes: Sequence[Lane]) -> None:
    fewest = min(len(lane.cores) for lane in lanes)
    for request in requests:
        instances = request.settings.fill("execution", EnginePlan()).instances
        if instances != "auto" and instances > fewest:
            raise UsageError(
                f"execution.instances is {instances} with {request.workload}, and a lane has {fewest} physical cores.",
                hint="Give fewer instances, or fewer lanes.",
            )
