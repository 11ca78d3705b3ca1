"""Backends whose speed was not computed, each in one way, around one that is right: what the kit and a run must catch.

Installed and discovered as `mlbench_broken` is.
"""

import pickle
import tempfile
import threading
from pathlib import Path

import numpy as np
from mlbench_broken.right import Right
from mlbench_broken.wrapping import Tampering

from mlbench import GenerationProgram, Reply, hookimpl
from mlbench.toolkit import graph_engine

MADE_UP = 7
"""A first token that nobody computed."""


class Cheat(Right):
    """Puts something between the right engine and whoever asks it."""

    def __init__(self, name, wrap):
        self.name = name
        self._wrap = wrap

    def engine(self, model, plan):
        return self._wrap(graph_engine(self, model, plan), model)


class Remembered(Tampering):
    """Answers from memory what it has answered before, known by ``key(index, sample)``."""

    def __init__(self, engine, key, unknown=None):
        super().__init__(engine, None)
        self._key = key
        self._unknown = unknown
        self._known = {}
        self._lock = threading.Lock()

    def submit(self, samples, reply):
        keys = [self._key(index, samples.dataset.sample(index)) for index in samples.indices]
        with self._lock:
            found = [self._known.get(key) for key in keys]
        if new := [place for place, answer in enumerate(found) if answer is None]:
            self._answer_new(samples.at(new), [keys[place] for place in new], reply)
        for place, answer in enumerate(found):
            if answer is not None:
                give(samples.at([place]), answer, reply)

    def _answer_new(self, samples, keys, reply):
        if self._unknown is not None and len(self._known) >= samples.dataset.count:
            answer = self._unknown(self._known)
            for place in range(len(samples)):
                give(samples.at([place]), answer, reply)
        else:
            names = dict(zip(samples.ids, keys, strict=True))
            self._engine.submit(samples, Remembering(reply, self._known, names, self._lock))


def give(samples, answer, reply):
    output, first, count = answer
    if first is not None:
        reply.first_token(samples, first)
    reply.complete(samples, output, count)


class Remembering(Reply):
    """Keeps each answer under its key on the way."""

    def __init__(self, reply, known, keys, lock):
        self._reply = reply
        self._known = known
        self._keys = keys
        self._lock = lock
        self._firsts = {}

    def first_token(self, samples, tokens):
        with self._lock:
            self._firsts.update({id_: tokens[place : place + 1] for place, id_ in enumerate(samples.ids)})
        self._reply.first_token(samples, tokens)

    def complete(self, samples, outputs, token_counts=None):
        with self._lock:
            for place, id_ in enumerate(samples.ids):
                count = token_counts and list(token_counts[place : place + 1])
                answer = outputs[place : place + 1], self._firsts.get(id_), count
                self._known.setdefault(self._keys[id_], answer)
        self._reply.complete(samples, outputs, token_counts)

    def fail(self, samples, reason):
        self._reply.fail(samples, reason)

    def invalidate(self, reason):
        self._reply.invalidate(reason)


class OnDisk(Remembered):
    """Answers from a file what earlier processes have answered, and adds its own when it ends."""

    def __init__(self, engine, model):
        super().__init__(engine, by_content)
        self._file = Path(tempfile.gettempdir(), f"caching-on-disk-{type(model.program).__name__}")
        self._before = pickle.loads(self._file.read_bytes()) if self._file.exists() else {}

    def submit(self, samples, reply):
        answered = self._known
        self._known = dict(self._before)  # nothing of this process's own
        super().submit(samples, reply)
        self._known = {**answered, **self._known}

    def __exit__(self, *error):
        super().__exit__(*error)
        self._file.write_bytes(pickle.dumps({**self._before, **self._known}))


def by_index(index, sample):
    return index


def by_content(index, sample):
    return pickle.dumps(sample)


def one_of(known):
    return next(iter(known.values()))


