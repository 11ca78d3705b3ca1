"""The ONNX Runtime backend: runs each graph in a session, as exported or quantised."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from mlbench import Executable, Graph, GraphBackend, GraphError, Memory, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import SharedWhileUsed, cores_each, find_versions, first_line, usable_threads
from mlbench_onnxruntime.options import OnnxRuntimeOptions
from mlbench_onnxruntime.placement import RECORDING, check_placement, operators_by_provider
from mlbench_onnxruntime.providers import (
    CPU,
    CUDA,
    INDEXED,
    MEMORY,
    TENSORRT,
    Place,
    demand_fp32,
    fp32_bits,
    usable_place,
    usable_provider,
)

if TYPE_CHECKING:
    from pathlib import Path

DISTRIBUTIONS = {
    "onnxruntime": "cpu",
    "onnxruntime-gpu": "cuda",
    "onnxruntime-rocm": "rocm",
    "onnxruntime-migraphx": "migraphx",
    "onnxruntime-openvino": "openvino",
}
"""Distributions of the module ``onnxruntime``, with the device each is built for."""

EXTRAS = ("onnxruntime", "onnxruntime-gpu")
"""Distributions that an extra of mlbench installs, by its name."""

EXPORTERS = ("torch", "onnx", "onnxscript")
"""Distributions that make a session's file from a graph."""

LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
"""ONNX Runtime's names of the optimisation levels."""

FUSING = ("extended", "all")
"""Levels at which ONNX Runtime's own operators replace those of the standard."""

INSTALL = "pip install 'mlbench-inference[cpu]'"

INSTALL_ONE = "pip uninstall -y {found} && pip install {one}"
"""Fix for several distributions with the same files: removing one breaks the other."""

logger = logging.getLogger(__name__)

_SESSIONS: SharedWhileUsed[Any] = SharedWhileUsed()
"""Sessions on the CPU that compute on their callers' threads."""


class OnnxRuntime(GraphBackend):
    """Runs ONNX graphs on any device for which ONNX Runtime has a provider."""

    name = "onnxruntime"
    title = "ONNX Runtime sessions"
    options = OnnxRuntimeOptions()

    def __init__(self) -> None:
        self._operators: dict[str, Mapping[str, int]] = {}  # shared with the copies that other options make
        self._fp32_bits: dict[str, int] = {}  # likewise

    def probe(self) -> Probe:
        """Look for distributions; neither ONNX Runtime nor torch is loaded."""
        versions = find_versions(*DISTRIBUTIONS, *EXPORTERS)
        found = [name for name in DISTRIBUTIONS if name in versions]
        missing = [name for name in EXPORTERS if name not in versions]
        if not found:
            missing.insert(0, "onnxruntime")
        if missing:
            return Probe(is_available=False, reason=f"{', '.join(missing)} not installed", install=INSTALL)
        if len(found) > 1 or not has_files():
            return _refuse_files(found)
        return Probe(
            is_available=True,
            devices=tuple(dict.fromkeys(("cpu", *(DISTRIBUTIONS[name] for name in found)))),
            precisions=(Precision.FP32, Precision.FP16, Precision.INT8),
            versions=versions,
            rank=60,
        )

    def for_workers(self, workers: int) -> Self:
        """Give each worker its part of the cores: sessions that all use every core slow each other down."""
        return self.with_options(replace(self.options, threads=self.options.threads or cores_each(workers)))

    def instance(self, number: int, of: int) -> Self:
        """Take the next device, counted from ``device``, if the provider has several; on a CPU cores suffice."""
        if usable_provider(self.options.provider) not in INDEXED:
            return self
        return self.with_options(replace(self.options, device=self.options.device + number))

    def memory(self) -> Memory:
        """Return where the provider's tensors lie."""
        return Memory.DEVICE if usable_provider(self.options.provider) in MEMORY else Memory.HOST

    def compile(self, graph: Graph, precision: Precision) -> Executable | Any:
        """Return a session's run; its outputs are fresh arrays in each call."""
        options = self.options
        place = usable_place(options.provider, options.device, options.provider_options)
        if (bits := fp32_bits(place)) is not None:
            self._fp32_bits[place.provider] = bits
            if precision is Precision.FP32 and not place.is_lowered:
                demand_fp32(place, bits)
        file = self._file(graph, precision)
        may_fuse = place.provider == CPU and options.optimization in FUSING
        if graph.state:
            from mlbench_onnxruntime.attention import with_fused_attention
            from mlbench_onnxruntime.stateful import StatefulSession

            fused = with_fused_attention(file, graph) if may_fuse else file
            session = self._session(fused, graph, place)
            return StatefulSession(session, graph, fused, place, takes_first_rows=fused != file)
        from mlbench_onnxruntime.stateless import BoundSession, HostSession

        if may_fuse and precision is Precision.FP32:
            from mlbench_onnxruntime.cpu_operators import with_cpu_operators

            file = with_cpu_operators(file, graph)
        if place.memory == "cpu":
            return HostSession(self._session(file, graph, place), graph)
        from mlbench_onnxruntime.sessions_by_size import SessionsBySize, plans_by_size

        if place.provider != CUDA or not plans_by_size(graph, file):
            return BoundSession(self._session(file, graph, place), graph, place)

        shared = place.shared()
        return SessionsBySize(lambda: BoundSession(self._session(file, graph, shared), graph, shared), graph)

    def observe(self) -> RuntimeFacts:
        """Return the version of ONNX Runtime, and its providers on this machine."""
        import onnxruntime

        provider = usable_provider(self.options.provider)
        return RuntimeFacts(
            device="cpu" if provider == "CPUExecutionProvider" else None,
            extra={
                "provider": provider,
                "device_index": self.options.device,
                "available_providers": onnxruntime.get_available_providers(),
                "threads": self.options.threads or "one per physical core, shared out among the workers",
                "onnxruntime": onnxruntime.__version__,
                "operators": self._operators,
                **({"fp32_mantissa_bits": self._fp32_bits[provider]} if provider in self._fp32_bits else {}),
            },
        )

    def _file(self, graph: Graph, precision: Precision) -> Path:
        """Return the graph's ONNX file in this precision."""
        if precision is Precision.FP32:
            return graph.onnx()
        if precision is Precision.FP16:
            from mlbench.toolkit.onnx_lowering import lower_onnx

            return lower_onnx(graph, precision)
        if precision is Precision.INT8:
            from mlbench.toolkit.onnx_quantization import Scheme, quantize_onnx

            return quantize_onnx(graph, Scheme.UNSIGNED, per_channel=self.options.per_channel)
        raise UsageError(f"onnxruntime does not offer {precision}.", hint="Choose from fp32, fp16, int8.")

    def _session(self, path: Path, graph: Graph, place: Place) -> Any:
        """Load a file into a session; it must not fall back to another provider.

        Raises:
            GraphError: it does not load, or the provider runs none of it.
        """
        import onnxruntime

        threads = self.options.threads or _default_threads()
        further = _further_options(place, graph, path)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        settings.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, LEVELS[self.options.optimization]
        )
        settings.add_session_config_entry("session.intra_op.allow_spinning", str(int(self.options.spinning)))
        settings.add_session_config_entry(RECORDING, "1")
        settings.log_severity_level = 3  # errors
        load = partial(_load_session, path, settings, place, further)
        key = (path, self.options.optimization)
        try:
            session = _SESSIONS.get(key, load) if threads == 1 and place.provider == CPU else load()
        except Exception as error:  # ONNX Runtime has an exception class for each of its status codes
            reason = first_line(error)
            raise GraphError(f"ONNX Runtime cannot load graph {graph.name} on {place.provider}: {reason}") from error
        found = operators_by_provider(session)
        check_placement(place, graph.name, found)
        self._operators[graph.name] = {name: sum(kinds.values()) for name, kinds in found.items()}
        return session


