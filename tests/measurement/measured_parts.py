"""A dataset of numbers, and a model whose graphs and program an engine does without."""

from typing import Any

from mlbench import BatchProgram, Model, ReplySpec
from mlbench.toolkit import StoredSamples


class CountedSamples(StoredSamples[Any]):
    """Counts how many samples are loaded."""

    loaded = 0

    def load(self, indices):
        self.loaded += len(indices)

    def unload(self, indices):
        self.loaded -= len(indices)


class Numbers(CountedSamples):
    """Sample i is the number i."""

    def __init__(self, count: int = 40) -> None:
        super().__init__(range(count), "numbers")


class One(BatchProgram):
    reply = ReplySpec(dtype="float32", shape=(1,))

    def run(self, samples, graphs):
        raise AssertionError("the engines here need no program")


MODEL = Model(name="one", graphs={}, program=One(), weights_fingerprint="none")
