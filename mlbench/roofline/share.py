"""A run's share of the machine's peak rates."""

from __future__ import annotations

from typing import Literal

from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.records.work_record import RooflineRecord, WorkRecord
from mlbench.roofline.ceilings import Ceilings

ONCE = "run `mlbench roofline` once: the ceilings of this machine are not known"


def share_of(
    work: WorkRecord | None,
    precision: str,
    runtime: RuntimeFacts,
    ceilings: Ceilings | None,
    instances: int = 1,
) -> tuple[RooflineRecord | None, str]:
    """Return the work done per second and its share of the nearer ceiling, or why not.

    The nearer ceiling is the one that alone would take longer for the work of a sample.
    """
    device = runtime.device
    if not ceilings:
        return None, ONCE
    if not work or not work.samples_per_s:
        return None, "the work per sample is unknown"
    if device is None:
        return None, "the backend does not report its device"
    used = device if instances == 1 or device == "cpu" else f"{instances} x {device}"  # each may have one of its own
    found = next((each for each in ceilings.devices if each.device == used), None)
    if found is None:
        return None, f"the ceilings of {used} are not known"
    if precision not in found.operations:
        return None, f"no ceiling at {precision}: {found.not_measured.get(precision, 'not measured')}"
    operations_per_s = work.samples_per_s * work.operations_per_sample
    bytes_per_s = work.samples_per_s * work.bytes_per_sample
    shares: dict[Literal["compute", "memory"], float] = {
        "compute": operations_per_s / found.operations[precision].per_s,
        "memory": bytes_per_s / found.bytes.per_s,
    }
    bound = max(shares, key=lambda name: shares[name])
    share = RooflineRecord(
        device=device,
        precision=precision,
        operations_per_s=operations_per_s,
        bytes_per_s=bytes_per_s,
        operations_ceiling_per_s=found.operations[precision].per_s,
        bytes_ceiling_per_s=found.bytes.per_s,
        bound=bound,
        share=shares[bound],
        measured=ceilings.measured,
    )
    return share, ""
