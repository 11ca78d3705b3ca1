"""Answers under load, compared with the answers to the same prompts alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mlbench import DataError
from mlbench.toolkit import parse_json, read_text
from mlbench_endpoint.sweep.intervals import Estimate, share_interval

_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneAnswer:
    """The answer to a prompt that ran alone, twice."""

    text: str
    is_stable: bool
    """Whether it was the same both times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The chunks, from 1, in which answers begin to differ; a chunk is a token unless the server joins several."""

    median: int
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SameAnswers:
    """The comparison of a run; a record holds it as a JSON object."""

    compared: int
    different: int
    share: Estimate
    """Share of different answers, with its interval at 95 % confidence."""
    first_difference: FirstDifference | None
    prompts: int
    """Number of prompts with an answer alone."""
    unstable_alone: int
    """Prompts whose two answers alone differ; their answers under load are not compared."""


@dataclass(slots=True)
class AnswerComparison:
    """Compares answers as they come."""

    alone: Mapping[str, LoneAnswer]
    """Answers by their prompt."""
    compared: int = 0
    places: list[int] = field(default_factory=list)
    """The chunk of the first difference of each different answer."""

    def add(self, prompt: str, answer: str, part_sizes: Sequence[int]) -> None:
        """Compare an answer to a prompt, which came in parts of these sizes in characters."""
        known = self.alone.get(prompt)
        if known is None or not known.is_stable:
            return
        self.compared += 1
        if answer == known.text:
            return
        pairs = zip(answer, known.text, strict=False)
        same = next(
            (place for place, (one, other) in enumerate(pairs) if one != other), min(len(answer), len(known.text))
        )
        self.places.append(int(np.searchsorted(np.cumsum(part_sizes), same, side="right")) + 1)

    def result(self) -> SameAnswers:
        """Return the comparison so far."""
        different = len(self.places)
        ordered = sorted(self.places)
        first = FirstDifference(median=ordered[different // 2], least=ordered[0], most=ordered[-1]) if ordered else None
        return SameAnswers(
            compared=self.compared,
            different=different,
            share=share_interval(different, self.compared),
            first_difference=first,
            prompts=len(self.alone),
            unstable_alone=sum(not each.is_stable for each in self.alone.values()),
        )


def read_alone(file: Path) -> Mapping[str, LoneAnswer]:
    """Return the answers of a file of `mlbench_endpoint.sweep.lone_answers`, by prompt.

    Raises:
        DataError: it cannot be read, or has another form.
    """
    return dict(_entries(file))


def _entries(file: Path) -> Iterator[tuple[str, LoneAnswer]]:
    text = read_text(file, what="file of answers alone", limit_bytes=_MOST_BYTES)
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found = parse_json(line)
        except ValueError:
            found = None
        values = [found.get(name) for name in ("prompt", "answer", "again")] if isinstance(found, dict) else []
        match values:
            case [str(prompt), str(answer), str(again)]:
                yield prompt, LoneAnswer(text=answer, is_stable=answer == again)
            case _:
                raise DataError(
                    f"{file}, line {number} has no prompt with two answers.", hint="Make it anew with --same-answers."
                )
