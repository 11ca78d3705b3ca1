"""Values of a record that follow from LoadGen's logs and from measurements that only the record has."""

from __future__ import annotations

from mlbench.loadgen.logs import DetailLog, samples_per_s, tokens_of
from mlbench.measurement.job import Job
from mlbench.measurement.transfers import per_sample
from mlbench.records.run_record import RunRecord
from mlbench.records.transfers_record import TransfersRecord
from mlbench.records.work_record import EnergyRecord, RooflineRecord, WorkRecord


def derive_energy(record: RunRecord, job: Job, detail: DetailLog, issued: int) -> EnergyRecord | None:
    """Return joules per sample and token; None if the record has no joules."""
    if not record.energy:
        return None
    joules = record.energy.joules
    tokens = tokens_of(detail, job.scenario, job.rules.token_key_of(job.scenario))
    return EnergyRecord.model_construct(
        joules_per_sample=joules / issued if issued else None, joules_per_token=joules / tokens if tokens else None
    )


def derive_transfers(record: RunRecord, issued: int) -> TransfersRecord | None:
    """Return graph calls and bytes per sample; None if the record has none."""
    if not record.transfers:
        return None
    calls_per_sample, bytes_per_sample = per_sample(record.transfers.graphs, max(issued, 1))
    return TransfersRecord.model_construct(calls_per_sample=calls_per_sample, bytes_per_sample=bytes_per_sample)


def derive_work(record: RunRecord, job: Job, detail: DetailLog, issued: int) -> WorkRecord | None:
    """Return operations and bytes per sample, and the log's rate of samples; None if the record has no graph calls."""
    if not record.work:
        return None
    graphs, samples = record.work.graphs, max(issued, 1)
    return WorkRecord.model_construct(
        operations_per_sample=sum(graph.operations for graph in graphs) / samples,
        bytes_per_sample=sum(graph.bytes for graph in graphs) / samples,
        samples_per_s=samples_per_s(detail, job.scenario),
    )


def derive_roofline(record: RunRecord, job: Job, work: WorkRecord | None) -> RooflineRecord | None:
    """Return how near the run is to the ceilings in the record; None if it has none."""
    ceilings = record.roofline
    if not ceilings:
        return None
    rate_per_s = work.samples_per_s or 0.0 if work else 0.0
    operations_per_s = rate_per_s * work.operations_per_sample if work else 0.0
    bytes_per_s = rate_per_s * work.bytes_per_sample if work else 0.0
    compute = operations_per_s / ceilings.operations_ceiling_per_s
    memory = bytes_per_s / ceilings.bytes_ceiling_per_s
    return RooflineRecord.model_construct(
        device=record.runtime.device,
        precision=str(job.plan.precision),
        operations_per_s=operations_per_s,
        bytes_per_s=bytes_per_s,
        bound="compute" if compute >= memory else "memory",
        share=max(compute, memory),
    )
