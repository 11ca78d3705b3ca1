"""What a run took besides its time per sample: memory, time to start, work. Fewer is better, always."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from mlbench.comparison.measures import Measure
from mlbench.records.machine.processor_time import FEW
from mlbench.records.run_record import EXPORT, RunRecord

_STAGES: Mapping[str, str] = {"load": "time to load", "compile": "time to compile", "warm-up": "time to warm up"}
"""Stages of a run that a user waits for before the first answer. ``start`` is not among them: it is long in the first
run of a command, in which mlbench imports what later ones share."""


def resources_of(record: RunRecord) -> Iterator[Measure]:
    """Yield the resources that a completed run took, as numbers above zero.

    What the first run of an installation does once is left out, with all that it changes: a run that searched for a
    batch size says nothing about memory and warm-up, one that exported graphs nothing about the time to compile.
    """
    has_searched = bool(record.engine.sweep_per_s)
    if not has_searched:
        yield from _memory(record)
    for stage, name in _STAGES.items():
        is_once = (stage == "warm-up" and has_searched) or (stage == "compile" and record.stages_ns.get(EXPORT))
        if (spent_ns := record.stages_ns.get(stage)) and not is_once:
            yield _amount(name, spent_ns, "ns", "start-up")
    yield from _work(record)


def processor_time_of(record: RunRecord) -> Iterator[Measure]:
    """Yield the processor time of a sample or token, if it was measured: on an accelerator it is the host's share.

    It was taken in a pass of its own, so it does not depend on the batch or the load of the test. Other reference work
    makes it another number, and so do fewer samples, as of slow models.
    """
    if found := record.processor_time:
        share = "host's " if found.covers == "host" else ""
        against = " (against checksums)" if found.reference == "checksums" else ""
        few = f" of {found.samples}" if found.samples == FEW else ""
        name = f"{share}processor time per {found.unit}{few}{against}"
        measure = _amount(name, found.relative_ns, "ns", "processor time")
        beside = found.side_by_side
        yield replace(measure, partner=beside.run_id, ratio=beside.ratio) if beside else measure


def _memory(record: RunRecord) -> Iterator[Measure]:
    amounts = {
        "peak memory": record.peak_memory_bytes,
        "peak memory of the device": record.runtime.device_peak_memory_bytes,
    }
    for name, amount_bytes in amounts.items():
        if amount_bytes:
            yield _amount(name, amount_bytes, "bytes", "memory")


def _work(record: RunRecord) -> Iterator[Measure]:
    """Yield counts of the performance test; records of machines without known ceilings have none."""
    if not record.work:
        return
    if (calls := sum(each.calls for each in record.work.graphs)) and record.engine.samples:
        yield _amount("graph calls per sample", calls / record.engine.samples, "calls", "work")
    if record.work.operations_per_sample > 0:
        yield _amount("operations per sample", record.work.operations_per_sample, "operations", "work")


def _amount(name: str, value: float, unit: str, kind: str) -> Measure:
    return Measure(name=name, value=value, unit=unit, higher_is_better=False, kind=kind)


def setup_of(record: RunRecord) -> str:
    """Return what memory and start-up depend on though settings leave it to the run."""
    batch = "unknown" if record.engine.batch is None else record.engine.batch
    accuracy = "with" if "accuracy" in record.stages_ns else "without"
    return f"batch {batch}, instances {record.engine.instances or 1}, {accuracy} an accuracy test"
