"""Whether accuracy fell: a score is compared with the base's, not only with its target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlbench.records.run_record import PERPLEXITY, RunRecord

ACCURACY_MARGIN = 0.005
"""Scores within this relative margin count as equal: two of five hundred answers may change with the batches."""

ROUNDING_SHARE = 0.1
"""A difference is 0 at best, such as a model's from its reference: a change below this share of the allowed one is
rounding, however many times as large it is."""

_LOWER_IS_BETTER = ("FID_SCORE",)
"""Among the official scores; records of format 1 do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """An accuracy score on both sides: the worst of the repeats."""

    name: str
    base: float | None
    new: float | None
    lower_is_better: bool = False
    is_worse: bool = False
    """Worse than the base's by more than the margin."""
    reason: str = ""
    """Reason why it could not be judged; empty otherwise."""

    @property
    def change(self) -> float:
        """Relative improvement over the base's score; negative: worse."""
        if self.base is None or self.new is None or self.base == self.new:
            return 0.0
        gain = self.base - self.new if self.lower_is_better else self.new - self.base
        return gain / abs(self.base) if self.base else math.copysign(math.inf, gain)


def judge_scores(base: Sequence[RunRecord], new: Sequence[RunRecord], margin: float) -> list[Score]:
    """Return the scores that targets are about, and the perplexity that both sides have, each compared with the base's.

    Args:
        base: repeats, those that failed among them.
        new: likewise.
        margin: scores within this relative margin are not worse.
    """
    directions, rounding = dict[str, bool](), dict[str, float]()
    for record in (*base, *new):
        for target in record.accuracy.shown if record.accuracy else ():
            is_lower = target.lower_is_better or target.score in _LOWER_IS_BETTER
            directions[target.score] = directions.get(target.score, False) or is_lower
            if is_lower and not target.reference and target.upper:
                rounding[target.score] = ROUNDING_SHARE * target.upper
    judged = [_judge(name, base, new, margin, lower_is_better=lower) for name, lower in directions.items()]
    known = [each for each in judged if each.name != PERPLEXITY or not each.reason]  # else a side was not asked for it
    return [_without_rounding(each, rounding.get(each.name, 0.0)) for each in known]


def _without_rounding(score: Score, most: float) -> Score:
    """Return a score that is not worse where it grew by no more than rounding."""
    is_rounding = score.base is not None and score.new is not None and score.new - score.base <= most
    return replace(score, is_worse=False) if most and is_rounding else score


def are_targets_met(records: Sequence[RunRecord]) -> bool:
    """Return whether no run misses a required target; true where none ran for accuracy."""
    return all(record.accuracy.is_met for record in records if record.accuracy)


def _judge(
    name: str, base: Sequence[RunRecord], new: Sequence[RunRecord], margin: float, *, lower_is_better: bool
) -> Score:
    one, other = (_worst(side, name, lower_is_better=lower_is_better) for side in (base, new))
    if one is None:
        reason = "the base has no such score"
    elif other is None:
        is_run = any(record.accuracy for record in new)
        reason = "the new runs have no such score" if is_run else "accuracy was not run"
    else:
        reason = ""
    score = Score(name=name, base=one, new=other, lower_is_better=lower_is_better, reason=reason)
    return replace(score, is_worse=not reason and score.change < -margin)


def _worst(records: Sequence[RunRecord], name: str, *, lower_is_better: bool) -> float | None:
    scored = [record.accuracy for record in records if record.accuracy]
    values = [each.perplexity if name == PERPLEXITY else each.scores.get(name) for each in scored]
    known = [value for value in values if value is not None]
    if not known:
        return None
    return max(known) if lower_is_better else min(known)
