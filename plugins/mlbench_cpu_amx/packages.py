"""Graphs compiled ahead of time: once per machine, for all sizes of their dimensions, into a package in the cache."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._inductor import config
from torch._inductor.runtime.cache_dir_utils import temporary_cache_dir

from mlbench import Dim, Graph, GraphError, Precision, TensorSpec
from mlbench.toolkit import build_once, machine_flags, tracing_versions
from mlbench.toolkit.exported_program import export_program, graph_step
from mlbench.toolkit.torch_backend.package_runner import package_class
from mlbench_cpu_amx.instruction_sets import LIMITS, VECTOR_BITS
from mlbench_cpu_amx.kernels import KernelReport

FILE = "graph.pt2"

LARGEST_BYTES = 16 * 2**30
"""Largest fp32 weights of a module that is compiled; embedding tables may be a hundred times larger."""

logger = logging.getLogger(__name__)


class Package:
    """A compiled graph as a callable of NumPy arrays."""

    def __init__(self, file: Path, graph: Graph, report: KernelReport) -> None:
        """Load a package; each has its own weights."""
        self._package = package_class()(os.fspath(file))
        self._name = graph.name
        self._report = report
        self._inputs = graph.inputs
        self._outputs = [(spec.name, getattr(torch, spec.dtype)) for spec in graph.outputs]

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in the dtypes of their specs, in new memory."""
        tensors = [_tensor(spec, inputs[spec.name]) for spec in self._inputs]
        with self._report.first_call(self._name):
            returned = self._package.run(tensors)
        return {name: tensor.to(dtype).numpy() for (name, dtype), tensor in zip(self._outputs, returned, strict=True)}


def _tensor(spec: TensorSpec, array: np.ndarray) -> torch.Tensor:
    """Return an input as a tensor. A package does not check its shape, and would crash on a wrong one."""
    fits = len(array.shape) == len(spec.shape) and all(
        isinstance(wanted, Dim) or wanted == size for wanted, size in zip(spec.shape, array.shape, strict=True)
    )
    if not fits or array.dtype != spec.dtype:
        raise ValueError(f"{spec.name} is {array.dtype} of shape {array.shape}, which the graph does not accept")
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


class InBf16(torch.nn.Module):
    """A module in autocast's choice of operators: matrix products and convolutions in bf16, norms and sums in fp32."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Compute what the module does."""
        # without its cache of converted weights, of which a trace would see only the first use
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            return self.module(*tensors)


def package_of(graph: Graph, precision: Precision, isa: str) -> Path:
    """Return the path of a graph's package, compiled unless the cache has it.

    Raises:
        GraphError: torch cannot trace or compile the graph, or torchao cannot quantise it.
    """
    made_from: dict[str, Any] = {
        "graph": [graph.name, graph.fingerprint, [asdict(spec) for spec in (*graph.inputs, *graph.outputs)]],
        "precision": precision,
        "machine": [isa, *sorted(machine_flags())],
        "limits": [os.environ.get(name) for name in sorted({name for limits in LIMITS.values() for name in limits})],
        "versions": tracing_versions(graph, __name__),
    }
    if precision is Precision.INT8:
        from mlbench_cpu_amx.quantization import calibration_inputs

        first, _ = calibration_inputs(graph)
        made_from["calibration"] = [hashlib.sha256(array.tobytes()).hexdigest() for array in first.values()]
        made_from["torchao"] = importlib.metadata.version("torchao")
    return build_once("cpu_amx", made_from, lambda folder: _compile(graph, precision, isa, folder)) / FILE


def _compile(graph: Graph, precision: Precision, isa: str, folder: Path) -> None:
    """Compile a graph into a folder."""
    logger.info("compiling %s in %s for %s", graph.name, precision, isa)
    program = _program(graph, precision)
    work = folder / "work"
    settings = {
        "freezing": True,  # weights are constants: folded, fused and laid out for oneDNN's kernels
        "cpp.dynamic_threads": True,  # a package serves any number of threads
        "cpp.simdlen": VECTOR_BITS.get(isa),
        "aot_inductor.output_path": os.fspath(work),
    }
    shared = folder.parent / "inductor"  # precompiled headers, and what the C++ compiler was found to know
    with graph_step(graph, "compiled"), temporary_cache_dir(os.fspath(shared)), config.patch(settings):
        torch._inductor.aoti_compile_and_package(program, package_path=os.fspath(folder / FILE))
    shutil.rmtree(work)


def _program(graph: Graph, precision: Precision) -> torch.export.ExportedProgram:
    """Return a graph as a program in a precision."""
    module = graph.module()
    size_bytes = sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))
    if size_bytes > LARGEST_BYTES:
        raise GraphError(
            f"graph {graph.name} contains {size_bytes / 2**30:.0f} GiB, which a package would copy.",
            hint="Run it on the backend pytorch.",
        )
    if precision is Precision.BF16:
        module = InBf16(module)
    elif precision is Precision.INT8:
        from mlbench_cpu_amx.quantization import quantize

        module = quantize(graph, module)
    return export_program(graph, module)
