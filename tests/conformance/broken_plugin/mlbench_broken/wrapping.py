"""A right engine, with something between it and whoever asks."""

from mlbench import Engine, Reply
from mlbench.toolkit import graph_engine
from mlbench_broken.right import POISONED_INDEX, Right


class BrokenReplies(Right):
    """Has the right engine answer through ``tamper(samples, outputs, reply)``."""

    def __init__(self, name, tamper):
        self.name = name
        self._tamper = tamper

    def engine(self, model, plan):
        return Tampering(graph_engine(self, model, plan), self._tamper)


class Tampering(Engine):
    def __init__(self, engine, tamper):
        self._engine = engine
        self._tamper = tamper

    def __enter__(self):
        self._engine.__enter__()
        return self

    def __exit__(self, *error):
        self._engine.__exit__(*error)

    def warm_up(self, samples):
        self._engine.warm_up(samples)

    def flush(self):
        self._engine.flush()

    def capacity(self):
        return self._engine.capacity()

    def submit(self, samples, reply):
        self._engine.submit(samples, TamperedReply(reply, self._tamper))


class TamperedReply(Reply):
    def __init__(self, reply, tamper):
        self._reply = reply
        self._tamper = tamper

    def complete(self, samples, outputs, token_counts=None):
        self._tamper(samples, outputs, self._reply)

    def first_token(self, samples, tokens):
        self._reply.first_token(samples, tokens)

    def fail(self, samples, reason):
        self._reply.fail(samples, reason)

    def invalidate(self, reason):
        self._reply.invalidate(reason)


def poisoned_places(samples):
    return [place for place, index in enumerate(samples.indices) if index == POISONED_INDEX]


def sound_places(samples):
    return [place for place, index in enumerate(samples.indices) if index != POISONED_INDEX]


class BrokenEngine(Right):
    """Wraps the right engine in another class."""

    def __init__(self, name, wrap):
        self.name = name
        self._wrap = wrap

    def engine(self, model, plan):
        return self._wrap(graph_engine(self, model, plan))
