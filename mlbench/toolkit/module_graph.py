"""The ready-made graph: a torch module, exported to ONNX when a backend asks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.contracts.graph import Executable, Graph, TensorSpec, Tolerance
from mlbench.contracts.precision import Precision

if TYPE_CHECKING:
    import numpy as np
    import torch

Calibrate = Callable[[], Iterator[Mapping[str, "np.ndarray"]]]
"""Yields inputs of a graph, by name."""

TOLERANCES: Mapping[Precision, Tolerance] = {
    Precision.FP32: Tolerance(absolute=1e-4, relative=1e-4),
    Precision.BF16: Tolerance(absolute=0.1, relative=0.1),
    Precision.FP16: Tolerance(absolute=0.02, relative=0.02),
    Precision.INT8: Tolerance(absolute=0.5, relative=0.2),
    Precision.FP8: Tolerance(absolute=0.5, relative=0.2),
}
"""For outputs of order one, as logits are; a graph with another scale gives its own."""


class ModuleGraph(Graph):
    """A graph whose function is a torch module."""

    def __init__(  # noqa: PLR0913 - a graph has these parts
        self,
        name: str,
        *,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        build: Callable[[], torch.nn.Module],
        fingerprint: str,
        build_at: Callable[[Precision], torch.nn.Module] | None = None,
        state: tuple[TensorSpec, ...] = (),
        calibrate: Calibrate | None = None,
        tolerances: Mapping[Precision, Tolerance] = TOLERANCES,
        code: Collection[str] = (),
    ) -> None:
        """Store what the graph is made of.

        Args:
            name: unique within the model.
            inputs: what ``forward`` takes, in order.
            outputs: what ``forward`` returns, in order.
            build: returns the module with weights, fp32, in eval mode; called when a backend asks.
            fingerprint: a hash of the weights and of all settings that ``build`` depends on.
            build_at: returns it as `Graph.module_at` does.
            state: what ``forward`` takes after the inputs, updates, and returns after the outputs, in order.
            calibrate: yields inputs for quantisation.
            tolerances: per precision.
            code: further modules whose code makes the torch module, by name: those of functions that ``build`` was
                given. Its own is known.
        """
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.state = state
        self._build = build
        self._build_at = build_at
        self._fingerprint = fingerprint
        self._calibrate = calibrate
        self._tolerances = tolerances
        self._further_code = code

    def module(self) -> torch.nn.Module:
        """Return a fresh module, in eval mode."""
        return self._build().eval()

    def module_at(self, precision: Precision) -> torch.nn.Module:
        """Return a fresh module, in eval mode, with weights in this precision as far as they can be read so.

        Where a subclass or a caller put something else in the place of `module`, that is what is returned.
        """
        is_own = getattr(self.module, "__func__", None) is ModuleGraph.module
        if precision is Precision.FP32 or not (self._build_at and is_own):
            return self.module()
        return self._build_at(precision).eval()

    def onnx(self) -> Path:
        """Return the exported file from the cache, exporting it first where it is missing."""
        from mlbench.execution.export.onnx_export import export_onnx

        return export_onnx(self)

    def calibration(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield inputs from the official calibration set."""
        return self._calibrate() if self._calibrate else iter(())

    def tolerance(self, precision: Precision) -> Tolerance:
        """Return the allowance at this precision; at one that has none, the widest of those there are."""
        if precision in self._tolerances:
            return self._tolerances[precision]
        return max(self._tolerances.values(), key=lambda each: (each.absolute, each.relative))

    @property
    def code(self) -> frozenset[str]:
        """The modules of the class, of the functions that build, and of what these were given."""
        builders = (each for each in (self._build, self._build_at) if each)
        return super().code.union(map(module_of, builders), self._further_code)

    @property
    def fingerprint(self) -> str:
        """A hash of weights and structure."""
        return self._fingerprint


def module_of(build: Callable[..., Any]) -> str:
    """Return the name of the module that has a function, also where some of its arguments are given already."""
    while isinstance(build, partial):
        build = build.func
    return getattr(build, "__module__", None) or type(build).__module__


def build_seeded(build: Callable[[], torch.nn.Module], *, seed: int) -> torch.nn.Module:
    """Return a module whose weights are drawn from a seed; the caller's random state is left as it was."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def in_torch(graph: Graph) -> Executable:
    """Return a graph's module as a function of arrays, in fp32 on the CPU."""
    import torch

    module = graph.module()

    def run(inputs: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        with torch.inference_mode():
            found = module(*(torch.from_numpy(inputs[spec.name]) for spec in graph.inputs))
        outputs = (found,) if isinstance(found, torch.Tensor) else found
        return {spec.name: output.numpy() for spec, output in zip(graph.outputs, outputs, strict=True)}

    return run
