"""Checks of engines over compiled graphs: right answers, and failures that name their samples."""

from __future__ import annotations

import numpy as np

from mlbench.conformance.comparison import place_of
from mlbench.conformance.known_answers import (
    MOST_ROWS,
    Poisoned,
    TokenLists,
    reference_scores,
    scores_of,
    token_graph,
)
from mlbench.conformance.recording import (
    ALL_AT_ONCE,
    ALL_IN_ONE,
    ONE_AT_A_TIME,
    PATTERNS,
    TRICKLE,
    Pattern,
    Sent,
    send,
)
from mlbench.conformance.subject import Check, Subject, demand

_STARTS = 3
_NEW = 300
"""Samples that one engine is given after those that it knows, each a call."""


def answers_each_sample_with_its_own_scores(subject: Subject) -> None:
    """Each reply holds the answer to its own sample, however samples arrive and are batched, also to new content.

    Once the data set's own samples were answered, hundreds of new ones follow.
    """
    for pattern in PATTERNS:
        _demand_right_answers(subject, pattern, pattern.name)
    for pattern, new in ((ONE_AT_A_TIME, _NEW), (ALL_IN_ONE, MOST_ROWS)):
        dataset = TokenLists(new)
        sent = send(subject, pattern, indices=range(len(dataset.lists)), dataset=dataset)
        _demand_right(subject, sent, scores_of(dataset.lists), f"{pattern.name}, new from {dataset.count} on")


def answers_alike_after_restart(subject: Subject) -> None:
    """A later engine of the same backend gives the same right answers as the first."""
    for start in range(1, _STARTS + 1):
        _demand_right_answers(subject, ALL_AT_ONCE, f"engine {start} of the backend")


def names_a_failing_sample(subject: Subject) -> None:
    """A sample on which the program raises is given up with a reason; samples outside its batch are answered."""
    indices = [0, 1, Poisoned.INDEX, 2, 4, 5, Poisoned.INDEX, 6]
    for pattern in (ONE_AT_A_TIME, TRICKLE, ALL_AT_ONCE):
        sent = send(subject, pattern, indices=indices, program=Poisoned())
        reply = sent.reply
        for id_, index in zip(sent.samples.ids, sent.samples.indices, strict=True):
            where, count = f"sample {index} ({pattern.name})", len(reply.answers.get(id_, []))
            reasons = reply.failures.get(id_, [])
            demand(
                count + len(reasons) == 1,
                f"{where}, with a failing sample about, was answered {count} times and given up {len(reasons)} times.",
                "Catch errors of the program, and complete or fail each sample exactly once.",
            )
            if index == Poisoned.INDEX:
                demand(
                    count == 0, f"{where} was answered though its program raised.", "Call reply.fail with the reason."
                )
                demand(
                    bool(reasons[0].strip()),
                    f"{where} was given up without a reason.",
                    "Give the reason in reply.fail.",
                )
            elif pattern is ONE_AT_A_TIME:
                demand(
                    count == 1,
                    f"{where} was given up because another query failed: {reasons and reasons[0]}.",
                    "A failure ends its own batch only.",
                )


def _demand_right_answers(subject: Subject, pattern: Pattern, where: str) -> None:
    _demand_right(subject, send(subject, pattern), reference_scores(), where)


def _demand_right(subject: Subject, sent: Sent, right: np.ndarray, where: str) -> None:
    allowed = token_graph().graph.tolerance(subject.precision)
    for id_, index in zip(sent.samples.ids, sent.samples.indices, strict=True):
        answers = [answer for answer in sent.reply.answers.get(id_, []) if np.shape(answer) == right[index].shape]
        demand(
            bool(answers),
            f"sample {index} ({where}) has no answer of the promised form.",
            "See the checks answers_* and replies_have_the_promised_form.",
        )
        for answer in answers:
            if place_of(answer, right[index : index + 1], allowed) is not None:
                continue  # new content may have two answers that are alike
            place = place_of(answer, right, allowed)
            demand(
                place is not None,
                f"sample {index} ({where}) is answered {_short(answer)}, expected {_short(right[index])}.",
                "The graph may be right and the feeding wrong: look at padding, masks and buffers.",
            )
            demand(
                False,
                f"sample {index} ({where}) is given the answer to sample {place}.",
                "outputs[i] must answer samples.ids[i]: undo any sorting before reply.complete().",
            )


def _short(row: np.ndarray) -> str:
    return "[" + ", ".join(f"{value:.3g}" for value in row[:4]) + ", ...]"


ANSWER_CHECKS: tuple[Check, ...] = (
    answers_each_sample_with_its_own_scores,
    answers_alike_after_restart,
    names_a_failing_sample,
)
