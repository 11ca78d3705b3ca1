"""Workloads whose replies or data cannot be used, and a power meter that always says the same."""

import time

import numpy as np
from mlbench_faulty_engines import WHERE

from mlbench import (
    BatchProgram,
    DataError,
    Dataset,
    Energy,
    InvalidRunError,
    Metric,
    Model,
    PowerMeter,
    ReplySpec,
    Target,
    Workload,
)


class Unscorable(Workload):
    """A workload whose metric finds every reply wrong in a way that only a metric can see."""

    name = "unscorable"
    title = "replies that cannot be scored"
    rules = "resnet50"

    def dataset(self, variant):
        return Numbers()

    def model(self, variant):
        return Model(name=self.name, graphs={}, program=Label(), weights_fingerprint="none")

    def metric(self, variant, dataset):
        return Strict()


class Misplaced(Unscorable):
    """A workload whose metric misses a file when all has been measured."""

    name = "misplaced"
    title = "annotations that go missing"

    def metric(self, variant, dataset):
        return Searching()


class Uncountable(Unscorable):
    """A workload whose dataset cannot say how many samples it has."""

    name = "uncountable"
    title = "a dataset without a length"

    def dataset(self, variant):
        return Endless()


class Numbers(Dataset):
    count = performance_count = 8
    fingerprint = "numbers"

    def load(self, indices):
        pass

    def unload(self, indices):
        pass

    def sample(self, index):
        return index


class Endless(Numbers):
    def __len__(self):
        raise OverflowError("there is no end to it")

    @property
    def count(self):
        return len(self)


class Label(BatchProgram):
    reply = ReplySpec(dtype="float32", shape=(1,))

    def run(self, samples, graphs):
        return np.zeros((len(samples), 1), np.float32)


class Strict(Metric):
    targets = (Target(score="top1", reference=100.0, lower=99.0, name="99"),)

    def score(self, replies):
        wrong = next(reply for reply in replies if reply.index == WHERE)
        raise InvalidRunError(f"the reply to sample {wrong.index} is 0, not a label.")

    def line(self, scores):
        return ""


class Searching(Strict):
    def score(self, replies):
        raise DataError("the annotations are gone.", hint="Fetch them.")


class Steady(PowerMeter):
    """A meter of a part that draws a hundred watts, whatever happens."""

    name = "steady"

    def probe(self):
        return ""

    def __enter__(self):
        self._began_s = time.monotonic()
        return self

    def __exit__(self, kind, error, trace):
        self._seconds = time.monotonic() - self._began_s

    def energy(self):
        return Energy(joules=100 * self._seconds, seconds=self._seconds, source="steady", covers="a heater")
