"""A model's file: the tensors that it declares, and what makes a graph of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mlbench import UsageError

if TYPE_CHECKING:
    import numpy as np

    from mlbench import Graph, GraphBackend
    from mlbench_own_model.signature import Signature

Calibrate = Callable[[], Iterator[Mapping[str, "np.ndarray"]]]
"""Yields inputs of the graph, by name."""

DTYPES = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
"""Types of tensors that NumPy has, by its names."""


NOT_A_TENSOR = "a sequence or a map"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTensor:
    """An input or output as the file declares it."""

    name: str
    dtype: str
    """NumPy's name."""
    shape: tuple[int | str, ...]
    """Sizes; an open one is the name of its dimension."""

    def __str__(self) -> str:
        return f"{self.name}: {' x '.join(map(str, self.shape)) or 'one number'}"


class ModelFile(ABC):
    """A user's model. It is read when it is made; weights only where a graph asks for them."""

    path: Path
    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
    id_counts: Mapping[str, int]
    """By the name of an input that is looked up in a table: the table's rows. Its ids lie below."""
    ranges: Mapping[str, tuple[int, int | None]] = MappingProxyType({})
    """By the name of an open size: the smallest and the largest, None without a largest."""
    fingerprint: str
    """A hash of the file and its weights."""

    @abstractmethod
    def graph(self, signature: Signature, calibrate: Calibrate) -> Graph:
        """Return the model as a graph of these shapes."""

    @abstractmethod
    def noisy_graph(self, signature: Signature, share: float) -> Graph:
        """Return the graph with each weight changed by up to this share of itself, at random but always alike."""

    @abstractmethod
    def reference(self) -> GraphBackend:
        """Return the backend that computes the graph operator by operator, without an optimiser.

        Raises:
            UnavailableError: its runtime is not installed.
        """


def check_tensors(path: Path, tensors: tuple[DeclaredTensor, ...], kind: str) -> None:
    """Raise `UsageError` for a model without inputs or outputs, or with one whose type has no NumPy array."""
    if not tensors:
        raise UsageError(f"{path.name} has no {kind}.", hint="Export a model with tensors in and tensors out.")
    for each in tensors:
        if each.dtype == NOT_A_TENSOR:
            raise UsageError(
                f"{path.name}: {kind} {each.name} is {NOT_A_TENSOR}, not a tensor.",
                hint="Export tensors alone; skl2onnx does with options={'zipmap': False}.",
            )
        if each.dtype not in DTYPES:
            raise UsageError(
                f"{path.name}: {kind} {each.name} is {each.dtype}, which NumPy has no type for.",
                hint=f"Export it as one of {', '.join(DTYPES)}.",
            )
