"""Engines that say of themselves what no record can hold."""

import threading

import numpy as np

from mlbench import BatchStatistics, EngineStatistics
from mlbench_broken.right import Uncomputed, Zeros


class Saying(Zeros):
    """Answers zeros; its method ``name`` returns what ``say`` does."""

    def __init__(self, name, say):
        setattr(self, name, say)


class Shortening(Zeros):
    """Answers with too few numbers once its graphs are to cost nothing."""

    def replay_graphs(self):
        self.submit = lambda samples, reply: reply.complete(samples, np.zeros((len(samples), 9), np.float32))
        return ""


def endless():
    facts = {}
    facts["itself"] = facts
    return facts


def no_statistics():
    raise RuntimeError("no statistics today")


STATISTICS = {
    "secretive": lambda: EngineStatistics(extra={"lock": threading.Lock()}),
    "nan-in-statistics": lambda: EngineStatistics(extra={"rate": float("nan")}),
    "infinity-in-statistics": lambda: BatchStatistics(sweep_samples_per_s={8: float("inf")}),
    "bytes-in-statistics": lambda: EngineStatistics(batching="caf\udce9"),
    "miscounting": lambda: EngineStatistics(truncated_prompts=-1),
    "text-for-a-count": lambda: BatchStatistics(padding_samples="12"),
    "numbers-for-keys": lambda: EngineStatistics(extra={8: 3}),
    "statistics-without-end": lambda: EngineStatistics(extra=endless()),
    "dictionary-for-statistics": lambda: {"batch": 8},
    "statistics-that-raise": no_statistics,
    "list-for-statistics": lambda: ["batch", 8],
}

BACKENDS = [
    *(Uncomputed(name, lambda say=say: Saying("statistics", say)) for name, say in STATISTICS.items()),
    Uncomputed("texts-for-calls", lambda: Saying("calls", lambda: ["tokens"])),
    Uncomputed("number-for-a-capacity", lambda: Saying("capacity", lambda: 8)),
    Uncomputed("shortening", Shortening),
]
