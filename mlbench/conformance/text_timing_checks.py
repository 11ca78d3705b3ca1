"""Checks of when an engine for language models reports tokens: none before it is computed, none held back."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import islice
from statistics import median

from mlbench.conformance.subject import Check, Subject, demand
from mlbench.conformance.text_checks import Exchange, ask, demand_right, ready
from mlbench.conformance.text_model import FULL, KitPrompts, fixed_prompts, random_tokens
from mlbench.conformance.text_reference import is_whole_in_text
from mlbench.contracts.engine import Engine
from mlbench.contracts.generation import Prompt

_ROUNDS = 5
_LEAST_ROUNDS = 3
_UNKNOWN = 6
"""Prompts of one round."""

_UNKNOWN_LENGTH = 48
_MOST_KNOWN = 3.0
"""How many times as long a first token of new content may take."""

_LEAST_NS = 1_000_000
"""Shorter times cannot be distinguished from noise."""

_LATEST_FIRST = 0.8
"""By which share of an answer's time its first token has been reported; all 24 tokens take the same time or nearly."""

_KNOWN = tuple(index for index in FULL if 30 <= len(fixed_prompts()[index].tokens) <= 64)
"""Prompts that were asked before, and are about as long as the unknown ones."""


def reports_nothing_before_it_is_computed(subject: Subject) -> None:
    """First tokens of new content are right, and take as long as those of content that was asked before.

    The content is drawn anew each time. Whatever else the machine does only adds to a time, so the quickest of several
    rounds is nearest to the work itself.
    """
    new_ns, known_ns = [], []
    with ready(subject) as (engine, dataset):
        ask(subject, engine, dataset, [*_KNOWN] * 2, "before")
        for number in range(_ROUNDS):
            asked = ask(subject, engine, _unknown_prompts(), range(_UNKNOWN), "content that is new", query=1)
            demand_right(subject, asked)
            new_ns.append(_first_token_ns(subject, engine, _unknown_prompts(), range(_UNKNOWN)))
            known_ns.append(max(1, _first_token_ns(subject, engine, dataset, _KNOWN)))
            ratio = min(new_ns) / min(known_ns)
            if number + 1 >= _LEAST_ROUNDS and ratio < _MOST_KNOWN:
                break
    demand(
        ratio < _MOST_KNOWN or max(new_ns) < _LEAST_NS,
        f"the first token of new content takes {ratio:.3g} times as long as that of content sent before.",
        "Remember no answers, and no first tokens: keys and values of a prompt's beginning are all that may be kept.",
    )


def reports_first_tokens_early(subject: Subject) -> None:
    """A first token is reported while the rest is being computed, not with the whole answer: in one of five rounds."""
    shares = []
    with ready(subject) as (engine, dataset):
        for _ in range(_ROUNDS):
            shares.append(median(_first_shares(subject, engine, dataset)))
            if shares[-1] < _LATEST_FIRST:
                return
    demand(
        False,
        f"the first of 24 tokens came after {min(shares):.0%} of the answer's time.",
        "Call reply.first_token as soon as the token is computed, not with the answer.",
    )


def _unknown_prompts() -> KitPrompts:
    """Return prompts drawn anew, whose answers a server of text can give whole."""
    seeds = iter(lambda: int.from_bytes(os.urandom(8), "little"), None)
    drawn = (Prompt(tokens=random_tokens(_UNKNOWN_LENGTH, seed)) for seed in seeds)
    return KitPrompts(list(islice(filter(is_whole_in_text, drawn), _UNKNOWN)))


def _first_token_ns(subject: Subject, engine: Engine, dataset: KitPrompts, indices: Sequence[int]) -> int:
    """Return the least time from sending a prompt alone to its first token."""
    return min(first - sent for sent, first, _ in _times_ns(subject, engine, dataset, indices))


def _first_shares(subject: Subject, engine: Engine, dataset: KitPrompts) -> list[float]:
    times = _times_ns(subject, engine, dataset, FULL[:4])
    return [(first - sent) / max(1, answered - sent) for sent, first, answered in times]


def _times_ns(
    subject: Subject, engine: Engine, dataset: KitPrompts, indices: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Return when each prompt was sent, had its first token and its answer; one at a time."""
    found = []
    for index in indices:
        sent_ns = time.monotonic_ns()
        asked = ask(subject, engine, dataset, [index], "alone")
        list(asked.answers(subject))
        found.append((sent_ns, *_reported_ns(asked)))
    return found


def _reported_ns(asked: Exchange) -> tuple[int, int]:
    (id_,) = asked.samples.ids
    demand(
        id_ in asked.reply.first_at_ns,
        f"no first token of prompt {asked.samples.indices[0]} was reported.",
        "Call reply.first_token as soon as the token is computed.",
    )
    return asked.reply.first_at_ns[id_], asked.reply.answered_at_ns[id_]


TEXT_TIMING_CHECKS: tuple[Check, ...] = (reports_nothing_before_it_is_computed, reports_first_tokens_early)
