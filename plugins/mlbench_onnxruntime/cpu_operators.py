"""A graph's file with operators that ONNX Runtime's CPU kernels compute faster."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import onnx

from mlbench import Graph
from mlbench.toolkit import build_once, onnx_identity
from mlbench_onnxruntime.convolutions import split_convolutions
from mlbench_onnxruntime.fusions import fuse_operators
from mlbench_onnxruntime.nodes import sources

PLACE = "location"
"""The key under which a tensor names the file that its values lie in."""

logger = logging.getLogger(__name__)


def with_cpu_operators(file: Path, graph: Graph) -> Path:
    """Return a graph's fp32 file with its operators replaced by faster ones, kept in the cache; or as it is.

    Weights beside the file are not read, but for those of the convolutions that change: the new file shares them.
    """

    def fill(folder: Path) -> None:
        try:
            model = onnx.load(file, load_external_data=False)
        except Exception:  # of protobuf; ONNX Runtime says what is wrong with the file
            return
        beside = {
            each.value for tensor in model.graph.initializer for each in tensor.external_data if each.key == PLACE
        }
        split, fused = split_convolutions(model, file.parent), fuse_operators(model)
        logger.info("%s: %d convolutions split, %d patterns fused", graph.name, split, fused)
        if split or fused:
            for name in beside:
                _share(file.parent / name, folder / name)
            onnx.save(model, folder / file.name)

    texts = sources("cpu_operators.py", "convolutions.py", "fusions.py")
    made = build_once("rewritten", [onnx_identity(graph, file), onnx.__version__, texts], fill) / file.name
    return made if made.exists() else file


def _share(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system has no such thing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