def _default_threads() -> int:
    """Return the default number of a session's threads: 0, ONNX Runtime's own choice, on a whole machine.

    ONNX Runtime counts the machine's cores and binds a thread to each, even to those that this process may not use:
    under ``taskset`` its threads would run on others' cores, and under a quota all would be throttled early in each
    period. A given number of threads is not bound to cores.
    """
    return 0 if usable_threads() == os.cpu_count() else cores_each(1)


def _further_options(place: Place, graph: Graph, path: Path) -> Mapping[str, str]:
    """Return a provider's options for a graph; a user's profiles replace ours entirely."""
    if place.provider != TENSORRT:
        return {}
    from mlbench_onnxruntime.tensorrt_options import PROFILES, tensorrt_options

    options = tensorrt_options(graph, path, place.device)
    is_told = any(name.startswith(PROFILES) for name, _ in place.options)
    return {name: value for name, value in options.items() if not (is_told and name.startswith(PROFILES))}


def _load_session(path: Path, settings: Any, place: Place, further: Mapping[str, str]) -> Any:
    """Return a session; without profiles if TensorRT takes only parts of the graph, since their inputs have none."""
    import onnxruntime

    chain = place.providers_with(further)
    try:
        return onnxruntime.InferenceSession(path, settings, providers=chain, enable_fallback=0)
    except Exception as error:  # ONNX Runtime has an exception class for each of its status codes
        if "profile" not in str(error) or not any("profile" in name for name in further):
            raise
        logger.info("TensorRT takes parts of %s, and learns their shapes as they come", path.name)
    chain = place.providers_with({name: value for name, value in further.items() if "profile" not in name})
    return onnxruntime.InferenceSession(path, settings, providers=chain, enable_fallback=0)


def has_files() -> bool:
    """Return whether the module ``onnxruntime`` exists: the removal of another distribution may have deleted it."""
    found = find_spec("onnxruntime")
    return found is not None and found.origin is not None


def _refuse_files(found: Sequence[str]) -> Probe:
    """Return the reason why distributions are unusable: installed over each other, or with missing files."""
    listed = " and ".join(found)
    reason = f"{listed} are installed over each other" if len(found) > 1 else f"the files of {listed} are gone"
    one = next((name for name in found if name != "onnxruntime"), found[0])
    extra = f"'mlbench-inference[{one}]'" if one in EXTRAS else one
    return Probe(is_available=False, reason=reason, install=INSTALL_ONE.format(found=" ".join(found), one=extra))
