"""What a verdict is made from, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlbench.contracts.metric import OutputDifference, Target
    from mlbench.contracts.scenario import Scenario
    from mlbench.contracts.workload import Profile, Weights
    from mlbench.rules.official import WorkloadRules
    from mlbench.rules.tiers import RunLimits, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCheck:
    """What an engine did with content that it could not know, right after it was measured."""

    repeated: float | None
    """Time for new content over time for the same content again, the least of all rounds; None: it cannot be told."""
    claimed: float | None
    """Measured speed over the speed on new content, the least of all rounds; None: it cannot be told."""
    untimed_reason: str = ""
    """Why times cannot be told."""
    asked: int
    """How many answers could be held against what is known of them, of the kind of content with most wrong ones."""
    wrong: Sequence[int] = ()
    """The samples, by dataset index, whose content was answered with something else, one entry per answer."""
    kind: str = ""
    """What was done to these samples: ``under other indices``."""
    first_token_steps: float | None = None
    """Time to the first token, alone, in steps from one token to the next; the most of all rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswers:
    """What was found in logged answers of tokens."""

    checked: int
    faults: Sequence[str]
    """What TEST06 finds wrong, each naming its sample."""
    cut: Sequence[int]
    """Samples whose answers neither end nor are as long as allowed."""
    lengths: Sequence[tuple[int, int]] = ()
    """Tokens of answers kept while measuring, and of the accuracy test's to the same samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """All that the rules look at."""

    workload: str
    """Its name. One that borrows the rules of another is held to them, and is never conformant."""
    rules: WorkloadRules
    scenario: Scenario
    tier: Tier
    profile: Profile
    weights: Weights
    limits: RunLimits
    detail: Mapping[str, Any]
    """Of the performance run: the first value of each key of LoadGen's detail log."""
    loadgen_errors: Sequence[str] = ()
    """What its error lines say."""
    reply_faults: Sequence[str] | None = ()
    """What was wrong with replies, each naming its sample; None: nobody looked at them."""
    replies_checked: int | None = None
    """How many replies of the performance run were held against the accuracy run's; None: none could be."""
    replies_differing: Sequence[int] = ()
    """Sample indices of those that differ, one entry per reply."""
    reply_difference: float | None = None
    """The mean of how far those replies are from the accuracy run's, 0 to 1; None: nobody measured it."""
    reply_difference_limit: float = 0.0
    """What the metric allows at the run's precision; see `mlbench.contracts.metric.DifferenceLimits`."""
    unchecked_reason: str = ""
    """Why none could be checked."""
    length_across_passes: float | None = None
    """How far the length of prompts decides whether a sample begins before one of an earlier pass over the dataset:
    0 not at all, 1 alone. None: no query went over the dataset twice, or the model is not a language model."""
    truncated_prompts: int | str | None = None
    """How many prompts of the performance run the engine did not read to their end, by its own count; a text where that
    is no count; None: it does not tell."""
    spot_check: SpotCheck | None = None
    """What the engine did with content that it could not know; None: it was not asked."""
    unspotted_reason: str = ""
    """Why it was not."""
    token_answers: TokenAnswers | None = None
    """What was found in logged answers; None: they are not tokens."""
    scores: Mapping[str, float] | None = None
    """Of the accuracy run; None: it has none."""
    targets: Sequence[Target] = ()
    unscored_reason: str = ""
    """Why there are no scores."""
    equal_issue_configured: bool | None = None
    """Whether LoadGen was configured to send every sample equally often; None: its log alone says."""
    equal_issue_unknown: str = ""
    """Why neither may say so; empty: what is not said was not done."""
    output_difference: OutputDifference | None = None
    """How far the accuracy run's outputs are from the fp32 model's; None: there is nothing to compare with."""


class RuleKind(StrEnum):
    """Whether a rule speaks of how the run was made or of how right its answers are."""

    PERFORMANCE = "performance"
    ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """One rule, applied."""

    rule: str
    """Its name: ``min_duration``, ``accuracy.F1@99``."""
    measured: float | int | bool | str | None
    """None: the log does not say, which never passes."""
    limit: float | int | bool | str
    unit: str
    passed: bool
    fix: str
    """What to do about it, with numbers; emptied when passed."""
    source: str
    kind: RuleKind = RuleKind.PERFORMANCE
    required: bool = True
    """False: reported, and decides nothing."""

    def __post_init__(self) -> None:
        if self.passed:
            object.__setattr__(self, "fix", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the rules say about a run."""

    results: tuple[RuleResult, ...]
    not_applied: Mapping[str, str] = field(default_factory=dict)
    """Rules that could not be applied, and why."""
    is_official_setup: bool
    """One of the nine workloads, tier valid, profile full, trained weights, a scenario that v4.1 defines for it."""

    @property
    def failed(self) -> tuple[RuleResult, ...]:
        """The required rules that failed."""
        return tuple(result for result in self.results if result.required and not result.passed)

    @property
    def is_valid(self) -> bool:
        """Whether all rules about performance pass."""
        return not any(result.kind is RuleKind.PERFORMANCE for result in self.failed)

    @property
    def is_accurate(self) -> bool | None:
        """Whether every required target is met; None where no accuracy can be claimed."""
        if not any(result.kind is RuleKind.ACCURACY for result in self.results):
            return None
        return not any(result.kind is RuleKind.ACCURACY for result in self.failed)

    @property
    def is_conformant(self) -> bool:
        """Whether the run follows the official rules, as far as one run can: nothing relaxed, all rules pass."""
        return self.is_official_setup and self.is_valid and self.is_accurate is True
