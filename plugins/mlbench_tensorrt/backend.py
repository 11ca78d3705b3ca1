"""The TensorRT backend: an engine for each graph, whose types are those of its ONNX file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mlbench import GraphBackend, Memory, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import find_versions
from mlbench_tensorrt.options import TensorRtOptions

if TYPE_CHECKING:
    from mlbench import Engine, EnginePlan, Executable, Graph, Model

DISTRIBUTIONS = ("tensorrt", "tensorrt-cu13", "tensorrt-cu12")
"""Distributions of the module ``tensorrt``."""

NEEDED = ("torch", "onnx", "onnxscript")
"""torch holds the buffers; the others make an engine's file out of a graph."""

QUANTISERS = ("onnxruntime", "onnxruntime-gpu")
"""Distributions that can make a quantised file; either is enough."""

QUANTIZED = (Precision.INT8, Precision.FP8)

INSTALL = "pip install 'mlbench-inference[workloads,onnxruntime,tensorrt]'"


class TensorRt(GraphBackend):
    """Builds engines with explicit optimisation profiles, and keeps them in the cache."""

    name = "tensorrt"
    title = "TensorRT engines"
    options: TensorRtOptions = TensorRtOptions()

    def probe(self) -> Probe:
        """Look for distributions and for the device's file; neither TensorRT nor torch is loaded."""
        versions = find_versions(*DISTRIBUTIONS, *NEEDED, *QUANTISERS)
        missing = [name for name in NEEDED if name not in versions]
        if not any(name in versions for name in QUANTISERS):
            missing.append("onnxruntime")
        if not any(name in versions for name in DISTRIBUTIONS):
            missing.insert(0, "tensorrt")
        reasons = [f"{', '.join(missing)} not installed"] if missing else []
        if not any(Path("/dev").glob("nvidia[0-9]*")):
            reasons.insert(0, "no NVIDIA GPU here (no /dev/nvidia0)")
        if reasons:
            return Probe(is_available=False, reason=" and ".join(reasons), install=INSTALL)
        return Probe(
            is_available=True,
            devices=("cuda",),
            precisions=(Precision.FP32, Precision.FP16, Precision.BF16, *QUANTIZED),
            versions=versions,
            rank=80,
        )

    def instance(self, number: int, of: int) -> Self:
        """Take the next GPU, counted from ``device``."""
        return self.with_options(replace(self.options, device=usable_device(self.options.device + number)))

    def memory(self) -> Memory:
        """Return the GPU's."""
        return Memory.DEVICE

    def engine(self, model: Model, plan: EnginePlan) -> Engine:
        """Cap the graph's sizes at those of the engines."""
        from mlbench.toolkit import CappedGraph, graph_engine

        graphs = {name: CappedGraph(graph, self.options.largest) for name, graph in model.graphs.items()}
        return graph_engine(self, replace(model, graphs=graphs), plan)

    def compile(self, graph: Graph, precision: Precision) -> Executable | Any:
        """Return an execution context of the graph's engine, which is built unless the cache has it.

        Raises:
            UsageError: there is no such GPU, or a cap is below a dimension's smallest size.
        """
        from mlbench.toolkit import CappedGraph, in_pieces, onnx_identity, shape_ranges

        graph = CappedGraph(graph, self.options.largest)
        device = usable_device(self.options.device)
        from mlbench_tensorrt.engines import engine_of
        from mlbench_tensorrt.executable import StatefulTensorRtExecutable, TensorRtExecutable
        from mlbench_tensorrt.request import EngineRequest

        file = self.file(graph, precision)
        request = EngineRequest(
            file=file,
            identity=onnx_identity(graph, file),
            ranges=shape_ranges((*graph.inputs, *graph.state)),
            device=device,
            optimization_level=self.options.optimization_level,
            workspace_mb=self.options.workspace_mb,
        )
        if graph.state:
            return StatefulTensorRtExecutable(engine_of(request), graph, request.device, self.options)
        return in_pieces(TensorRtExecutable(engine_of(request), graph, request.device, self.options), graph)

    def file(self, graph: Graph, precision: Precision) -> Path:
        """Return the graph's ONNX file in this precision; its types are the engine's."""
        from mlbench.toolkit.onnx_lowering import lower_onnx
        from mlbench.toolkit.onnx_quantization import Scheme, quantize_onnx

        if precision is Precision.FP32:
            return graph.onnx()
        if precision in QUANTIZED:
            is_fp8 = precision is Precision.FP8
            scheme = Scheme.FP8 if is_fp8 else Scheme.SYMMETRIC
            return quantize_onnx(graph, scheme, per_channel=self.options.per_channel and not is_fp8)
        return lower_onnx(graph, precision)

    def observe(self) -> RuntimeFacts:
        """Return the version of TensorRT, and its device."""
        import tensorrt
        import torch

        major, minor = torch.cuda.get_device_capability(self.options.device)
        return RuntimeFacts(
            device=torch.cuda.get_device_name(self.options.device),
            extra={"compute_capability": f"{major}.{minor}", "tensorrt": tensorrt.__version__},
        )


def usable_device(number: int) -> int:
    """Return a GPU's number.

    Raises:
        UsageError: torch has no such GPU here.
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not 0 <= number < count:
        raise UsageError(
            f"backend.device is {number}, and torch {torch.__version__} can use {count} GPUs here.",
            hint=f"Choose from 0 to {count - 1}." if count else "See `mlbench doctor` for what is missing.",
        )
    return number
