"""Engines that compute, and do not keep to the times at which they may answer."""

import os
import threading

from mlbench import DataError, UsageError
from mlbench_broken.wrapping import BrokenEngine, Tampering, poisoned_places


class Unflushed(Tampering):
    def flush(self):
        pass


class Late(Tampering):
    """Answers every query again, well after it was stopped."""

    def __init__(self, engine):
        super().__init__(engine, self._keep)
        self._kept = []

    def _keep(self, samples, outputs, reply):
        reply.complete(samples, outputs)
        self._kept.append((samples, outputs.copy(), reply))

    def __exit__(self, *error):
        super().__exit__(*error)
        threading.Timer(0.05, self._answer_again).start()

    def _answer_again(self):
        for samples, outputs, reply in self._kept:
            reply.complete(samples, outputs)


class AtExit(Late):
    """Answers the poisoned sample again while it is being stopped."""

    def __exit__(self, *error):
        Tampering.__exit__(self, *error)
        for samples, outputs, reply in self._kept:
            places = poisoned_places(samples)
            reply.complete(samples.at(places), outputs[places])


class Raising(Tampering):
    def submit(self, samples, reply):
        if poisoned_places(samples):
            raise RuntimeError("cannot digest this sample")
        super().submit(samples, reply)


class RefusingToStart(Tampering):
    def __enter__(self):
        raise DataError("shard 3 of 5 is gone.", hint="Fetch it.")


class RefusingToWarmUp(Tampering):
    def warm_up(self, samples):
        raise UsageError("8 GB are not enough.")


class Flooding(Tampering):
    """Prints a megabyte for each query."""

    def submit(self, samples, reply):
        os.write(1, b"nothing to say" * 2**16)
        super().submit(samples, reply)


def untampered(samples, outputs, reply):
    reply.complete(samples, outputs)


BACKENDS = [
    BrokenEngine("no-flush", lambda engine: Unflushed(engine, untampered)),
    BrokenEngine("late-reply", Late),
    BrokenEngine("reply-at-exit", AtExit),
    BrokenEngine("raising-submit", lambda engine: Raising(engine, untampered)),
    BrokenEngine("refusing-to-start", lambda engine: RefusingToStart(engine, untampered)),
    BrokenEngine("refusing-to-warm-up", lambda engine: RefusingToWarmUp(engine, untampered)),
    BrokenEngine("flooding", lambda engine: Flooding(engine, untampered)),
]
