"""Facts that a run's process passes to the judge, in addition to LoadGen's logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlbench.records.job_spec import JobSpec
from mlbench.records.machine.processor_time import ProcessorTimeRecord
from mlbench.records.run_outcome import Observed
from mlbench.records.stored import Stored
from mlbench.rules.facts import SpotCheck, TimedAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedAnswer:
    """An answer to new content that was timed."""

    base: int
    """Dataset index of the sample that the content was made of."""
    change: str
    seed: int
    continuation: Sequence[int]
    data: str
    """The bytes of the answer, in hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Observations of a run's tests, and after them."""

    faults: Mapping[str, Sequence[str]]
    """Invalid replies, by the mode of the test."""
    issued: int
    """Samples that the performance test sent, by the SUT's count."""
    spots: SpotCheck | None
    unspotted_reason: str
    timed: Sequence[TimedAnswer] = ()
    """Some answers to new content that was timed."""
    length_across_passes: float | None = None
    makes_accuracy_test: bool = True
    """Whether the accuracy test is the run's own; False: an earlier run's was taken over."""
    perplexity: float | None = None
    """None: not asked for, or not measured."""


class MeasuredRun(Stored):
    """The result of a run's process."""

    observed: Observed
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorTime:
    """The processor time of a sample, or why it is unknown."""

    record: ProcessorTimeRecord | None = None
    reason: str = ""

    def added_to(self, observed: Observed) -> Observed:
        """Return a run's observations with it, or with the reason."""
        reasons = {"processor_time": self.reason} if self.reason else {}
        return observed.model_copy(
            update={"processor_time": self.record, "not_measured": {**observed.not_measured, **reasons}}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstBegins:
    """Progress: a burst is about to be sent."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstEnds:
    """Progress: a burst was answered, after a time by the clock of the run's process."""

    kind: str
    lasted_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Samples sent to an engine after the test, and how long they took by the parent's clock."""

    kind: str
    """``new``: content that it never saw; ``again``: what it was asked before."""
    said_ns: int
    """How long they took, by the clock of the run's process."""
    lasted_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overseen:
    """Observations of the parent of a run's process, by its own clock."""

    stages_ns: Mapping[str, int] = field(default_factory=dict)
    """How long each stage took."""
    bursts: Sequence[Burst] = ()
    """Bursts that were timed after the test, in their order."""

    answering_ns: int = 0
    """How long at least samples were answered in the performance test: from its first message that more were to the
    last."""

    @property
    def performance_ns(self) -> int | None:
        """How long the performance test and what belongs to it took."""
        return self.stages_ns.get("performance")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """Evidence about a run, in addition to its logs."""

    spec: JobSpec
    measured: MeasuredRun
    overseen: Overseen
    scored: TimedAnswers | None = None
    """How many timed answers are right; None: none were to be scored."""
    without: str = ""
    """The plugin that is not loaded: the backend's."""
