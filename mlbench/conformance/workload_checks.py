"""Requirements for a workload: it is reproducible, and its target detects wrong answers."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

from mlbench.conformance.damage import exchange_all, exchange_tenth, noise, shuffle, zero
from mlbench.conformance.preparation import prepare_elsewhere
from mlbench.conformance.subject import demand
from mlbench.conformance.workload_subject import WorkloadSubject
from mlbench.contracts.metric import LoggedReply
from mlbench.contracts.precision import Precision
from mlbench.rules.scoring import Accuracy, agreement

WorkloadCheck = Callable[[WorkloadSubject], None]
"""Returns when the workload does what the check's docstring demands; else raises `ConformanceError`."""

_SENSITIVE = "Broken answers must miss a target: score more, use more samples, or raise the target."
_SCORE_TOLERANCE = 1e-6
_MOST_DIFFERING = 0.01
"""The share that a run allows."""


def prepares_the_same_each_time(subject: WorkloadSubject) -> None:
    """Two processes prepare the same samples, graphs and weights, whatever the order of their sets."""
    trial = subject.trial
    one, other = (prepare_elsewhere(trial.workload.name, trial.settings, hash_seed=seed) for seed in (1, 2))
    demand(
        not (difference := one.difference_from(other)),
        f"a second preparation differs: {difference}.",
        "Seed random generators, and sort items of sets and folders.",
    )


def meets_its_targets(subject: WorkloadSubject) -> None:
    """The trained model, computed in fp32, meets every required target."""
    found = subject.trial.score(subject.trial.honest)
    demand(found is not None, "the metric refuses the trained model's replies.", "Check the program's output.")
    assert found
    demand(found.is_met, f"the trained model misses its target: {_spell(found)}.", "Measure the reference again.")


def gives_stable_replies(subject: WorkloadSubject) -> None:
    """The same samples, one at a time, get the replies that they got in batches, within the metric's limits."""
    trial = subject.trial
    found = agreement(trial.metric(), trial.answer(batch=1), trial.honest, Precision.FP32)
    is_stable = len(found.differing) <= _MOST_DIFFERING * found.checked and found.mean <= found.limits.mean
    first = next(iter(found.differing), "none")
    demand(
        is_stable,
        f"of {found.checked} replies {len(found.differing)} change with the batch (first: {first}), "
        f"by {found.mean:.3g} on average, where {found.limits.mean:.3g} is allowed.",
        "Keep no state between calls, let no sample change another's, or see Metric.difference where rounding differs.",
    )


def scores_replies_in_any_order(subject: WorkloadSubject) -> None:
    """Replies are scored alike in whatever order they were completed."""
    trial = subject.trial
    jumbled = list(trial.honest)
    random.Random(1).shuffle(jumbled)
    one, other = trial.score(trial.honest), trial.score(jumbled)
    demand(one is not None and other is not None, "the metric refuses replies in another order.", "Go by their index.")
    assert one
    assert other
    moved = [
        name
        for name, value in one.scores.items()
        if abs(value - other.scores[name]) > _SCORE_TOLERANCE * max(1.0, abs(value))
    ]
    demand(not moved, f"scores depend on the order of replies: {', '.join(moved)}.", "Go by the index of each reply.")


def refuses_cut_replies(subject: WorkloadSubject) -> None:
    """Replies that lack their last byte raise `InvalidRunError` or miss the target, and crash nothing."""
    _demand_missed(subject, [dataclasses.replace(each, data=each.data[:-1]) for each in subject.trial.honest])


def refuses_empty_replies(subject: WorkloadSubject) -> None:
    """Empty replies raise `InvalidRunError` or miss the target, and crash nothing."""
    _demand_missed(subject, [dataclasses.replace(each, data=b"") for each in subject.trial.honest])


def misses_where_nothing_is_computed(subject: WorkloadSubject) -> None:
    """A backend that answers zeros of the promised form misses a required target."""
    _demand_missed(subject, subject.trial.answer(backend=subject.null))


def misses_with_zeroed_weights(subject: WorkloadSubject) -> None:
    """A model whose weights are all 0 misses a required target."""
    _demand_missed(subject, subject.trial.answer(change=zero()))


def misses_with_shuffled_weights(subject: WorkloadSubject) -> None:
    """A model whose weights are in another order misses a required target."""
    _demand_missed(subject, subject.trial.answer(change=shuffle()))


def misses_with_noisy_weights(subject: WorkloadSubject) -> None:
    """A model whose weights have as much noise as they have spread misses a required target."""
    _demand_missed(subject, subject.trial.answer(change=noise(1.0)))


def misses_with_exchanged_answers(subject: WorkloadSubject) -> None:
    """Sound answers, each given to another sample, miss a required target."""
    _demand_missed(subject, exchange_all(subject.trial.honest))


def misses_with_a_tenth_exchanged(subject: WorkloadSubject) -> None:
    """Sound answers of which every tenth is another sample's miss a required target."""
    _demand_missed(subject, exchange_tenth(subject.trial.honest))


def _demand_missed(subject: WorkloadSubject, replies: Sequence[LoggedReply]) -> None:
    found = subject.trial.score(replies)
    is_met = found is not None and found.is_met
    demand(not is_met, f"the target is met all the same: {_spell(found)}.", _SENSITIVE)


def _spell(found: Accuracy | None) -> str:
    """Return the scores with their bounds: ``acc 98.2 (at least 97.2)``."""
    shown = []
    for each in found.targets if found else ():
        low, high = each.target.lower, each.target.upper
        bounds = [f"at least {low:.6g}"] if low is not None else []
        bounds += [f"at most {high:.6g}"] if high is not None else []
        shown.append(f"{each.target.score} {each.score:.6g} ({', '.join(bounds)})")
    return ", ".join(shown) or "there is no target"


WORKLOAD_CHECKS: tuple[WorkloadCheck, ...] = (
    prepares_the_same_each_time,
    meets_its_targets,
    gives_stable_replies,
    scores_replies_in_any_order,
    refuses_cut_replies,
    refuses_empty_replies,
    misses_where_nothing_is_computed,
    misses_with_zeroed_weights,
    misses_with_shuffled_weights,
    misses_with_noisy_weights,
    misses_with_exchanged_answers,
    misses_with_a_tenth_exchanged,
)
"""The checks of any workload, in the order in which they are run."""
