"""Graphs that cost nothing: an engine over them spends time only on batching, programs and replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlbench.contracts.generation import Decoding
from mlbench.contracts.graph import Array, Executable, StatefulExecutable
from mlbench.execution.arrays import host_array

MOST_BYTES = 1 << 30
"""Most bytes of outputs that one executable keeps; calls with further shapes are computed each time."""

_SEED = 20240828


class ReplayedExecutable:
    """An executable that computes its first call with each set of shapes, and gives later ones the same outputs."""

    def __init__(self, executable: Executable | StatefulExecutable, *, most_bytes: int = MOST_BYTES) -> None:
        """Store what computes, with or without state, and how much may be kept."""
        self._executable: Any = executable
        self._kept: dict[tuple[tuple[int, ...], ...], Mapping[str, Array]] = {}
        self._room_bytes = most_bytes
        self.computed = 0
        """Calls that were really computed."""

    def new_state(self, sizes: Mapping[str, int], /) -> object:
        """Return real state."""
        return self._executable.new_state(sizes)

    def __call__(self, inputs: Mapping[str, np.ndarray], /, *state: object) -> Mapping[str, Array]:
        """Give all outputs by name."""
        shapes = tuple([array.shape for array in inputs.values()])
        if (outputs := self._kept.get(shapes)) is None:
            outputs = self._executable(inputs, *state)
            self.computed += 1
            size_bytes = sum(host_array(array).nbytes for array in outputs.values())
            if size_bytes <= self._room_bytes:
                self._room_bytes -= size_bytes
                self._kept[shapes] = outputs
        return outputs


class ReplayedGeneration:
    """Prefill or decode that computes one call, and gives its choices again, for as many rows as are asked for.

    The choices end no answer. Answers end by chance instead, so that they have the given average length: what an answer
    costs the engine grows with its length. Nothing is kept of the sequences.
    """

    def __init__(self, executable: StatefulExecutable, decoding: Decoding, *, usual_answer: float, ends: bool) -> None:
        """Store what computes.

        Args:
            executable: the real graph.
            decoding: of the program.
            usual_answer: the mean number of new tokens.
            ends: whether its choices end answers, as decode steps do.
        """
        self._executable = executable
        self._decoding = decoding
        # end tokens are ruled out before the fewest tokens; a step after those ends an answer with this chance
        self._chance = 1 / max(1.0, usual_answer - decoding.min_new_tokens) if ends else 0.0
        self._random = np.random.default_rng(_SEED)
        self._choices: tuple[np.ndarray, np.ndarray] | None = None
        self._by_rows: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.computed = 0
        """Calls that were really computed."""

    def new_state(self, sizes: Mapping[str, int], /) -> object:
        """Return real state: memory is part of what an engine takes."""
        return self._executable.new_state(sizes)

    def resize(self, state: object, sizes: Mapping[str, int], /) -> object:
        """Return the state as it is: nothing is kept in it."""
        return state

    def copy_rows(self, state: object, sources: Sequence[int], targets: Sequence[int], columns: range, /) -> None:
        """Copy nothing: it is the backend's work."""

    def __call__(self, inputs: Mapping[str, np.ndarray], state: object, /) -> Mapping[str, Array]:
        """Give choices for each row."""
        rows = len(inputs["positions"])
        if self._choices is None:
            outputs = self._executable(inputs, state)
            self.computed += 1
            tokens, scores = host_array(outputs["tokens"]), host_array(outputs["log_probabilities"])
            self._choices = self._endless(tokens), scores.copy()
        if rows not in self._by_rows:
            self._by_rows[rows] = tuple(np.resize(each, (rows, each.shape[1])) for each in self._choices)  # type: ignore[assignment]
        tokens, scores = self._by_rows[rows]
        beams = self._decoding.beams
        is_over = self._random.random(-(-rows // beams)) < self._chance
        if is_over.any():
            tokens, scores = tokens.copy(), scores.copy()
            over = np.flatnonzero(np.repeat(is_over, beams)[:rows])
            tokens[over, 0] = self._decoding.end_tokens[0]
            scores[over, 0] = 0
            scores[over, 1:] -= 1000  # all beams of a sequence end in one step
        return {"tokens": tokens, "log_probabilities": scores}

    def _endless(self, tokens: np.ndarray) -> np.ndarray:
        ends = self._decoding.end_tokens
        word = next(token for token in range(len(ends) + 1) if token not in ends)
        return np.where(np.isin(tokens, ends), word, tokens)


def take_computed_calls(replayed: Sequence[ReplayedExecutable | ReplayedGeneration]) -> int:
    """Return how many calls were computed since this was last asked."""
    total = sum(each.computed for each in replayed)
    for each in replayed:
        each.computed = 0
    return total
