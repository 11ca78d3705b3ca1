"""Backends that go wrong in the middle of a run: they answer with zeros, and at dataset sample 7 something happens."""

import os
import signal
import sys
import time

import numpy as np

from mlbench import Backend, Engine, Probe, hookimpl

WHERE = 7


class Faulty(Backend):
    def __init__(self, name, happen):
        self.name = name
        self._happen = happen

    def probe(self):
        return Probe(is_available=True, rank=-1000)

    def engine(self, model, plan):
        return Zeros(self._happen)


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


@hookimpl
def mlbench_backends():
    return [Faulty(f.__name__, f) for f in (crash, leave, hang, lose, fail, nan, twice, fill_memory)]
