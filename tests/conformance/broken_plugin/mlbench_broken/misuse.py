"""Engines that hand a reply an invalid answer, or change what they were given."""

import itertools
import tempfile

import numpy as np

from mlbench import Samples
from mlbench_broken.right import Uncomputed, Uttering, zeros


class Raising:
    """Raises whatever is asked of it."""

    def __len__(self):
        raise RuntimeError("no length today")

    def __index__(self):
        raise RuntimeError("no number today")

    def __iter__(self):
        raise RuntimeError("no items today")

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array today")

    def __str__(self):
        raise RuntimeError("no text today")

    __repr__ = __str__


class Endless:
    """Has as many items as are taken."""

    def __init__(self, item, length=1):
        self._item = item
        self._length = length

    def __len__(self):
        return self._length

    def __iter__(self):
        return itertools.repeat(self._item)


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("no text today")


def with_outputs(change):
    return lambda samples, reply: reply.complete(samples, change(zeros(samples)))


def with_counts(counts):
    return lambda samples, reply: reply.complete(samples, zeros(samples), counts(len(samples)))


def with_samples(change):
    return lambda samples, reply: reply.complete(change(samples), zeros(samples))


def with_ids(change):
    return with_samples(lambda samples: Samples([change(id_) for id_ in samples.ids], samples.indices, samples.dataset))


def empties_ids(samples, reply):
    samples.ids.clear()
    samples.indices.clear()


def replaces_ids(samples, reply):
    reply.complete(Samples(samples.ids, samples.indices, samples.dataset), zeros(samples))
    samples.ids = []


def one_row(samples, reply):
    reply.complete(samples, np.zeros((1, 10), np.float32))


def fails_with(reason):
    return lambda samples, reply: reply.fail(samples, reason)


def raises(error):
    def submit(samples, reply):
        raise error

    return submit


def mapped(samples, reply):
    """Answer with arrays of a class of their own; there is nothing wrong with that."""
    with tempfile.TemporaryFile() as file:
        reply.complete(samples, np.memmap(file, np.float32, "w+", shape=(len(samples), 10)))


MISUSES = {
    "mapped": mapped,
    "floats-for-counts": with_counts(lambda count: [1.0] * count),
    "texts-for-counts": with_counts(lambda count: ["1"] * count),
    "counts-that-raise": with_counts(lambda count: [Raising()] * count),
    "no-array": with_outputs(lambda outputs: 5),
    "array-without-dimensions": with_outputs(lambda outputs: np.array(0.0, np.float32)),
    "array-of-objects": with_outputs(lambda outputs: outputs.astype(object)),
    "other-byte-order": with_outputs(lambda outputs: outputs.astype(">f4")),
    "lists-for-arrays": with_outputs(lambda outputs: outputs.tolist()),
    "outputs-that-raise": with_outputs(lambda outputs: Raising()),
    "outputs-without-end": with_outputs(lambda outputs: Endless(outputs[0], len(outputs))),
    "one-row-for-a-query": one_row,
    "ids-for-samples": with_samples(lambda samples: list(samples.ids)),
    "nothing-for-samples": with_samples(lambda samples: None),
    "floats-for-ids": with_ids(float),
    "lists-for-ids": with_ids(lambda id_: [id_]),
    "ids-that-raise": with_ids(lambda id_: Raising()),
    "ids-of-nobody": with_ids(lambda id_: id_ + 1_000_000),
    "empties-samples": empties_ids,
    "replaces-samples": replaces_ids,
    "number-for-a-reason": fails_with(5),
    "bytes-in-a-reason": fails_with("caf\udce9 \x1b[31m"),
    "error-without-text": raises(Unreadable()),
    "exit-in-submit": raises(SystemExit(0)),
    "ctrl-c-in-submit": raises(KeyboardInterrupt("of its own")),
}

BACKENDS = [Uncomputed(name, lambda answer=answer: Uttering(answer)) for name, answer in MISUSES.items()]
