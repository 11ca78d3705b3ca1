"""Samples that no engine has seen: a dataset's samples under other indices, changed, or continued."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.generation import Prompt
from mlbench.contracts.wrapped import WrappedDataset

_SLIGHT = 2.0**-18
"""Relative; no larger than the effect of another batch on fp32 logits."""

_SHRUNK = 0.8, 1.0
"""Factors of numbers, so that rounding never makes two changes of a sample equal."""

_FEW_TOKENS = 4
"""Sequences of at most this many ids are left alone: the first and the last id stay in place."""


class Change(StrEnum):
    """How the arrays of a sample are changed. Shapes, types and the range of values stay as they are."""

    NONE = "none"
    SLIGHT = "slight"
    """Each number by so little that the answer stays the same; ids are left alone."""
    STRONG = "strong"
    """Numbers are mirrored and shifted along their last axis, and made a little smaller. Where there are only ids,
    each is drawn anew from the sample's own: where a model counts them, another order has no other answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A sample made of another."""

    base: int
    """Dataset index of the other."""
    change: Change = Change.NONE
    seed: int = 0
    continuation: tuple[int, ...] = ()
    """Tokens behind a prompt's own."""


class VariedDataset(WrappedDataset):
    """A dataset of whose indices some mean variations, the others what they always mean. Its samples are loaded.

    Its fingerprint is that of the data that was not varied.
    """

    def __init__(self, dataset: Dataset, variations: Mapping[int, Variation]) -> None:
        """Make the samples.

        Args:
            dataset: holds the samples that they are made of.
            variations: by the index that they are to have, which may be another sample's.
        """
        super().__init__(dataset)
        self._made = {index: vary_sample(dataset.sample(each.base), each) for index, each in variations.items()}

    def sample(self, index: int) -> Any:
        """Return a variation, or what the dataset has."""
        return self._made[index] if index in self._made else self.wrapped.sample(index)


def vary_sample(sample: Any, variation: Variation) -> Any:
    """Return a variation of a loaded sample, which stays as it is."""
    random = np.random.default_rng(variation.seed)
    if variation.change is not Change.NONE:
        sample = _rebuilt(sample, _change(sample, variation.change, random))
    if variation.continuation:
        tokens = np.concatenate([sample.tokens, np.array(variation.continuation, sample.tokens.dtype)])
        sample = dataclasses.replace(sample, tokens=tokens)
    return sample


def can_change(sample: Any, change: Change) -> bool:
    """Return whether a change makes another sample of this one."""
    changed = _arrays(vary_sample(sample, Variation(base=0, change=change)))
    return any(not np.array_equal(was, now) for was, now in zip(_arrays(sample), changed, strict=True))


def size_bytes(sample: Any) -> int:
    """Return how much memory the arrays of a sample take."""
    return sum(array.nbytes for array in _arrays(sample))


def _arrays(sample: Any) -> list[np.ndarray]:
    """Return the arrays of a sample, wherever they are in it."""
    found: list[np.ndarray] = []

    def note(array: np.ndarray) -> np.ndarray:
        found.append(array)
        return array

    _rebuilt(sample, note)
    return found


def _change(sample: Any, change: Change, random: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Return what is done to each array of a sample."""
    kinds = set(map(_kind, _arrays(sample)))
    if change is Change.SLIGHT:
        return lambda array: _shaken(array, random).astype(array.dtype) if array.dtype.kind == "f" else array
    places: dict[int, np.ndarray] = {}

    def changed(array: np.ndarray) -> np.ndarray:
        if _kind(array) == "numbers":
            mirrored = np.roll(np.flip(array, -1), int(random.integers(array.shape[-1])), -1)
            if array.dtype.kind == "f":
                mirrored = _shaken(mirrored * random.uniform(*_SHRUNK), random)
            return mirrored.astype(array.dtype)
        if _kind(array) == "ids" and "numbers" not in kinds:
            length = array.shape[-1]
            if length not in places:
                places[length] = np.concatenate([[0], random.integers(1, length - 1, length - 2), [length - 1]])
            return array[..., places[length]]
        return array

    return changed


def _kind(array: np.ndarray) -> str:
    """Return ``numbers`` (floats, images of bytes), ``ids`` (other integers, enough to be drawn anew), or nothing."""
    if not array.size or not array.ndim:
        return ""
    if array.dtype.kind == "f" or (array.dtype == np.uint8 and array.ndim > 1):
        return "numbers"
    return "ids" if array.dtype.kind in "iu" and array.shape[-1] > _FEW_TOKENS else ""


def _shaken(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return array * (1 + _SLIGHT * random.uniform(-1, 1, array.shape))


def _rebuilt(sample: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Return a sample with its arrays changed, wherever they are in it."""
    if isinstance(sample, np.ndarray):
        return change(sample)
    if isinstance(sample, Prompt):
        return dataclasses.replace(sample, tokens=change(sample.tokens))
    if dataclasses.is_dataclass(sample) and not isinstance(sample, type):
        values = {field.name: getattr(sample, field.name) for field in dataclasses.fields(sample) if field.init}
        return dataclasses.replace(sample, **{name: _rebuilt(value, change) for name, value in values.items()})
    if isinstance(sample, Mapping):
        return {name: _rebuilt(value, change) for name, value in sample.items()}
    if isinstance(sample, list | tuple):
        parts = [_rebuilt(value, change) for value in sample]
        return type(sample)(*parts) if hasattr(sample, "_fields") else type(sample)(parts)
    return sample