def guessing_batches(engine, model):
    """Answer all but the first contents of a data set with one of the answers to those: the kit's own are right."""
    return engine if isinstance(model.program, GenerationProgram) else Remembered(engine, by_content, one_of)


class CachingCalls(Right):
    """Compiles graphs to executables that know what they answered to equal inputs."""

    name = "caching-calls"

    def compile(self, graph, precision):
        run = super().compile(graph, precision)
        known = {}

        def looked_up(inputs):
            key = b"".join(np.ascontiguousarray(inputs[spec.name]).tobytes() for spec in graph.inputs)
            if key not in known:
                known[key] = run(inputs)
            return {name: output.copy() for name, output in known[key].items()}

        return run if graph.state else looked_up


class Tokens(Tampering):
    """Changes what is said of tokens: ``first(tokens)``, ``answer(tokens)``, ``count(number)``."""

    def __init__(self, engine, first=None, answer=None, count=None):
        super().__init__(engine, None)
        self._change = first, answer, count

    def submit(self, samples, reply):
        self._engine.submit(samples, ChangedTokens(reply, *self._change))


class ChangedTokens(Reply):
    def __init__(self, reply, first, answer, count):
        self._reply = reply
        self._first = first or (lambda tokens: tokens)
        self._answer = answer or (lambda tokens: tokens)
        self._count = count or (lambda number: number)

    def first_token(self, samples, tokens):
        self._reply.first_token(samples, self._first(tokens))

    def complete(self, samples, outputs, token_counts=None):
        answers = [self._answer(output) for output in outputs]
        counts = None if token_counts is None else [self._count(len(answer)) for answer in answers]
        self._reply.complete(samples, answers, counts)

    def fail(self, samples, reason):
        self._reply.fail(samples, reason)

    def invalidate(self, reason):
        self._reply.invalidate(reason)


class Hasty(Tampering):
    """Reports a first token as soon as it is asked; ``is_forced``: and puts it before each answer."""

    def __init__(self, engine, *, is_forced):
        super().__init__(engine, None)
        self._is_forced = is_forced

    def submit(self, samples, reply):
        made_up = np.full((len(samples), 1), MADE_UP, np.int64)
        reply.first_token(samples, made_up)
        self._engine.submit(samples, WithoutFirst(reply, self._forced if self._is_forced else None))

    def _forced(self, tokens):
        return np.concatenate([[MADE_UP], tokens])


class WithoutFirst(ChangedTokens):
    def __init__(self, reply, answer):
        super().__init__(reply, None, answer, None)

    def first_token(self, samples, tokens):
        pass


def third(tokens):
    return tokens[: max(2, len(tokens) // 3)].copy()


def third_with_end(end):
    return lambda tokens: np.concatenate([third(tokens)[:-1], [end]])


def end_of(model):
    return model.program.decoding.end_tokens[0] if isinstance(model.program, GenerationProgram) else 0


@hookimpl
def mlbench_backends():
    return [
        CachingCalls(),
        Cheat("caching-by-index", lambda engine, model: Remembered(engine, by_index)),
        Cheat("caching-by-content", lambda engine, model: Remembered(engine, by_content)),
        Cheat("caching-on-disk", OnDisk),
        Cheat("guessing-unknown-batches", guessing_batches),
        Cheat("caching-or-guessing", lambda engine, model: Remembered(engine, by_content, one_of)),
        Cheat("counting-too-many", lambda engine, model: Tokens(engine, count=lambda number: 11 * number)),
        Cheat("another-first-token", lambda engine, model: Tokens(engine, first=lambda tokens: tokens + 1)),
        Cheat("making-up-first", lambda engine, model: Hasty(engine, is_forced=False)),
        Cheat("forcing-first", lambda engine, model: Hasty(engine, is_forced=True)),
        Cheat("cutting", lambda engine, model: Tokens(engine, answer=third)),
        Cheat("cutting-with-end", lambda engine, model: Tokens(engine, answer=third_with_end(end_of(model)))),
    ]
