"""A graph: a named tensors-in, tensors-out function, and the executable that a backend makes of it."""

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
"""A NumPy array, or an object with ``__dlpack__`` whose memory the CPU can read."""


NEXT = ".next"
"""Suffix of state tensors among the outputs of a graph's ONNX form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """A dimension that varies between calls, and its range.

    Backends build optimisation profiles from the range; callers must stay within it.
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
        """Return the shape with these sizes of the varying dimensions; raises KeyError where one is missing."""
        return tuple(sizes[dim.name] if isinstance(dim, Dim) else dim for dim in self.shape)

    def axis_of(self, name: str) -> int:
        """Return the position of the varying dimension of this name; raises ValueError where there is none."""
        return [dim.name if isinstance(dim, Dim) else "" for dim in self.shape].index(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Largest allowed difference from the torch module's output: ``absolute + relative * |expected|``, per element."""

    absolute: float
    relative: float


class Graph(ABC):
    """A function that a backend can compile, with its weights.

    `mlbench.toolkit.ModuleGraph` is the ready-made one: a torch module, exported to ONNX on demand.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    """If all inputs and outputs share a varying first axis, and there is no state, its rows are independent: a backend
    may group them in any way, and add rows."""
    outputs: tuple[TensorSpec, ...]
    state: tuple[TensorSpec, ...] = ()
    """Tensors that live on the device between calls and that a call updates in place (a key-value cache).

    The first axis of each is `mlbench.contracts.generation.SLOTS`: rows of one sequence or sample each.
    """
    state_keeps_types: bool = False
    """Whether state has the types of its specs at any precision, for numbers that need their digits."""
    unquantized: tuple[str, ...] = ()
    """Parts that stay in floating point where the graph is quantised: each is in the names of their weights."""
    calibration_id: str = ""
    """Tells calibration inputs from others that begin alike: a file that was quantised by these is kept under it."""
    is_used_once: bool = False
    """Whether the graph is used once, as a damaged copy is: files that take long to make are not worth caching."""

    @abstractmethod
    def module(self) -> torch.nn.Module:
        """Return the torch module with its weights, fp32, in eval mode.

        ``forward`` takes the inputs as positional tensors in the order of `inputs` and returns the outputs in the order
        of `outputs` (a tensor when there is one, else a tuple). The caller may change the module. Modules of a model's
        graphs may share weights, though: a change of one is then a change of the other.

        With a `state`, ``forward`` takes its tensors after the inputs, changes them in place and returns them after the
        outputs. Unless `state_keeps_types`, they may be kept in the run's precision, whichever floating point type
        their specs name.
        """

    def module_at(self, precision: Precision) -> torch.nn.Module:
        """Return the `module` for a backend that computes in a lower precision.

        Weights of matrix products may be in that precision already, which saves memory; by default all are fp32. The
        caller converts the rest.
        """
        return self.module()

    @abstractmethod
    def onnx(self) -> Path:
        """Return the path of the same function as one ONNX file, made once and kept in the cache.

        A `state` tensor is an input of its name, and an output of its name with `NEXT` behind it.
        """

    @abstractmethod
    def calibration(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield inputs from the official calibration set, for quantisation; nothing when the graph has none.

        With a `state`, they may have its tensors too, by name, as a call would find them: without, no ranges are known.
        """

    def precision(self, asked: Precision) -> Precision:
        """Return the precision to compile this graph at in a run of precision ``asked``: usually the same.

        An image decoder that overflows in fp16 returns fp32, as its reference implementation does.
        """
        return asked

    @abstractmethod
    def tolerance(self, precision: Precision) -> Tolerance:
        """Return the allowed difference of a backend's outputs from the `module`'s at this precision."""

    @property
    def code(self) -> frozenset[str]:
        """Names of the modules whose code builds `module`; traces are repeated when their packages change."""
        return frozenset({type(self).__module__})

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of everything that affects the outputs: weights, structure, versions. Key of the compile caches."""


class Executable(Protocol):
    """A compiled graph. It may be called from one thread at a time."""

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, Array]:
        """Compute all outputs by name. Never return a buffer that a later call overwrites."""


@runtime_checkable
class StatefulExecutable(Protocol):
    """A compiled graph whose `Graph.state` lives on the device between calls.

    All executables that the same backend compiled at the same precision from graphs of equal `state` can use each
    other's states; at any precision where `Graph.state_keeps_types`. Alternatively a backend may return a plain
    `Executable` of the graph's ONNX form, with state tensors among its inputs and outputs: the core then passes them
    from call to call, which copies them each time.
    """

    def new_state(self, sizes: Mapping[str, int], /) -> object:
        """Return zeroed state with these sizes of its varying dimensions: a handle that the core never copies."""

    def resize(self, state: object, sizes: Mapping[str, int], /) -> object:
        """Return state of these sizes, none smaller, that begins with the contents of ``state``.

        Out of memory, it raises and leaves ``state`` unchanged; otherwise ``state`` is not used again.
        """

    def copy_rows(self, state: object, sources: Sequence[int], targets: Sequence[int], columns: range, /) -> None:
        """Copy rows of each state tensor, in place: all sources are read before a target is written.

        Only these columns need copying: positions along the dimension `mlbench.contracts.generation.LENGTH`.
        """

    def __call__(self, inputs: Mapping[str, np.ndarray], state: object, /) -> Mapping[str, Array]:
        """Compute all outputs by name and update ``state`` in place."""
