"""The judge of a run: reads LoadGen's logs in a process of its own, when the run's process and all it started are gone.

The backend's plugin is not loaded here. What it may have done to LoadGen's logs while they were its process's to write
is looked for: they must agree with themselves, with the SUT's count, and with the parent's clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from mlbench.contracts.backend import Backend, EnginePlan, Probe
from mlbench.contracts.load_pattern import MOMENT
from mlbench.contracts.model import Model
from mlbench.discovery import Plugins
from mlbench.evidence import Burst, Evidence, JudgeRequest, Overseen
from mlbench.execution.channel import Channel
from mlbench.loadgen.drive import Traffic
from mlbench.loadgen.ledger import Ledger
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail, samples_per_s
from mlbench.loadgen.self_consistency import contradictions
from mlbench.loadgen.settings import Mode
from mlbench.measurement.audited import audited_limits
from mlbench.measurement.job import Job
from mlbench.measurement.judging import judge_run
from mlbench.measurement.spot_times import SHORT_NS, TOO_FAST
from mlbench.records.job_spec import JobSpec
from mlbench.records.run_outcome import JudgedPart
from mlbench.rules.facts import SpotCheck
from mlbench.rules.tiers import fit_to, limits_of, with_own_limits

_SLACK_NS, _SLACK_SHARE = 500_000_000, 0.1
"""By how much LoadGen's clock and the parent's may differ: messages arrive late on a busy machine."""


def judge(request: JudgeRequest, channel: Channel) -> JudgedPart:
    """Score the replies, apply the rules, and return the verdict. Called in a fresh process.

    Raises:
        MlbenchError: a log cannot be read, or a value cannot be stored.
    """
    channel.progress("score")
    spec, evidence = request.spec, request.measured.evidence
    if evidence.makes_accuracy_test:  # an earlier run's was perhaps to be taken over, and was gone
        spec = replace(spec, accuracy_of="")
    job = job_without_backend(spec, Plugins.discover(without=request.without))
    dataset, model = job.workload.dataset(job.variant), job.workload.model(job.variant)
    by_rules = limits_of(job.workload, dataset, job.scenario, job.tier, job.variant.profile)
    limits = audited_limits(with_own_limits(fit_to(by_rules, dataset, model), job.load), job)
    detail = read_detail(job.folder / Mode.PERFORMANCE / DETAIL)
    judgement = judge_run(
        job,
        limits,
        detail,
        {Mode(mode): NotedTraffic(faults) for mode, faults in evidence.faults.items()},
        job.workload.metric(job.variant, dataset) if job.spec.wants_accuracy else None,
        model=model,
        spots=(timed_from_outside(evidence, request.overseen, job, detail), evidence.unspotted_reason),
        timed=request.scored,
        statistics=request.measured.observed.engine,
        length_across_passes=evidence.length_across_passes,
        log_faults=list(log_faults(job.folder, detail, evidence, request.overseen)),
    )
    return JudgedPart.model_validate(judgement)


def job_without_backend(spec: JobSpec, plugins: Plugins) -> Job:
    """Return a job whose backend is none, since its plugin is not loaded."""
    return Job.of_spec(spec, plugins, backend=_Absent())


def timed_from_outside(evidence: Evidence, overseen: Overseen, job: Job, detail: DetailLog) -> SpotCheck | None:
    """Return what was found with the times that the parent took, which no clock of the run's process decides."""
    spots = evidence.spots
    if spots is None or not overseen.bursts or spots.untimed_reason not in ("", TOO_FAST):
        return spots
    pairs = list(_paired(overseen.bursts))
    longest_ns = max((new.lasted_ns for new, _ in pairs), default=0)
    if longest_ns < SHORT_NS:
        return replace(spots, repeated=None, claimed=None, untimed_reason=TOO_FAST)
    repeated = min(new.unit_ns / again.unit_ns for new, again in pairs)
    rate_per_s = (samples_per_s(detail, job.scenario) or 0.0) * evidence.units_per_sample
    claimed = min(rate_per_s * new.unit_ns / 1e9 for new, _ in pairs)
    return replace(spots, repeated=repeated, claimed=claimed if pairs[-1][0].fills else None, untimed_reason="")


def _paired(bursts: Sequence[Burst]) -> Iterator[tuple[Burst, Burst]]:
    """Yield each burst of known content with the one of new content before it."""
    for new, again in pairwise(bursts):
        if (new.kind, again.kind) == ("new", "again") and new.units and again.units and again.lasted_ns:
            yield new, again


class _Absent(Backend):
    """Stands for the backend that made the run."""

    name = "absent"

    def probe(self) -> Probe:
        """Say that it is not here."""
        return Probe(is_available=False, reason="the judge runs no engine")

    def engine(self, model: Model, plan: EnginePlan) -> None:
        """Return none."""


class NotedTraffic(Traffic):
    """The faults of a test, as they were noted."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(Ledger())
        self._faults = list(faults)

    @property
    def faults(self) -> list[str]:
        """Return them."""
        return self._faults


def log_faults(folder: Path, detail: DetailLog, evidence: Evidence, overseen: Overseen) -> Iterator[str]:
    """Yield where LoadGen's log cannot be what LoadGen wrote of this test."""
    yield from contradictions(folder)
    values = detail.values
    sent = int(values.get("result_query_count", 0)) * int(values.get("generated_samples_per_query", 0))
    if sent != evidence.issued:
        yield f"it counts {sent} samples, and the SUT was sent {evidence.issued}"
    begun, ended = (datetime.strptime(str(values.get(key)), MOMENT) for key in ("power_begin", "power_end"))
    logged_ns = (ended - begun).total_seconds() * 1e9
    if logged_ns < overseen.answering_ns - _SLACK_NS - _SLACK_SHARE * overseen.answering_ns:
        yield f"it lasted {logged_ns / 1e9:.3f} s, and samples were answered for {overseen.answering_ns / 1e9:.3f} s"
    if overseen.performance_ns is not None and logged_ns > overseen.performance_ns + _SLACK_NS:
        yield f"it lasted {logged_ns / 1e9:.3f} s, and {overseen.performance_ns / 1e9:.3f} s by the parent's clock"
