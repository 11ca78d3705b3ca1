"""Backends that go wrong in the middle of a run: they answer with zeros, and at dataset sample 7 something happens.

And a workload whose replies cannot be scored, and a power meter that always says the same.
"""

import os
import signal
import sys
import time

import numpy as np

from mlbench import (
    Backend,
    BatchProgram,
    Dataset,
    Energy,
    Engine,
    GraphError,
    InvalidRunError,
    Metric,
    Model,
    PowerMeter,
    Probe,
    ReplySpec,
    Target,
    Workload,
    hookimpl,
)

WHERE = 7
LIFE = 5000  # samples: more than the trial before a test asks for


class Faulty(Backend):
    def __init__(self, name, happen):
        self.name = name
        self._happen = happen

    def probe(self):
        return Probe(is_available=True, rank=-1000)

    def engine(self, model, plan):
        return Zeros(self._happen)


class Lacking(Faulty):
    def engine(self, model, plan):
        raise GraphError(f"graph {next(iter(model.graphs))}: operator Det.", hint="Use fp32.")


class Sluggish(Faulty):
    def engine(self, model, plan):
        return Awakened()


class Mortal(Faulty):
    """Dies in the midst of a test where it is instance number 1; alone and elsewhere it does not."""

    number = None

    def instance(self, number, of):
        own = self.configured(self.options)
        own.number = number
        return own

    def engine(self, model, plan):
        return Ageing(self._happen, is_mortal=self.number == 1)


class Ageing(Engine):
    def __init__(self, happen, is_mortal):
        self._happen = happen
        self._left = LIFE if is_mortal else None

    def submit(self, samples, reply):
        if self._left is not None:
            self._left -= len(samples)
            if self._left < 0:
                self._happen(samples, None, reply)
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))


class Zeros(Engine):
    def __init__(self, happen):
        self._happen = happen
        self._is_warm = False

    def submit(self, samples, reply):
        zeros = np.zeros((len(samples), 1), np.float32)
        # the trial before the run has no indices beyond those it was warmed up with; LoadGen's ids are large addresses
        if WHERE in samples.indices and min(samples.ids) > 10_000:
            self._happen(samples, zeros, reply)
        else:
            reply.complete(samples, zeros)


class Awakened(Engine):
    """Slow in the trial before the run, quick when LoadGen asks."""

    def submit(self, samples, reply):
        is_trial = min(samples.ids) < 10_000
        time.sleep(0.02 if is_trial else len(samples) * 2e-4)
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))


def crash(samples, zeros, reply):
    print("no more registers", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(samples, zeros, reply):
    os._exit(3)


def hang(samples, zeros, reply):
    time.sleep(3600)


def lose(samples, zeros, reply):
    pass


def fail(samples, zeros, reply):
    raise RuntimeError("unsupported operator")


def nan(samples, zeros, reply):
    reply.complete(samples, zeros * np.float32("nan"))


def twice(samples, zeros, reply):
    reply.complete(samples, zeros)
    reply.complete(samples, zeros)


def fill_memory(samples, zeros, reply):
    held = []
    while True:
        held.append(np.ones(2**21))
        time.sleep(0.01)


class Unscorable(Workload):
    """A workload whose metric finds every reply wrong in a way that only a metric can see."""

    name = "unscorable"
    rules = "resnet50"

    def dataset(self, variant):
        return Numbers()

    def model(self, variant):
        return Model(name=self.name, graphs={}, program=Label(), weights_fingerprint="none")

    def metric(self, variant, dataset):
        return Strict()


class Numbers(Dataset):
    count = performance_count = 8
    fingerprint = "numbers"

    def load(self, indices):
        pass

    def unload(self, indices):
        pass

    def sample(self, index):
        return index


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


@hookimpl
def mlbench_power_meters():
    return [Steady()]


@hookimpl
def mlbench_workloads():
    return [Unscorable()]


@hookimpl
def mlbench_backends():
    faulty = [Faulty(f.__name__, f) for f in (crash, leave, hang, lose, fail, nan, twice, fill_memory)]
    return [*faulty, Lacking("lacking", None), Sluggish("sluggish", None), Mortal("mortal", crash)]
