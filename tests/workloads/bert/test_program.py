import numpy as np
import pytest
from mlbench_bert.program import Reading
from mlbench_bert.squad import TokenPair


def sample(*ids):
    return TokenPair(np.array(ids), np.arange(len(ids)) % 2)


class Echo:
    """A graph that answers the ids as start logits and the segments as end logits, and remembers its inputs."""

    def __call__(self, inputs):
        self.inputs = inputs
        return {"s": inputs["input_ids"].astype(np.float32), "e": inputs["segment_ids"].astype(np.float32)}


@pytest.fixture
def graph():
    return Echo()


def reading(largest=32, multiple=4):
    return Reading(outputs=("s", "e"), largest=largest, multiple=multiple)


def test_each_sample_gets_start_and_end_logits_of_its_own_tokens(graph):
    first, second = reading().run([sample(7, 8, 9), sample(5)], {"reader": graph})
    assert first.tolist() == [[7, 0], [8, 1], [9, 0]]
    assert second.tolist() == [[5, 0]]
    assert first.dtype == np.float32


def test_a_batch_is_padded_to_its_longest_sample_rounded_up(graph):
    reading().run([sample(1, 2, 3, 4, 5), sample(6)], {"reader": graph})
    assert graph.inputs["input_ids"].tolist() == [[1, 2, 3, 4, 5, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0, 0]]
    assert graph.inputs["input_mask"].tolist() == [[1, 1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0]]
    assert graph.inputs["segment_ids"].tolist() == [[0, 1, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]
    assert {array.dtype.name for array in graph.inputs.values()} == {"int64"}


def test_padding_stops_at_the_largest_length(graph):
    reading(largest=6).run([sample(1, 2, 3, 4, 5)], {"reader": graph})
    assert graph.inputs["input_ids"].shape == (1, 6)


def test_a_sample_is_as_long_as_its_tokens():
    assert reading().length(sample(1, 2, 3)) == 3
