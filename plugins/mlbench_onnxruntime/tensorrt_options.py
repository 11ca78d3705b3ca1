"""Options of ONNX Runtime's TensorRT provider for a graph: its shapes, and the folder of its engines.

Without them, it builds an engine for every new shape, in the middle of a run, and in every process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mlbench import Dim, Graph
from mlbench.toolkit import build_once, onnx_identity, shape_ranges
from mlbench_onnxruntime.products import OVERRIDE

PROFILES = "trt_profile_"
"""Begins the names of the options that say which shapes will come."""


def tensorrt_options(graph: Graph, file: Path, device: int) -> Mapping[str, str]:
    """Return the options for a graph in some precision."""
    return {**profile_options(graph), **_cache_options(graph, file, device)}


def profile_options(graph: Graph) -> Mapping[str, str]:
    """Return the smallest, usual and largest shape of each input that varies; nothing where none does."""
    specs = [spec for spec in (*graph.inputs, *graph.state) if any(isinstance(dim, Dim) for dim in spec.shape)]
    ranges = shape_ranges(specs)
    if not ranges:
        return {}
    return {
        f"{PROFILES}{kind}_shapes": ",".join(
            f"{name}:{'x'.join(map(str, getattr(found, which)))}" for name, found in ranges.items()
        )
        for kind, which in (("min", "smallest"), ("opt", "usual"), ("max", "largest"))
    }


def _cache_options(graph: Graph, file: Path, device: int) -> Mapping[str, str]:
    """Return where engines and timings of kernels are kept.

    The provider names an engine's file by the names in the graph, and not by the weights: hence a folder for each; and
    others for engines whose kernels were chosen where TF32 was allowed.
    """
    import onnxruntime

    platform = [onnxruntime.__version__, _gpu(device), os.environ.get(OVERRIDE, "")]
    engines = build_once("onnxruntime_tensorrt", [onnx_identity(graph, file), platform], lambda fresh: None)
    timings = build_once("onnxruntime_tensorrt_timings", platform, lambda fresh: None)
    return {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": os.fspath(engines),
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": os.fspath(timings),
    }


def _gpu(device: int) -> str:
    """Return a GPU's name, since an engine is for one kind: empty where torch knows no GPU."""
    import torch

    known = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return torch.cuda.get_device_name(device) if device < known else ""
