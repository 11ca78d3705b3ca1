"""A dataset of numbers, an engine that doubles them, and a LoadGen test of it that takes a moment."""

import threading

import numpy as np

from mlbench import DataError, Dataset, Engine, ReplySpec
from mlbench.contracts.scenario import LoadSettings
from mlbench.loadgen.drive import drive
from mlbench.loadgen.scenarios import SINGLE_STREAM
from mlbench.loadgen.settings import Mode, Seeds, Test

SEEDS = Seeds(qsl=3066443479025735752, sample_index=10688027786191513374, schedule=14962580496156340209, accuracy_log=1)
LOAD = LoadSettings(
    min_duration_ms=50,
    min_query_count=70,
    performance_sample_count=16,
    target_qps=1000,
    expected_latency_ns=20_000,
    reply_checks=8,
)


class Numbers(Dataset):
    """Sample i is the number i."""

    count = 20
    performance_count = 16
    fingerprint = "numbers"

    def __init__(self):
        self.loaded = set()

    def load(self, indices):
        self.loaded.update(indices)

    def unload(self, indices):
        self.loaded.difference_update(indices)

    def sample(self, index):
        assert index in self.loaded
        return index


class Unreadable(Numbers):
    def load(self, indices):
        raise DataError("image 3.jpg is corrupt.")


class Doubles(Engine):
    """Answers twice the sample, at once; subclasses break it."""

    def submit(self, samples, reply):
        reply.complete(samples, self.answers(samples))

    def answers(self, samples):
        return np.array([[2 * number] for number in samples.data()], dtype=np.float32)


class Watched:
    """Callbacks of a test that nobody waits for."""

    def __init__(self):
        self.stuck_with = threading.Event()

    def answered(self, count, /):
        pass

    def stuck(self, faults, /):
        self.faults = faults
        self.stuck_with.set()


NUMBER = ReplySpec(dtype="float32", shape=(1,))
ROWS = ReplySpec(dtype="float32", shape=(None, 7), may_be_empty=True)


def run(engine, folder, scenario=SINGLE_STREAM, *, mode=Mode.PERFORMANCE, dataset=None, load=LOAD, **rules):
    test = Test(
        scenario=scenario,
        mode=mode,
        load=load,
        reply=rules.pop("reply", NUMBER),
        seeds=SEEDS,
        server_latency_ms=1000,
        **rules,
    )
    return drive(test, engine, dataset or Numbers(), folder, Watched())
