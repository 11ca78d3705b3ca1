"""Rules about replies: valid, the same as in the accuracy run, and accurate."""

from __future__ import annotations

import math
from dataclasses import replace

from mlbench.contracts.metric import OutputDifference, Target
from mlbench.rules.facts import RuleKind, RuleResult, RunFacts

LEAST_AGREEMENT = 0.99
"""Least share of sampled replies that must equal the accuracy run's, by the metric.

The rules demand the same output of the same code; other batches round differently, and at low precision one reply in
some hundreds changes. One in a hundred is what the accuracy target allows.
"""

NAMED = 10
"""Most samples named in a fix."""


def official_files(facts: RunFacts) -> RuleResult | None:
    """The files of the full profile are the official ones; a smaller set of their form is only reported."""
    if not facts.deviations:
        return None
    return RuleResult(
        rule="official_files",
        measured=f"a smaller set: {'; '.join(facts.deviations)}",
        limit="the official ones",
        passed=False,
        fix="No run of it is official: leave out workload.smaller, and fetch the official files.",
        source=f"{facts.rulebook}: the models and data sets are given",
        required=False,
    )


def replies_sound(facts: RunFacts) -> RuleResult | None:
    """Every sample of the performance run was answered once, in the promised form."""
    if facts.reply_faults is None:
        return None
    count, first = len(facts.reply_faults), next(iter(facts.reply_faults), "")
    return RuleResult(
        rule="replies_sound",
        measured=count,
        limit=0,
        unit="faults",
        passed=count == 0,
        fix=f"Fix the backend. {count} bad replies; the first: {first}",
        source="mlbench: a wrong answer is never fast",
    )


def replies_agree(facts: RunFacts) -> RuleResult | None:
    """Replies sampled while measuring equal the accuracy run's replies to the same samples."""
    if facts.replies_checked is None:
        return None
    checked, differing = facts.replies_checked, facts.replies_differing
    share = (checked - len(differing)) / checked if checked else None
    passed = share is not None and share >= LEAST_AGREEMENT
    return RuleResult(
        rule="replies_agree",
        measured=share,
        limit=LEAST_AGREEMENT,
        passed=passed,
        fix=_agree(checked, sorted(set(differing))),
        source=f"{facts.rulebook}: the accuracy and the performance run use the same code; TEST01",
    )


def _agree(checked: int, differing: list[int]) -> str:
    if not checked:
        return "Raise load.reply_checks: no reply of the performance run was kept."
    named = ", ".join(map(str, differing[:NAMED])) + (", ..." if len(differing) > NAMED else "")
    return f"Compute the same in both runs; of {checked} replies checked, those to these samples differ: {named}."


def reply_difference(facts: RunFacts) -> RuleResult | None:
    """Replies sampled while measuring differ from the accuracy run's on average by no more than batching explains.

    `replies_agree` passes single replies that rounding may change a lot; here differences add up: other weights, other
    inputs or another precision change all replies.
    """
    if facts.reply_difference is None or not facts.replies_checked:
        return None
    found, limit = facts.reply_difference, facts.reply_difference_limit
    return RuleResult(
        rule="reply_difference",
        measured=found,
        limit=limit,
        passed=found <= limit,
        fix=f"Compute the same in both runs: the mean difference of {facts.replies_checked} replies from the accuracy "
        f"run's is {found:.3g}, where batching at this precision explains {limit:.3g}.",
        source=f"{facts.rulebook}: the accuracy and the performance run use the same code; TEST01",
    )


MOST_FARTHER = 2.0
"""How many times as far from the fp32 model replies may be as the accuracy run's to the same samples. A backend whose
results do not depend on the batch has 1; bf16 instead of fp32 has hundreds."""


def output_difference_measured(facts: RunFacts) -> RuleResult | None:
    """Replies kept while measuring are as close to the fp32 model's as the precision explains, or the accuracy run's.

    Where the accuracy run's own are too far, that is what the run is judged by.
    """
    if facts.differences_measured is None:
        return None
    measured, scored = facts.differences_measured
    if measured.bound is None or not scored.is_met:
        return None
    return RuleResult(
        rule="output_difference_measured",
        measured=measured.value if math.isfinite(measured.value) else None,
        limit=measured.bound,
        unit=measured.unit,
        passed=measured.is_met or measured.value <= MOST_FARTHER * scored.value,
        fix=f"Compute the same in both runs: the accuracy run's are {scored.value:.3g} away. {_nearer(measured)}",
        source=f"{facts.rulebook}: the accuracy and the performance run use the same code",
    )


def accuracy(facts: RunFacts) -> list[RuleResult]:
    """Every target, one result each; a score that is missing or not a number meets none."""
    if facts.scores is None:
        return []
    found = [_accuracy(facts, target, facts.scores.get(target.score, math.nan)) for target in facts.targets]
    missed = next((place for place, each in enumerate(found) if not each.passed), None)
    if missed is not None and facts.first_wrong:
        found[missed] = replace(found[missed], fix=f"{facts.first_wrong} {found[missed].fix}")
    return found


def _accuracy(facts: RunFacts, target: Target, score: float) -> RuleResult:
    passed = target.is_met_by(score)
    return RuleResult(
        rule=f"accuracy.{target.score}" + (f"@{target.name}" if target.name else ""),
        measured=None if math.isnan(score) else score,
        limit=_window(target),
        passed=passed,
        fix="Try fp32, then another backend.",
        source=f"submission checker {facts.rules.round}, accuracy-target",
        kind=RuleKind.ACCURACY,
        required=target.required,
    )


def _window(target: Target) -> float | str:
    """Return the bound of a target, or both as ``23.01 .. 23.95``."""
    ends = [end for end in (target.lower, target.upper) if end is not None]
    return ends[0] if len(ends) == 1 else " .. ".join(f"{end:.12g}" for end in ends)


def output_difference(facts: RunFacts) -> RuleResult | None:
    """The accuracy run's outputs are as close to the fp32 model's as those of honest runs of its precision."""
    difference = facts.output_difference
    if difference is None or difference.bound is None:
        return None
    return RuleResult(
        rule="output_difference",
        measured=difference.value if math.isfinite(difference.value) else None,
        limit=difference.bound,
        unit=difference.unit,
        passed=difference.is_met,
        fix=_nearer(difference),
        source="mlbench: mean difference of outputs from the fp32 model's, measured on honest and on damaged runs",
        kind=RuleKind.ACCURACY,
        required=not facts.is_open,
    )


def _nearer(difference: OutputDifference) -> str:
    """Return the fix for a difference, with the precisions that would explain it."""
    others = [name for name, bound in difference.bounds.items() if bound >= difference.value]
    found = f"Outputs are {difference.value:.3g} {difference.unit} from the fp32 model's"
    if not others:
        return f"{found}, more than any precision explains: weights, inputs or a graph are wrong; try mlbench check."
    return (
        f"{found}, as expected of {' or '.join(others)}: if that is the real precision, use --precision {others[0]}; "
        "else weights, inputs or a graph are wrong: try mlbench check."
    )
