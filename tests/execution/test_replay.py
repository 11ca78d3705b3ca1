"""Graphs that give what they gave before."""

import numpy as np
import pytest

from mlbench import Decoding
from mlbench.execution.replay import ReplayedExecutable, ReplayedGeneration, take_computed_calls

DECODING = Decoding(end_tokens=(0, 5), max_new_tokens=100, min_new_tokens=4, longest=200)


def doubling(seen):
    def run(inputs):
        seen.append(inputs["x"].shape)
        return {"y": 2 * inputs["x"]}

    return run


def test_each_shape_is_computed_once_and_its_outputs_are_given_again():
    seen = []
    replayed = ReplayedExecutable(doubling(seen))
    for value in (1, 7, 9):
        assert replayed({"x": np.full((2, 3), value)})["y"].tolist() == [[2, 2, 2]] * 2
        assert replayed({"x": np.full((1, 3), value)})["y"].shape == (1, 3)
    assert seen == [(2, 3), (1, 3)]
    assert (take_computed_calls([replayed]), take_computed_calls([replayed])) == (2, 0)


def test_outputs_for_which_there_is_no_room_are_computed_again():
    seen = []
    replayed = ReplayedExecutable(doubling(seen), most_bytes=20)
    for _ in range(3):
        replayed({"x": np.zeros((1, 2))})
        replayed({"x": np.zeros((1, 3))})
    assert seen == [(1, 2), (1, 3), (1, 3), (1, 3)]
    assert take_computed_calls([replayed]) == 4


class Steps:
    """A decode graph whose first choice would end every answer."""

    calls = 0

    def __call__(self, inputs, state):
        self.calls += 1
        rows = len(inputs["positions"])
        return {"tokens": np.tile([0, 7, 5], (rows, 1)), "log_probabilities": np.zeros((rows, 3), np.float32)}


def ends_of(replayed, rows, steps):
    """Return how often each row's first choice ended its answer."""
    given = [replayed({"positions": np.zeros(rows, np.int64)}, None) for _ in range(steps)]
    assert all(each["tokens"].shape == each["log_probabilities"].shape == (rows, 3) for each in given)
    return sum(np.isin(each["tokens"][:, 0], DECODING.end_tokens) for each in given)


def test_steps_are_computed_once_for_any_number_of_rows_and_end_answers_as_often_as_set():
    steps = Steps()
    replayed = ReplayedGeneration(steps, DECODING, usual_answer=24, ends=True)
    ends = ends_of(replayed, rows=50, steps=2000)
    assert ends_of(replayed, rows=3, steps=10).shape == (3,)
    assert steps.calls == take_computed_calls([replayed]) == 1
    assert ends.sum() / 100_000 == pytest.approx(1 / (24 - 4), rel=0.05)


def test_prompts_end_no_answer():
    assert not ends_of(ReplayedGeneration(Steps(), DECODING, usual_answer=24, ends=False), rows=5, steps=100).any()
