"""A graph's file with operators that ONNX Runtime's CPU kernels compute faster, and what looking for them needs."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from mlbench import Graph
from mlbench.toolkit import build_once, onnx_identity

LARGE = 1024
"""Bytes; no tensor of more decides a shape."""

PLACE = "location"
"""The key under which a tensor names the file that its values lie in."""

SOURCES = ("rewriting.py", "convolutions.py", "fusions.py")
"""The modules that decide what is written."""

logger = logging.getLogger(__name__)


def with_cpu_operators(file: Path, graph: Graph) -> Path:
    """Return a graph's fp32 file with its operators replaced by faster ones, kept in the cache; or as it is.

    Weights beside the file are not read, but for those of the convolutions that change: the new file shares them.
    """
    from mlbench_onnxruntime.convolutions import split_convolutions
    from mlbench_onnxruntime.fusions import fuse_operators

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

    sources = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in SOURCES]
    made = build_once("rewritten", [onnx_identity(graph, file), onnx.__version__, sources], fill) / file.name
    return made if made.exists() else file


def _share(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system has no such thing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def infer_shapes(model: ModelProto) -> Mapping[str, Sequence[int]]:
    """Return the shapes of a model's tensors as far as they are known, by name; a size of 0 is unknown."""
    small, inputs = [], list(model.graph.input)
    for tensor in model.graph.initializer:
        if is_outside(tensor) or tensor.ByteSize() > LARGE:  # weights are gigabytes, and would be copied
            inputs.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        else:
            small.append(tensor)
    light = helper.make_graph(model.graph.node, "shapes", inputs, model.graph.output, small)
    described = helper.make_model(light, opset_imports=model.opset_import)
    try:
        inferred = onnx.shape_inference.infer_shapes(described).graph
    except onnx.shape_inference.InferenceError:
        return {}
    values = (*inferred.input, *inferred.output, *inferred.value_info)
    return {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in values}


def is_outside(tensor: TensorProto) -> bool:
    """Return whether a tensor's values lie beside the file."""
    return bool(onnx.external_data_helper.uses_external_data(tensor))


def replace_nodes(model: ModelProto, nodes: Sequence[NodeProto]) -> None:
    """Replace a model's nodes, removing those whose results are unused."""
    used = {value.name for value in model.graph.output}
    kept: list[NodeProto] = []
    for node in reversed(nodes):
        if not used.isdisjoint(node.output):
            kept.append(node)
            used.update(node.input)
    del model.graph.node[:]
    model.graph.node.extend(reversed(kept))
