"""Convolutions of volumes that ONNX Runtime's CPU kernels run faster.

A convolution is a matrix product whose right side is gathered from the input: a row for each place of the kernel and
each input channel. Gathering takes as long as the product where the weights have few rows, as they have with few
output channels.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mlbench_onnxruntime.nodes import infer_shapes, replace_nodes

OPSET = 18
"""The first with ``Col2Im``."""

MOST_OUTPUTS = 32
"""Output channels; with more the gain is below a tenth on a processor with AVX2, and was not measured with AVX-512."""

MOST_BYTES = 2**27
"""What is added up for one volume; of the official 3D-UNet's layers it would be six times as much, for no gain."""

FEWEST_INPUTS_EACH = 0.5
"""Input channels per output channel; with fewer, adding up takes longer than what is saved."""


class _Convolution(NamedTuple):
    """A convolution that can be split by depth."""

    node: NodeProto
    weight: TensorProto
    bias: TensorProto | None
    depth: tuple[int, int]
    """Planes of the input and of the output."""
    plane: tuple[int, int]
    """Height and width of the output."""


def split_convolutions(model: ModelProto, folder: Path) -> int:
    """Split the narrow convolutions of volumes by depth, and return how many.

    Args:
        model: one for ONNX Runtime on a CPU; changed.
        folder: where weights lie that are not inside the model.

    One convolution of the planes gives what each depth of the kernel makes of a plane, as channels: several times the
    rows in the matrix product, and as many times less to gather. ``Col2Im`` adds them up where they belong.
    """
    found = {each.node.output[0]: each for each in _find_convolutions(model)}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        convolution = found.get(node.output[0])
        nodes += _split(model.graph, convolution, folder) if convolution else [node]
    replace_nodes(model, nodes)  # weights that no node reads any more are dropped when the file is loaded
    return len(found)


def _find_convolutions(model: ModelProto) -> Sequence[_Convolution]:
    """Return the convolutions that gain from being split."""
    if not any(opset.domain in ("", "ai.onnx") and opset.version >= OPSET for opset in model.opset_import):
        return []
    weights = {each.name: each for each in model.graph.initializer if each.data_type == TensorProto.FLOAT}
    narrow = [node for node in model.graph.node if node.op_type == "Conv" and _is_narrow(node, weights)]
    if not narrow:
        return []
    shapes = infer_shapes(model)
    found = []
    for node in narrow:
        before, after = (shapes.get(name, [])[2:] for name in (node.input[0], node.output[0]))
        outputs, _, depth, *_ = weights[node.input[1]].dims
        added = 4 * outputs * depth * math.prod((*before[:1], *after[1:]))
        if before and after and math.prod(after) and 0 < added <= MOST_BYTES:  # a size of 0 is unknown
            bias = weights[node.input[2]] if len(node.input) > 2 else None
            plane = (after[1], after[2])
            found.append(_Convolution(node, weights[node.input[1]], bias, (before[0], after[0]), plane))
    return found


def _is_narrow(node: NodeProto, weights: Mapping[str, TensorProto]) -> bool:
    """Return whether a convolution is one of volumes with few output channels, depth by depth."""
    if node.input[1] not in weights or any(name not in weights for name in node.input[2:]):
        return False
    outputs, inputs, *kernel = weights[node.input[1]].dims
    if len(kernel) != 3 or kernel[0] == 1 or outputs > MOST_OUTPUTS or inputs < FEWEST_INPUTS_EACH * outputs:
        return False
    told = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    first, *_ = told.get("strides", [1])
    spread, *_ = told.get("dilations", [1])
    pads = told.get("pads", [0] * 6)
    is_plain = told.get("group", 1) == 1 and told.get("auto_pad", b"NOTSET") == b"NOTSET"
    return bool(is_plain and first == spread == 1 and pads[0] == pads[3] < kernel[0])


def _split(graph: GraphProto, found: _Convolution, folder: Path) -> list[NodeProto]:
    """Return the nodes that replace a convolution, and add their constants to the graph."""
    weight = _values(found.weight, folder)
    outputs, inputs, depth, height, width = weight.shape
    told = {each.name: helper.get_attribute_value(each) for each in found.node.attribute}
    front, *pads = told.get("pads", [0] * 6)
    edge = depth - 1 - front  # where a sum of all depths would begin before the first plane of the output
    # The first depth of the kernel reads planes in front of the output's, so it adds to planes behind its own.
    planes = weight[:, :, ::-1].swapaxes(1, 2).reshape(outputs * depth, inputs, 1, height, width)
    constants = {
        "weight": np.ascontiguousarray(planes),
        "columns": np.array([0, outputs * depth, found.depth[0] * math.prod(found.plane)]),
        "image": np.array([found.depth[1], math.prod(found.plane)]),
        "block": np.array([depth, 1]),
        "shape": np.array([0, outputs, found.depth[1], *found.plane]),
    }
    if found.bias is not None:  # to the depth that adds to its own plane, and so once to each
        bias = np.zeros((outputs, depth), np.float32)
        bias[:, edge] = _values(found.bias, folder)
        constants["bias"] = bias.reshape(-1)
    made = found.node.output[0]
    name = {part: f"{made}_split_{part}" for part in (*constants, "planes", "flat", "sum")}
    graph.initializer.extend(numpy_helper.from_array(value, name[part]) for part, value in constants.items())
    weights = [name[part] for part in ("weight", "bias") if part in constants]
    in_plane = {
        "pads": [0, *pads[:2], 0, *pads[3:]],
        "strides": told.get("strides", [1, 1, 1]),
        "dilations": told.get("dilations", [1, 1, 1]),
    }
    return [
        helper.make_node("Conv", [found.node.input[0], *weights], [name["planes"]], name=name["planes"], **in_plane),
        helper.make_node("Reshape", [name["planes"], name["columns"]], [name["flat"]]),
        helper.make_node(
            "Col2Im", [name["flat"], name["image"], name["block"]], [name["sum"]], pads=[edge, 0, edge, 0]
        ),
        helper.make_node("Reshape", [name["sum"], name["shape"]], [made]),
    ]


def _values(tensor: TensorProto, folder: Path) -> np.ndarray:
    copy = TensorProto()
    copy.CopyFrom(tensor)  # what is read from beside the file stays in the tensor, and would be written there again
    values: np.ndarray = numpy_helper.to_array(copy, os.fspath(folder))
    return values
