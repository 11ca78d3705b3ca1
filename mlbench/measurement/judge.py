"""The judge of a run: reads LoadGen's logs in a process of its own, when the run's process and all it started are gone.

The backend's plugin is not loaded here. What it may have done to LoadGen's logs while they were its process's to write
is looked for: they must agree with themselves, with the SUT's count, and with the parent's clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from mlbench.contracts.backend import Backend, EnginePlan, Probe
from mlbench.contracts.model import Model
from mlbench.discovery import Plugins
from mlbench.execution.processes.channel import Channel
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail
from mlbench.loadgen.self_consistency import contradictions, lasted_s
from mlbench.loadgen.settings import Mode
from mlbench.measurement.audited import limits_of_job
from mlbench.measurement.evidence import Burst, Evidence, JudgeRequest, Overseen
from mlbench.measurement.job import Job
from mlbench.measurement.judging import judge_run
from mlbench.measurement.spot_times import TOO_FAST
from mlbench.records.job_spec import JobSpec
from mlbench.records.run_outcome import JudgedPart
from mlbench.rules.answers import MOST_REPEATED
from mlbench.rules.facts import SpotCheck

UNLIKE = "the clock of the run's process is not its parent's"
_SLOW_NS, _SLOW_SHARE = 250_000_000, 0.2
"""By how much a parent may see a burst longer or shorter than it was."""
_SLACK_NS, _SLACK_SHARE = 1_000_000_000, 0.05
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
    dataset, model = job.workload.dataset(job.variant), job.model()
    detail = read_detail(job.folder / Mode.PERFORMANCE / DETAIL)
    judgement = judge_run(
        job,
        limits_of_job(job, dataset, model),
        detail,
        {Mode(mode): faults for mode, faults in evidence.faults.items()},
        job.workload.metric(job.variant, dataset) if job.spec.wants_accuracy else None,
        model=model,
        spots=(timed_from_outside(evidence, request.overseen), evidence.unspotted_reason),
        timed=request.scored,
        statistics=request.measured.observed.engine,
        length_across_passes=evidence.length_across_passes,
        log_faults=list(log_faults(job.folder, detail, evidence, request.overseen)),
    )
    if judgement.accuracy:
        beside = judgement.accuracy.model_copy(update={"perplexity": evidence.perplexity})
        judgement = replace(judgement, accuracy=beside)
    return JudgedPart.model_validate(judgement)


def job_without_backend(spec: JobSpec, plugins: Plugins) -> Job:
    """Return a job whose backend is none, since its plugin is not loaded."""
    return Job.of_spec(spec, plugins, backend=_Absent())


def timed_from_outside(evidence: Evidence, overseen: Overseen) -> SpotCheck | None:
    """Return what was found, as far as the parent's clock bears out the times that the run's process took.

    Where it does not, an engine is accused only of what no late message explains; it is not checked otherwise.
    """
    spots, bursts = evidence.spots, overseen.bursts
    if spots is None or not bursts or spots.untimed_reason not in ("", TOO_FAST):
        return spots
    if not spots.untimed_reason and not any(map(_is_denied, bursts)):
        return spots  # as exact as a clock beside the engine, and true
    unknown = replace(spots, repeated=None, claimed=None, untimed_reason=spots.untimed_reason or UNLIKE)
    surely = [max(0, new.lasted_ns - _SLOW_NS) / (again.lasted_ns + _SLOW_NS) for new, again in _paired(bursts)]
    if not surely or min(surely) < MOST_REPEATED:
        return unknown
    return replace(spots, repeated=min(surely), claimed=None, untimed_reason="")


def _is_denied(burst: Burst) -> bool:
    """Return whether the parent's clock denies what the process says of a burst, beyond late messages."""
    return abs(burst.lasted_ns - burst.said_ns) > _SLOW_NS + _SLOW_SHARE * burst.lasted_ns


def _paired(bursts: Sequence[Burst]) -> Iterator[tuple[Burst, Burst]]:
    """Yield each burst of known content with the one of new content before it."""
    for new, again in pairwise(bursts):
        if (new.kind, again.kind) == ("new", "again"):
            yield new, again


class _Absent(Backend):
    """Stands for the backend that made the run."""

    name = "absent"

    def probe(self) -> Probe:
        """Say that it is not here."""
        return Probe(is_available=False, reason="the judge runs no engine")

    def engine(self, model: Model, plan: EnginePlan) -> None:
        """Return none."""


def log_faults(folder: Path, detail: DetailLog, evidence: Evidence, overseen: Overseen) -> Iterator[str]:
    """Yield where LoadGen's log cannot be what LoadGen wrote of this test."""
    yield from contradictions(folder)
    values = detail.values
    counts = [values.get(key) for key in ("result_query_count", "generated_samples_per_query")]
    sent = math.prod(count if type(count) is int else 0 for count in counts)
    if sent != evidence.issued:
        yield f"it counts {sent} samples, and the SUT was sent {evidence.issued}"
    logged_ns = (lasted_s(detail) or 0.0) * 1e9
    if logged_ns < overseen.answering_ns - _SLACK_NS - _SLACK_SHARE * overseen.answering_ns:
        yield f"it lasted {logged_ns / 1e9:.3f} s, and samples were answered for {overseen.answering_ns / 1e9:.3f} s"
    if overseen.performance_ns is not None and logged_ns > overseen.performance_ns + _SLACK_NS:
        yield f"it lasted {logged_ns / 1e9:.3f} s, and {overseen.performance_ns / 1e9:.3f} s by the parent's clock"
