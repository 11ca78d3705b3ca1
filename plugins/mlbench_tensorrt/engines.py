"""Engines, built once for a file, its shapes, a GPU and a version of TensorRT, and kept in the cache."""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import tensorrt
import torch

from mlbench import GraphError
from mlbench.toolkit import SharedWhileUsed, build_once
from mlbench_tensorrt.request import EngineRequest, Platform

PLAN = "engine.plan"
TIMINGS = "timing.cache"

logger = logging.getLogger(__name__)


def engine_of(request: EngineRequest) -> tensorrt.ICudaEngine:
    """Return the engine, built unless the cache has one of the same file, shapes, options, GPU and TensorRT.

    Workers of one process get the same one: its weights are on the GPU once, and each has its own contexts.

    Raises:
        GraphError: TensorRT cannot express the graph, naming the operator; or the cached engine does not load.
    """
    torch.cuda.set_device(request.device)
    folder = build_once("tensorrt", request.key(platform(request.device)), lambda fresh: _build(request, fresh))
    return _LOADED.get((folder, request.device), lambda: _load(folder))


def _load(folder: Path) -> tensorrt.ICudaEngine:
    engine = tensorrt.Runtime(_LOG).deserialize_cuda_engine((folder / PLAN).read_bytes())
    if engine is None:
        raise GraphError(f"the cached engine {folder / PLAN} does not load.", hint=f"Delete {folder}.")
    return engine


def platform(device: int) -> Platform:
    """Return the key of an engine and its timings: the GPU and the version of TensorRT."""
    properties = torch.cuda.get_device_properties(device)
    return Platform(
        tensorrt=tensorrt.__version__,
        gpu=properties.name,
        compute_capability=(properties.major, properties.minor),
        multiprocessors=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
    )


def _build(request: EngineRequest, folder: Path) -> None:
    """Write the engine of a file into a folder."""
    logger.info("building a TensorRT engine of %s, which takes minutes", request.file.name)
    _LOG.worst = ""
    builder = tensorrt.Builder(_LOG)
    network = builder.create_network(1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = tensorrt.OnnxParser(network, _LOG)
    if not parser.parse_from_file(os.fspath(request.file)):
        error = parser.get_error(0)
        raise GraphError(f"TensorRT cannot read {error.node_operator()} in {request.file.name}: {error.desc()}.")
    config = builder.create_builder_config()
    config.clear_flag(tensorrt.BuilderFlag.TF32)  # fp32 is fp32
    config.builder_optimization_level = request.optimization_level
    if request.workspace_mb:
        config.set_memory_pool_limit(tensorrt.MemoryPoolType.WORKSPACE, request.workspace_mb * 2**20)
    profile = builder.create_optimization_profile()
    for name, ranges in request.ranges.items():
        profile.set_shape(name, ranges.smallest, ranges.usual, ranges.largest)
    config.add_optimization_profile(profile)
    timings = build_once("tensorrt-timings", asdict(platform(request.device)), lambda fresh: None) / TIMINGS
    known = config.create_timing_cache(timings.read_bytes() if timings.is_file() else b"")
    config.set_timing_cache(known, ignore_mismatch=False)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise GraphError(f"TensorRT cannot build {request.file.name}: {_LOG.worst or 'it gives no reason'}.")
    (folder / PLAN).write_bytes(plan)
    _replace(timings, bytes(config.get_timing_cache().serialize()))


def _replace(file: Path, content: bytes) -> None:
    """Write a file next to its final place, then rename it: another process may be reading it."""
    descriptor, beside = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
    os.replace(beside, file)


class _Log(tensorrt.ILogger):  # type: ignore[misc]  # the library is untyped
    """Forwards TensorRT's messages to the log, and keeps the last error."""

    def __init__(self) -> None:
        tensorrt.ILogger.__init__(self)
        self.worst = ""

    def log(self, severity: tensorrt.ILogger.Severity, message: str) -> None:
        """Take a message; TensorRT calls this."""
        levels = {tensorrt.ILogger.WARNING: logging.INFO, tensorrt.ILogger.INFO: logging.DEBUG}
        if severity in (tensorrt.ILogger.INTERNAL_ERROR, tensorrt.ILogger.ERROR):
            self.worst = message.splitlines()[0][:300]
            logger.warning("%s", message)
        elif severity in levels:
            logger.log(levels[severity], "%s", message)


_LOG = _Log()  # outlives every engine, as TensorRT demands of the log that it was made with

_LOADED: SharedWhileUsed[tensorrt.ICudaEngine] = SharedWhileUsed()
"""Engines that somebody uses, by their folder and GPU."""
