"""From samples to calls of the user's graph, and from its outputs to replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mlbench import BatchProgram, Dim, Executable, Model, ReplySpec
from mlbench.toolkit import host_array
from mlbench_own_model.dataset import Sample, open_inputs
from mlbench_own_model.signature import Signature

if TYPE_CHECKING:
    from mlbench_own_model.graphs import OpenModel
    from mlbench_own_model.options import OwnModelOptions

CALIBRATED = 32
"""Samples that ranges of a quantised graph are taken from."""

LARGEST_REPLY = 2**18
"""Numbers of an output that a reply holds: of a larger one every second, third, ... is taken."""

_SMALL = ("float16", "float32", "bool", "int8", "int16", "uint8", "uint16")
"""Types whose every value float32 holds."""


class TensorProgram(BatchProgram):
    """Calls the graph with samples of one shape at a time; a reply is all outputs of a sample, flat."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.reply = ReplySpec(dtype=reply_dtype(signature), shape=(_reply_size(signature),))
        self._varies = bool(signature.dims)

    def run(self, samples: Sequence[Sample], graphs: Mapping[str, Executable]) -> np.ndarray | Sequence[np.ndarray]:
        """Answer each sample; samples of one shape share a call where the model has a batch."""
        if not self.signature.has_batch:
            return self._join([self._call([sample], graphs) for sample in samples])
        if not self._varies and not self.signature.rows and len(samples) <= self.signature.largest_batch:
            return self._call(samples, graphs)
        replies: list[np.ndarray | None] = [None] * len(samples)
        for places in self._calls(samples):
            found = self._call([samples[place] for place in places], graphs)
            for place, reply in zip(places, found, strict=False):
                replies[place] = reply
        return self._join([reply[np.newaxis] for reply in replies if reply is not None])

    def length(self, sample: Sample) -> int:
        """Return how many numbers a sample has, where that varies."""
        return sum(array.size for array in sample.values()) if self._varies else 0

    def _calls(self, samples: Sequence[Sample]) -> Iterator[list[int]]:
        """Yield the places of the samples of each call: those of one shape, as many as the user fixed."""
        by_shape: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for place, sample in enumerate(samples):
            by_shape.setdefault(tuple(sample[spec.name].shape for spec in self.signature.inputs), []).append(place)
        for places in by_shape.values():
            size = self.signature.rows or self.signature.largest_batch
            yield from (places[start : start + size] for start in range(0, len(places), size))

    def _call(self, samples: Sequence[Sample], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return the replies of one call: (samples, numbers)."""
        parts = call_graph(self.signature, graphs["model"], samples)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _join(self, replies: Sequence[np.ndarray]) -> np.ndarray | Sequence[np.ndarray]:
        """Return replies of one size as one array."""
        if len({each.shape for each in replies}) == 1:
            return np.concatenate(replies)
        return [each[0] for each in replies]


def call_graph(signature: Signature, run: Executable, samples: Sequence[Sample]) -> list[np.ndarray]:
    """Return each output of one call, in the type of replies: (samples, numbers)."""
    outputs = run(stack_inputs(signature, samples))
    rows = (signature.rows or len(samples)) if signature.has_batch else 1
    dtype = np.dtype(reply_dtype(signature))
    arrays = [host_array(outputs[spec.name]) for spec in signature.outputs]
    return [thin(array.reshape(rows, -1)).astype(dtype, copy=False)[: len(samples)] for array in arrays]


def stack_inputs(signature: Signature, samples: Sequence[Sample]) -> dict[str, np.ndarray]:
    """Return the inputs of one call; a batch of a fixed size is filled up with its last sample."""
    if not signature.has_batch:
        return {spec.name: samples[0][spec.name] for spec in signature.inputs}
    filled = [*samples, *[samples[-1]] * (signature.rows - len(samples))]
    return {spec.name: np.stack([sample[spec.name] for sample in filled]) for spec in signature.inputs}


def thin(rows: np.ndarray) -> np.ndarray:
    """Return (samples, numbers) with at most `LARGEST_REPLY` numbers of each sample, evenly spaced."""
    return rows[:, :: -(-rows.shape[1] // LARGEST_REPLY)] if rows.shape[1] > LARGEST_REPLY else rows


def thin_size(size: int) -> int:
    """Return how many of so many numbers `thin` leaves."""
    return -(-size // -(-size // LARGEST_REPLY)) if size > LARGEST_REPLY else size


def reply_dtype(signature: Signature) -> str:
    """Return the type of replies, which holds every value of every output: numbers where any output is one."""
    kinds = [np.dtype(spec.dtype) for spec in signature.outputs]
    if all(each.kind in "iub" for each in kinds):
        return "int64"
    return "float32" if all(spec.dtype in _SMALL for spec in signature.outputs) else "float64"


def _reply_size(signature: Signature) -> int | None:
    sizes = [_size(signature.sample_shape(spec)) for spec in signature.outputs]
    return None if any(size is None for size in sizes) else sum(map(thin_size, filter(None, sizes)))


def _size(shape: Sequence[int | Dim]) -> int | None:
    found = 1
    for each in shape:
        if isinstance(each, Dim):
            return None
        found *= each
    return found


def build_model(name: str, opened: OpenModel, options: OwnModelOptions) -> Model:
    """Return the model of a run."""
    graph = opened.file.graph(opened.signature, partial(calibration_inputs, opened, options))
    return Model(
        name=name,
        graphs={"model": graph},
        program=TensorProgram(opened.signature),
        weights_fingerprint=opened.file.fingerprint,
        reference=opened.file.compile_reference,
    )


def calibration_inputs(opened: OpenModel, options: OwnModelOptions) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield the first samples, a call each."""
    data = open_inputs(opened, options)
    chosen = range(min(CALIBRATED, data.count))
    data.load(chosen)
    for index in chosen:
        yield stack_inputs(opened.signature, [data.sample(index)])
