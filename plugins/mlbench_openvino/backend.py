"""The OpenVINO backend: checks what a device offers, and compiles graphs for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Self

from annotated_types import Ge, Le

from mlbench import Executable, Graph, GraphBackend, GraphError, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import cores_each, find_versions, machine_flags

HINTS = {Precision.FP32: "f32", Precision.BF16: "bf16", Precision.INT8: "f32"}
"""OpenVINO's names of the type to compute in; a quantised file has its integers in itself."""

EXPORTERS = ("torch", "onnx", "onnxscript")
"""Distributions that make a graph's ONNX file."""

QUANTISERS = ("onnxruntime", "onnxruntime-gpu")
"""Distributions that can make a quantised file; either is enough."""

BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})
"""Flags of x86 CPUs that multiply bf16."""

INSTALL = "pip install 'mlbench-inference[workloads,openvino]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVinoOptions:
    """Options of the OpenVINO backend."""

    device: str = "CPU"
    """Device by OpenVINO's name: ``CPU``, ``GPU``, ``GPU.1``, ``NPU``."""
    threads: Annotated[int, Ge(0), Le(1024)] = 0
    """Threads of a call on the CPU; 0: one per physical core that the process may use, divided among
    ``execution.workers``."""
    per_channel: bool = True
    """int8: a scale per output channel of a weight, instead of one per weight."""


class OpenVino(GraphBackend):
    """Runs ONNX graphs on the devices that OpenVINO supports."""

    name = "openvino"
    title = "OpenVINO"
    options: OpenVinoOptions = OpenVinoOptions()
    tuning = Path(__file__).parent / "tuning.toml"

    def probe(self) -> Probe:
        """Look for distributions and the CPU's flags; neither OpenVINO nor torch is loaded."""
        versions = find_versions("openvino", *EXPORTERS, *QUANTISERS)
        if missing := [name for name in ("openvino", *EXPORTERS) if name not in versions]:
            return Probe(is_available=False, reason=f"{', '.join(missing)} not installed", install=INSTALL)
        has_bf16, has_int8 = BF16_FLAGS & machine_flags(), any(name in versions for name in QUANTISERS)
        lower = [Precision.BF16] * bool(has_bf16) + [Precision.INT8] * has_int8
        return Probe(
            is_available=True, devices=("cpu",), precisions=(Precision.FP32, *lower), versions=versions, rank=55
        )

    def for_workers(self, workers: int) -> Self:
        """Give each worker its part of the cores."""
        return self.with_options(replace(self.options, threads=self.options.threads or cores_each(workers)))

    def compile(self, graph: Graph, precision: Precision) -> Executable:
        """Return a compiled graph; its outputs are fresh arrays in each call.

        Raises:
            UsageError: the device is not here, or does not compute in the precision.
            GraphError: OpenVINO cannot compute an operator.
        """
        import openvino

        from mlbench_openvino.compiled_graph import CompiledGraph, DeviceSettings

        if precision not in HINTS:
            raise UsageError(f"{self.name} does not offer {precision}.", hint=f"Choose from {', '.join(HINTS)}.")
        core, device = openvino.Core(), self.options.device
        found = core.available_devices  # ["CPU", "GPU.0", "GPU.1"]; GPU is the first of them
        if device not in {*found, *(name.split(".")[0] for name in found)}:
            reason = f"backend.device is {device!r}, which OpenVINO does not find."
            raise UsageError(reason, hint=f"Choose from {', '.join(found)}.")
        try:
            settings = DeviceSettings(device, HINTS[precision], self.options.threads or cores_each(1))
            compiled = CompiledGraph(graph, self._file(graph, precision), core, settings)
        except RuntimeError as error:  # of many lines, of which the last names the operator
            reason = str(error).strip().splitlines()[-1].lstrip("- ")
            raise GraphError(f"OpenVINO cannot compile {graph.name}: {reason}.") from error
        if compiled.computes_in != HINTS[precision]:
            raise UsageError(
                f"OpenVINO computes in {compiled.computes_in} on {device}, not in {precision}.",
                hint="Choose another precision, or another device by --set backend.device=NAME.",
            )
        return compiled

    def observe(self) -> RuntimeFacts:
        """Return OpenVINO's version, and its full name of the device."""
        import openvino

        device = self.options.device
        extra = {
            "openvino": openvino.get_version(),
            "openvino_device": openvino.Core().get_property(device, "FULL_DEVICE_NAME"),
        }
        if device != "CPU":
            return RuntimeFacts(extra=extra)
        return RuntimeFacts(device="cpu", extra={**extra, "threads": self.options.threads or cores_each(1)})

    def _file(self, graph: Graph, precision: Precision) -> Path:
        """Return the graph's ONNX file in this precision."""
        if precision is not Precision.INT8:
            return graph.onnx()
        from mlbench.toolkit.onnx_quantization import Scheme, quantize_onnx

        return quantize_onnx(graph, Scheme.UNSIGNED, per_channel=self.options.per_channel)
