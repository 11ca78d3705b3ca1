import json

import numpy as np
import pytest
from mlbench_dlrm_v2 import program
from mlbench_dlrm_v2.program import Ranking, sigmoid


def sample(*values):
    """Rows of dense features that are all the value, and of indices ten times it: features of two places and of one."""
    dense = np.repeat(np.array(values, dtype=np.float32)[:, None], 13, axis=1)
    tens = (dense[:, :1] * 10).astype(np.int32)
    return dense, [np.repeat(tens, 2, axis=1), tens]


class Recorded:
    """A graph that answers each row with its first dense feature, and keeps what it was asked."""

    def __init__(self):
        self.calls = []

    def __call__(self, inputs):
        self.calls.append(inputs)
        return {"logits": inputs["dense"][:, 0].copy()}


@pytest.mark.parametrize("values", [[(1, 2)], [(1,), (2, 3, 4), (5, 6)]])
def test_samples_are_answered_in_order_each_with_its_own_rows(values):
    replies = Ranking().run([sample(*rows) for rows in values], {"ranker": Recorded()})
    assert [reply.tolist() for reply in replies] == [sigmoid(np.array(rows, np.float32)).tolist() for rows in values]
    assert all(reply.dtype == Ranking.reply.dtype and reply.ndim == 1 for reply in replies)


def test_the_rows_of_all_samples_go_into_one_call_without_padding():
    graph = Recorded()
    Ranking().run([sample(1), sample(2, 3)], {"ranker": graph})
    (call,) = graph.calls
    assert call["indices"].tolist() == [[10, 10, 10], [20, 20, 20], [30, 30, 30]]
    assert call["indices"].dtype == "int32"
    assert call["dense"].shape == (3, 13)
    assert all(array.flags.c_contiguous for array in call.values())


def test_joined_samples_go_in_as_separate_ones_do_and_a_single_one_uncopied():
    joined = [(dense, [np.concatenate(hot, axis=1)]) for dense, hot in (sample(1), sample(2, 3))]
    graph = Recorded()
    Ranking().run(joined, {"ranker": graph})
    Ranking().run(joined[1:], {"ranker": graph})
    assert [call["indices"].tolist() for call in graph.calls] == [[[10] * 3, [20] * 3, [30] * 3], [[20] * 3, [30] * 3]]
    assert np.shares_memory(graph.calls[1]["indices"], joined[1][1][0])


def test_more_rows_than_a_call_takes_are_split(monkeypatch):
    monkeypatch.setattr(program, "LARGEST_CALL", 2)
    graph = Recorded()
    replies = Ranking().run([sample(1), sample(2, 3, 4), sample(5)], {"ranker": graph})
    assert [len(call["dense"]) for call in graph.calls] == [2, 2, 1]
    assert np.concatenate(replies).tolist() == sigmoid(np.arange(1, 6, dtype=np.float32)).tolist()


def test_probabilities_are_the_references(golden):
    case = json.loads((golden / "dcn_forward" / "expected.json").read_text())
    probabilities = sigmoid(np.array(case["logits"], dtype=np.float32))
    np.testing.assert_allclose(probabilities, case["probabilities"], atol=case["tolerance"]["probabilities_abs"])
    assert probabilities.dtype == "float32"


def test_extreme_logits_are_probabilities_and_a_nan_stays_one():
    np.testing.assert_array_equal(sigmoid(np.array([-np.inf, 0, np.inf, np.nan], np.float32)), [0, 0.5, 1, np.nan])
