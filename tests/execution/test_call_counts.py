"""Calls are counted as they happen: by graph, shapes and size of the state."""

import numpy as np
import pytest

from mlbench.execution.call_counts import CallCounts, CountedExecutable, merge_counts


def zeros(*shape):
    return np.zeros(shape, np.float32)


def test_calls_are_counted_by_their_shapes_the_most_frequent_first():
    double = CountedExecutable(lambda inputs: {"y": 2 * inputs["x"]}, "double")
    for rows in (1, 4, 4, 4, 1, 2):
        assert double({"x": np.ones((rows, 3))})["y"].sum() == 6 * rows
    counted = merge_counts([double.counts])
    assert [(each.graph, each.shapes, each.count) for each in counted] == [
        ("double", {"x": (4, 3)}, 3),
        ("double", {"x": (1, 3)}, 2),
        ("double", {"x": (2, 3)}, 1),
    ]


def test_what_was_taken_is_not_counted_again():
    counts = CallCounts("g")
    counts.note({"x": zeros(1)})
    assert len(merge_counts([counts])) == 1
    assert merge_counts([counts]) == []


def test_workers_count_for_themselves_and_are_added_up():
    workers = [CallCounts("g"), CallCounts("g"), CallCounts("h")]
    for worker in workers:
        worker.note({"x": zeros(2)})
    assert {each.graph: each.count for each in merge_counts(workers)} == {"g": 2, "h": 1}


def test_a_larger_state_is_another_call():
    counts = CallCounts("decode")
    for rows in (8, 8, 16):
        counts.note({"x": zeros(2)}, (("slots", rows), ("length", 128)))
    assert {(each.state_sizes["slots"], each.count) for each in merge_counts([counts])} == {(8, 2), (16, 1)}


class Adding:
    """Adds its input to what it keeps."""

    def new_state(self, sizes):
        return [zeros(sizes["slots"])]

    def __call__(self, inputs, state):
        state[0] += inputs["x"]
        return {"y": state[0].copy()}


def test_a_program_gets_state_of_the_backends_and_its_sizes_are_counted():
    executable = CountedExecutable(Adding(), "sum")
    state = executable.new_state({"slots": 2})
    for _ in range(3):
        found = executable({"x": np.array([1, 2], np.float32)}, state)["y"]
    assert found.tolist() == [3, 6]
    (call,) = merge_counts([executable.counts])
    assert (call.graph, call.shapes, call.state_sizes, call.count) == ("sum", {"x": (2,)}, {"slots": 2}, 3)


def test_graphs_with_state_are_computed_once_for_each_shape_when_they_are_replayed():
    executable = CountedExecutable(Adding(), "sum")
    replayed = executable.replay()
    state = executable.new_state({"slots": 2})
    answers = [executable({"x": np.array([1, 2], np.float32)}, state)["y"].tolist() for _ in range(3)]
    assert (answers, replayed.computed) == ([[1, 2]] * 3, 1)


def test_a_call_that_fails_is_no_work():
    def refuse(inputs):
        raise ValueError("thirteen")

    executable = CountedExecutable(refuse, "g")
    with pytest.raises(ValueError, match="thirteen"):
        executable({"x": zeros(13)})
    assert merge_counts([executable.counts]) == []
