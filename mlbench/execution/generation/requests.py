"""Requests, and their answers: all answers of one step go out in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Reply, Samples
from mlbench.contracts.generation import Prompt


@dataclass(slots=True, eq=False)
class Request:
    """A sample that waits for its answer."""

    id: int
    index: int
    dataset: Dataset
    reply: Reply
    prompt: Prompt
    arrived_ns: int
    started_ns: int = 0
    """When it was given a slot."""

    def __len__(self) -> int:
        return len(self.prompt.tokens)


def complete(requests: Sequence[Request], outputs: Sequence[np.ndarray]) -> None:
    """Answer requests; an answer's tokens are its elements."""
    for reply, samples, places in _by_reply(requests):
        given = [outputs[place] for place in places]
        reply.complete(samples, given, [int(np.size(output)) for output in given])


def report_first(requests: Sequence[Request], tokens: np.ndarray) -> None:
    """Report the first token of each answer, (n, 1)."""
    for reply, samples, places in _by_reply(requests):
        reply.first_token(samples, tokens[places])


def fail(requests: Sequence[Request], reason: str) -> None:
    """Give requests up."""
    for reply, samples, _ in _by_reply(requests):
        reply.fail(samples, reason)


def _by_reply(requests: Sequence[Request]) -> list[tuple[Reply, Samples, list[int]]]:
    """Return the requests of each test, with their places; nearly always there is one test."""
    found: list[tuple[Reply, Samples, list[int]]] = []
    places = list(range(len(requests)))
    while places:
        reply = requests[places[0]].reply
        own = [place for place in places if requests[place].reply is reply]
        places = [place for place in places if requests[place].reply is not reply]
        ids = [requests[place].id for place in own]
        indices = [requests[place].index for place in own]
        found.append((reply, Samples(ids, indices, requests[own[0]].dataset), own))
    return found
