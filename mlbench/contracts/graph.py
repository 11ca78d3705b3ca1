"""A graph: a named tensors-in, tensors-out function, and what a backend turns it into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mlbench.contracts.precision import Precision

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import torch

Array = Any
"""A NumPy array, or anything with ``__dlpack__`` whose memory the CPU can read."""


NEXT = ".next"
"""Suffix of state tensors among the outputs of a graph's ONNX form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """A dimension that varies between calls, and its range.

    Backends build optimisation profiles from the range; a call outside it is the caller's error.
    """

    name: str
    smallest: int
    usual: int
    largest: int

    def __post_init__(self) -> None:
        if not 1 <= self.smallest <= self.usual <= self.largest:
            raise ValueError(f"dimension {self.name}: expected 1 <= smallest <= usual <= largest, got {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One input or output of a graph."""

    name: str
    shape: tuple[int | Dim, ...]
    dtype: str
    """NumPy's name: ``float32``, ``int64``, ..."""
    layout: str = ""
    """One letter per axis where their order matters to a backend: ``NCHW``."""

    def concrete_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape with these sizes for the dimensions that vary; raises KeyError where one is missing."""
        return tuple(sizes[dim.name] if isinstance(dim, Dim) else dim for dim in self.shape)

    def axis_of(self, name: str) -> int:
        """Return the position of the varying dimension of this name; raises ValueError where there is none."""
        return [dim.name if isinstance(dim, Dim) else "" for dim in self.shape].index(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far an output may be from the torch module's: ``absolute + relative * |expected|``, per element."""

    absolute: float
    relative: float


class Graph(ABC):
    """A function that a backend can compile, with its weights.

    `mlbench.toolkit.ModuleGraph` is the ready-made one: a torch module, exported to ONNX on demand.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    """Where all inputs and outputs have one varying first axis in common, its rows do not depend on each other: a
    backend may compute them in any company, and among rows that it added."""
    outputs: tuple[TensorSpec, ...]
    state: tuple[TensorSpec, ...] = ()
    """Tensors that live on the device between calls and that a call updates in place (a key-value cache).

    The first axis of each is `mlbench.contracts.generation.SLOTS`: rows that belong to one sequence each.
    """
    is_used_once: bool = False
    """Whether what takes long to make of it, to be kept for later runs, is not worth making: a damaged copy."""

    @abstractmethod
    def module(self) -> torch.nn.Module:
        """Return the torch module with its weights, fp32, in eval mode.

        ``forward`` takes the inputs as positional tensors in the order of `inputs` and returns the outputs in the order
        of `outputs` (a tensor when there is one, else a tuple). The module is the caller's to change. Modules of a
        model's graphs may share weights, though: what is done to those of one is then done to the other's.

        With a `state`, ``forward`` takes its tensors after the inputs, changes them in place and returns them after the
        outputs. They may be kept in the precision that is computed in, whatever floating point type their specs name.
        """

    def module_at(self, precision: Precision) -> torch.nn.Module:
        """Return `module` for a backend that computes in a lower precision.

        Weights of matrix products may be in that precision already, where reading them so saves memory; by default
        everything is fp32. A caller converts what is not.
        """
        return self.module()

    @abstractmethod
    def onnx(self) -> Path:
        """Return the path of the same function as one ONNX file, made once and kept in the cache.

        A `state` tensor is an input of its name, and an output of its name with `NEXT` behind it.
        """

    @abstractmethod
    def calibration(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield inputs made from the official calibration set, for quantisation; nothing when the graph has none."""

    def precision(self, asked: Precision) -> Precision:
        """Return the precision to compile this graph at in a run of precision ``asked``: usually the same.

        An image decoder that overflows in fp16 answers fp32, as its reference implementation does.
        """
        return asked

    @abstractmethod
    def tolerance(self, precision: Precision) -> Tolerance:
        """Return how far a backend's outputs may be from `module`'s at this precision."""

    @property
    def code(self) -> frozenset[str]:
        """The modules whose code makes `module`, by name; what is traced is made anew where their packages changed."""
        return frozenset({type(self).__module__})

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of everything that decides the outputs: weights, structure, versions. Keys the compile caches."""


class Executable(Protocol):
    """A compiled graph. It may be called from one thread at a time."""

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, Array]:
        """Compute all outputs by name. Later calls must not change them: never return a buffer that is reused."""


@runtime_checkable
class StatefulExecutable(Protocol):
    """A compiled graph whose `Graph.state` lives on the device between calls.

    A state made by one serves all that the same backend compiled, at the same precision, from graphs of equal `state`.
    A backend may leave all of this out and return a plain `Executable` of the graph's ONNX form, state tensors among
    its inputs and outputs: the core then carries them from call to call, which copies them each time.
    """

    def new_state(self, sizes: Mapping[str, int], /) -> object:
        """Return zeroed state with these sizes for its varying dimensions: a handle that the core never copies."""

    def resize(self, state: object, sizes: Mapping[str, int], /) -> object:
        """Return state of these sizes, none smaller, that begins with the contents of ``state``.

        Out of memory, it raises and leaves ``state`` unchanged; otherwise ``state`` is not used again.
        """

    def copy_rows(self, state: object, sources: Sequence[int], targets: Sequence[int], columns: range, /) -> None:
        """Copy rows of each state tensor, in place: all sources are read before a target is written.

        Only these columns, which are positions along the dimension `mlbench.contracts.generation.LENGTH`, need be.
        """

    def __call__(self, inputs: Mapping[str, np.ndarray], state: object, /) -> Mapping[str, Array]:
        """Compute all outputs by name and update ``state`` in place."""
