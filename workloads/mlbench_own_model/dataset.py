"""Inputs of the user's model: random, or the user's own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from mlbench import Dim, TensorSpec, UsageError
from mlbench.toolkit import StoredSamples, foreign
from mlbench_own_model.signature import Signature

if TYPE_CHECKING:
    from mlbench_own_model.graphs import OpenModel
    from mlbench_own_model.options import OwnModelOptions

SAMPLES, LEAST_SAMPLES = 64, 8
MOST_BYTES = 256 * 2**20
"""Random samples are fewer than `SAMPLES` where these take more."""
SIZES = 8
"""A size with a range takes so many values, evenly spaced: samples of one shape share a batch."""

Sample = Mapping[str, np.ndarray]
"""An array for each input, without the batch's axis."""


class ModelInputs(StoredSamples[Sample]):
    """Samples in memory, and the right answers to them where the user gives some."""

    def __init__(self, samples: Sequence[Sample], fingerprint: str, answers: Mapping[str, np.ndarray]) -> None:
        """Store them; the first axis of each of the ``answers`` is the samples."""
        super().__init__(samples, fingerprint)
        self.answers = answers


def open_inputs(opened: OpenModel, options: OwnModelOptions) -> ModelInputs:
    """Return the user's inputs, or random ones.

    Raises:
        UsageError: inputs do not fit the model; the message names the first.
        DataError: a file cannot be read.
    """
    if options.inputs:
        return _read_inputs(opened, options.inputs)
    signature, counts = opened.signature, opened.file.id_counts
    size_bytes = sum(_largest_bytes(signature, spec) for spec in signature.inputs)
    if size_bytes * LEAST_SAMPLES > psutil.virtual_memory().total:
        raise UsageError(
            f"a sample of {opened.file.path.name} takes {size_bytes / 2**30:,.0f} GiB.",
            hint="Give smaller sizes with --shape or --dim.",
        )
    count = options.samples or max(LEAST_SAMPLES, min(SAMPLES, MOST_BYTES // max(1, size_bytes)))
    samples = [_draw(signature, counts, np.random.default_rng([options.seed, index])) for index in range(count)]
    drawn = f"{count} samples of seed {options.seed} for {signature.inputs}, ids below {dict(counts)}"
    return ModelInputs(samples, hashlib.sha256(drawn.encode()).hexdigest(), {})


def _largest_bytes(signature: Signature, spec: TensorSpec) -> int:
    sizes = (size.largest if isinstance(size, Dim) else size for size in signature.sample_shape(spec))
    return int(np.prod([*sizes, np.dtype(spec.dtype).itemsize], dtype=np.int64))


def _draw(signature: Signature, counts: Mapping[str, int], random: np.random.Generator) -> Sample:
    """Return a random sample: numbers from 0 to 1, ids below their table's rows, masks that hide nothing.

    Integers that are looked up in no table are 0 or 1, which most models take: a token's type, a switch.
    """
    sizes = {dim.name: int(random.choice(_values(dim))) for dim in signature.dims.values()}
    found: dict[str, np.ndarray] = {}
    for spec in signature.inputs:
        shape = [sizes[size.name] if isinstance(size, Dim) else size for size in signature.sample_shape(spec)]
        dtype = np.dtype(spec.dtype)
        if "mask" in spec.name.lower():
            found[spec.name] = np.ones(shape, dtype)
        elif dtype.kind == "f":
            found[spec.name] = random.random(shape).astype(dtype)
        elif dtype == np.uint8 and spec.name not in counts:
            found[spec.name] = random.integers(0, 256, shape).astype(dtype)
        else:
            found[spec.name] = random.integers(0, counts.get(spec.name, 2), shape).astype(dtype)
    return found


def _values(dim: Dim) -> np.ndarray:
    return np.unique(np.linspace(dim.smallest, dim.largest, SIZES).round().astype(int))


def _read_inputs(opened: OpenModel, place: Path) -> ModelInputs:
    """Return the samples of an .npz file or of a folder of .npy files."""
    arrays = _read_arrays(place)
    signature, name = opened.signature, opened.file.path.name
    inputs, outputs = [spec.name for spec in signature.inputs], [spec.name for spec in signature.outputs]
    if unknown := next((each for each in arrays if each not in (*inputs, *outputs)), ""):
        raise UsageError(
            f"{place} has an array {unknown!r}, which {name} does not.",
            hint=f"Its inputs are {', '.join(inputs)}; its outputs {', '.join(outputs)}.",
        )
    if missing := [each for each in inputs if each not in arrays]:
        raise UsageError(f"{place} has no array {missing[0]!r}.", hint=f"{name} takes {', '.join(inputs)}.")
    counts = {each: len(array) if array.ndim else 0 for each, array in arrays.items()}
    if len(set(counts.values())) > 1 or not min(counts.values()):
        listed = ", ".join(f"{each} has {count}" for each, count in counts.items())
        raise UsageError(f"{place}: {listed} samples.", hint="The first axis of every array is the samples.")
    for spec in signature.inputs:
        arrays[spec.name] = _check_array(arrays[spec.name], spec, opened, place)
    count = counts[inputs[0]]
    samples = [{each: arrays[each][index] for each in inputs} for index in range(count)]
    digest = hashlib.sha256()
    for each in sorted(arrays):
        digest.update(f"{each} {arrays[each].dtype} {arrays[each].shape}\0".encode() + arrays[each].tobytes())
    return ModelInputs(samples, digest.hexdigest(), {each: arrays[each] for each in outputs if each in arrays})


def _read_arrays(place: Path) -> dict[str, np.ndarray]:
    """Return arrays by name; a pickled object in a file is refused."""
    files = sorted(place.glob("*.npy")) if place.is_dir() else [place]
    if not files:
        raise UsageError(f"{place} has no .npy files.", hint="Name a folder with an array for each input: ids.npy.")
    found: dict[str, Any] = {}
    for file in files:
        hint = "Write it with numpy.savez or numpy.save, numbers only."
        with foreign("inputs cannot be read:", str(file), hint=hint, path=file):
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                found[file.stem] = loaded
                continue
            with loaded:
                found |= {key: loaded[key] for key in loaded.files}
    return found


def _check_array(array: np.ndarray, spec: TensorSpec, opened: OpenModel, place: Path) -> np.ndarray:
    """Return the user's array in the type of its input; ids that no table has are refused."""
    signature = opened.signature
    wanted = signature.sample_shape(spec)
    if array.ndim != len(wanted) + 1 or not all(map(_is_size, array.shape[1:], wanted)):
        needs = " x ".join(str(size.name) if isinstance(size, Dim) else str(size) for size in wanted) or "one number"
        raise UsageError(
            f"{place}: a sample of {spec.name} is {' x '.join(map(str, array.shape[1:])) or 'one number'}.",
            hint=f"{opened.file.path.name} takes {needs}.",
        )
    dtype = np.dtype(spec.dtype)
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise UsageError(f"{place}: {spec.name} is {array.dtype}.", hint=f"{opened.file.path.name} takes {dtype}.")
    rows = opened.file.id_counts.get(spec.name)
    if rows and array.size and not -rows <= array.min() <= array.max() < rows:
        index = int(np.argmax(((array >= rows) | (array < -rows)).reshape(len(array), -1).any(1)))
        outside = next(int(each) for each in array[index].flat if not -rows <= each < rows)
        raise UsageError(
            f"{place}: sample {index} of {spec.name} has the id {outside}.",
            hint=f"The model's table has {rows} rows: ids are from 0 to {rows - 1}.",
        )
    return array.astype(dtype, copy=False)


def _is_size(size: int, wanted: int | Dim) -> bool:
    return wanted.smallest <= size <= wanted.largest if isinstance(wanted, Dim) else size == wanted
