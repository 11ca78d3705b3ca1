"""The facts that a verdict is based on, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from mlbench.contracts.rules import CHECKED

if TYPE_CHECKING:
    from mlbench.contracts.metric import OutputDifference, Target
    from mlbench.contracts.scenario import Scenario
    from mlbench.contracts.workload import Profile, Weights
    from mlbench.rules.official import WorkloadRules
    from mlbench.rules.tiers import RunLimits, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCheck:
    """An engine's handling of unseen content right after the measurement."""

    repeated: float | None
    """Time for new content divided by the time for the same content again, the minimum of all rounds; None: unknown."""
    claimed: float | None
    """Measured speed divided by the speed on new content, the minimum of all rounds; None: unknown."""
    untimed_reason: str = ""
    """Reason why times are unknown."""
    asked: int
    """How many answers could be checked, for the kind of content with the most wrong answers."""
    wrong: Sequence[int] = ()
    """Dataset indices of samples with wrong answers, one entry per answer."""
    kind: str = ""
    """The change of these samples: ``under other indices``."""
    first_token_steps: float | None = None
    """Time to the first token of a single query, in decode steps; the maximum of all rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedAnswers:
    """Answers to new content that was timed, with the fp32 model's."""

    checked: int = 0
    """Those whose right answer differs from that of the known sample which the content was made of."""
    right: int = 0
    known_right: int = 0
    """How many answers to these known samples are as near to the model's."""
    reason: str = ""
    """Reason why none were checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswers:
    """Findings about logged answers of tokens."""

    checked: int
    faults: Sequence[str]
    """Faults found by TEST06, each naming its sample."""
    cut: Sequence[int]
    """Samples whose answers neither end nor are as long as allowed."""
    lengths: Sequence[tuple[int, int]] = ()
    """Tokens of answers kept while measuring, and of the accuracy test's to the same samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Everything the rules look at."""

    workload: str
    """The workload's name. One that borrows another's rules is judged by them, and is never conformant."""
    rules: WorkloadRules
    scenario: Scenario
    tier: Tier
    profile: Profile
    weights: Weights
    limits: RunLimits
    detail: Mapping[str, Any]
    """LoadGen's detail log of the performance run: the first value of each key."""
    loadgen_errors: Sequence[str] = ()
    """Messages of the log's error lines."""
    reply_faults: Sequence[str] | None = ()
    """Faults of replies, each naming its sample; None: replies were not checked."""
    replies_checked: int | None = None
    """How many replies of the performance run were compared with the accuracy run's; None: none could be."""
    replies_differing: Sequence[int] = ()
    """Sample indices of those that differ, one entry per reply."""
    reply_difference: float | None = None
    """Mean difference of those replies from the accuracy run's, 0 to 1; None: not measured."""
    reply_difference_limit: float = 0.0
    """The metric's limits at the run's precision; see `mlbench.contracts.metric.DifferenceLimits`."""
    unchecked_reason: str = ""
    """Reason why none could be checked."""
    length_across_passes: float | None = None
    """How strongly prompt length decides whether a sample starts before one of an earlier pass over the dataset: 0 not
    at all, 1 entirely. None: no query went over the dataset twice, or the model is not a language model."""
    truncated_prompts: int | str | None = None
    """How many prompts of the performance run the engine truncated, by its own count; a text if that is not a count;
    None: it does not report it."""
    late_clients: int | None = None
    """How many clients of a server could not keep up with it, by their own lag; None: there are none."""
    spot_check: SpotCheck | None = None
    """How the engine handled unseen content; None: it was not asked."""
    unspotted_reason: str = ""
    """Reason why it was not asked."""
    timed_answers: TimedAnswers | None = None
    """Answers to new content that was timed; None: there were none to score."""
    log_faults: Sequence[str] | None = None
    """Where LoadGen's logs contradict themselves or what was seen of the test; None: not looked at."""
    token_answers: TokenAnswers | None = None
    """Findings about logged answers; None: they are not tokens."""
    scores: Mapping[str, float] | None = None
    """Scores of the accuracy run; None: it has none."""
    targets: Sequence[Target] = ()
    """Their limits; in the open division none is required."""
    first_wrong: str = ""
    """See `Metric.first_wrong`."""
    is_open: bool = False
    """Whether the run is made for the open division."""
    unscored_reason: str = ""
    """Reason for missing scores."""
    equal_issue_configured: bool | None = None
    """Whether LoadGen was configured to send every sample equally often; None: only its log says so."""
    equal_issue_unknown: str = ""
    """Reason why neither may say so; empty: if neither says so, it was not done."""
    deviations: Sequence[str] = ()
    """Where the files of the full profile are not the official ones: ``planes 8, not 64``."""
    output_difference: OutputDifference | None = None
    """Difference of the accuracy run's outputs from the fp32 model's; None: there are no reference outputs."""
    differences_measured: tuple[OutputDifference, OutputDifference] | None = None
    """The same of replies kept while measuring, and of the accuracy run's to the same samples; None: likewise."""

    @property
    def rulebook(self) -> str:
        """Return the name of the official rules document of the run's round."""
        return f"MLPerf Inference {self.rules.round} rules"


class RuleKind(StrEnum):
    """Whether a rule is about the performance run or about accuracy."""

    PERFORMANCE = "performance"
    ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """One rule, applied."""

    rule: str
    """The rule's name: ``min_duration``, ``accuracy.F1@99``."""
    measured: float | int | bool | str | None
    """None: it is not in the log, which never passes."""
    limit: float | int | bool | str
    unit: str = ""
    passed: bool
    fix: str
    """The fix, with numbers; empty if passed."""
    source: str
    kind: RuleKind = RuleKind.PERFORMANCE
    required: bool = True
    """False: only reported."""

    def __post_init__(self) -> None:
        if self.passed:
            object.__setattr__(self, "fix", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of the rules on a run."""

    results: tuple[RuleResult, ...]
    not_applied: Mapping[str, str] = field(default_factory=dict)
    """Rules that could not be applied, and why."""
    is_official_setup: bool
    """A workload of the round, tier valid, profile full, trained weights, a scenario that the round defines for it."""

    @property
    def failed(self) -> tuple[RuleResult, ...]:
        """Failed required rules."""
        return tuple(result for result in self.results if result.required and not result.passed)

    @property
    def is_valid(self) -> bool:
        """Whether all rules about performance pass."""
        return not any(result.kind is RuleKind.PERFORMANCE for result in self.failed)

    @property
    def is_accurate(self) -> bool | None:
        """Whether every required target is met; None where no accuracy can be claimed, or none is required."""
        if not any(result.required for result in self._of_accuracy):
            return None
        return not any(result.kind is RuleKind.ACCURACY for result in self.failed)

    @property
    def is_conformant(self) -> bool:
        """Whether the run follows the official rules, as far as one run can: nothing relaxed or unchecked, all pass."""
        is_checked = self.not_applied.keys().isdisjoint(CHECKED)
        is_accurate = bool(self._of_accuracy) and self.is_accurate is not False
        return self.is_official_setup and self.is_valid and is_checked and is_accurate

    @property
    def _of_accuracy(self) -> list[RuleResult]:
        return [result for result in self.results if result.kind is RuleKind.ACCURACY]
