"""Engines that answer with zeros until something happens."""

import threading
import time

import numpy as np

from mlbench import (
    DataError,
    Engine,
    EngineStatistics,
    UnavailableError,
    UsageError,
)

WHERE = 7
LIFE = 5000  # samples: more than the trial before a test asks for


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


class Reluctant(Engine):
    def __init__(self, where):
        self._where = where

    def _reach(self, place, error):
        if place == self._where:
            raise error

    def __enter__(self):
        self._reach("enter", DataError("shard 3 of 5 is gone.", hint="Fetch it."))
        return self

    def warm_up(self, samples):
        self._reach("warm_up", UsageError("8 GB are not enough."))

    def submit(self, samples, reply):
        self._reach("submit", UnavailableError("the licence has expired."))


class Silence(Engine):
    """Never answers, not even while warming up."""

    def submit(self, samples, reply):
        pass


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


class Unending(Engine):
    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))

    def __exit__(self, *error):
        time.sleep(3600)


class Unready(Zeros):
    """Does not return from its warm-up."""

    def warm_up(self, samples):
        time.sleep(3600)


class Lingering(Engine):
    """Leaves a thread behind that Python waits for at its end."""

    def __enter__(self):
        threading.Thread(target=time.sleep, args=(3600,)).start()
        return self

    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))


class Unflushed(Engine):
    is_measured = False

    def submit(self, samples, reply):
        self.is_measured = min(samples.ids) > 10_000
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))

    def flush(self):
        if self.is_measured:
            time.sleep(3600)


class OddZeros(Zeros):
    def statistics(self):
        return EngineStatistics(extra={"rate": float("nan"), "sizes": {8: np.int64(3)}, "when": time.gmtime})

    def calls(self):
        raise RuntimeError("not counted")


class Awakened(Engine):
    """Slow in the trial before the run, quick when LoadGen asks."""

    def submit(self, samples, reply):
        is_trial = min(samples.ids) < 10_000
        time.sleep(0.02 if is_trial else len(samples) * 2e-4)
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))
