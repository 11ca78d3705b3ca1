"""Engines that compute, and do not keep to the times at which they may answer."""

import threading

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


def untampered(samples, outputs, reply):
    reply.complete(samples, outputs)


BACKENDS = [
    BrokenEngine("no-flush", lambda engine: Unflushed(engine, untampered)),
    BrokenEngine("late-reply", Late),
    BrokenEngine("reply-at-exit", AtExit),
    BrokenEngine("raising-submit", lambda engine: Raising(engine, untampered)),
]
