"""A torch module of an ONNX file, made by onnx2torch."""

from __future__ import annotations

import copy
import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench import Graph, GraphError, UnavailableError
from mlbench.toolkit import first_line

if TYPE_CHECKING:
    import onnx
    import torch

OPSET = 17
"""The newest opset whose operators onnx2torch knows."""

_SAME = ("GreaterOrEqual", "LessOrEqual")
"""Operators that opset 16 gave more types, and that compute what they did."""

HINT = "Export the model with torch.export.save (.pt2), or use a backend that runs ONNX files."


def module_of_onnx(graph: Graph) -> torch.nn.Module:
    """Return a module that computes a graph's ONNX file.

    Raises:
        GraphError: onnx2torch cannot express an operator; the message names it.
        UnavailableError: it is not installed.
    """
    try:
        import onnx2torch
    except ImportError:
        raise UnavailableError(
            "onnx2torch is not installed, which makes a torch module of an ONNX file.", hint="pip install onnx2torch"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _know_newer_operators()
            return _with_parameters(onnx2torch.convert(_prepare(graph.onnx())))
    except Exception as error:  # it raises anything, from deep inside
        reason = first_line(error)
        _, named, rest = reason.partition("operation_type='")
        if named:
            operator, _, _ = rest.partition("'")
            reason = f"it has no operator {operator}"
        raise GraphError(f"onnx2torch makes no torch module of the ONNX file: {reason}.", hint=HINT) from error


def _with_parameters(module: torch.nn.Module) -> torch.nn.Module:
    """Return a module whose matrices are all parameters, as in one that somebody wrote: some come as buffers."""
    import torch

    for part in module.modules():
        for name, value in list(part.named_buffers(recurse=False)):
            if value.is_floating_point() and value.ndim > 1:
                delattr(part, name)
                part.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))
    return module


def _prepare(file: Path) -> onnx.ModelProto:
    """Return a file with constants folded, and the operators of an opset that onnx2torch knows."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = os.path.join(folder, "model.onnx")
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "model.data")
        onnxruntime.InferenceSession(os.fspath(file), options, providers=["CPUExecutionProvider"])
        model = onnx.load(options.optimized_model_filepath)
    if max((each.version for each in model.opset_import if not each.domain), default=0) <= OPSET:
        return model
    nodes = [part for node in model.graph.node for part in _older_nodes(node)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return onnx.version_converter.convert_version(model, OPSET)


def _older_nodes(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return nodes of opset 17 that compute what a newer node does, where its converter knows none."""
    from onnx import helper

    node = copy.deepcopy(node)
    if node.op_type == "Reshape":  # a size of 0 that is meant as one has no place in a model with samples
        kept = [each for each in node.attribute if each.name != "allowzero"]
        del node.attribute[:]
        node.attribute.extend(kept)
    if node.op_type != "Gelu" or node.domain:
        return [node]
    (source,), (target,) = node.input, node.output
    if any(each.name == "approximate" and each.s == b"tanh" for each in node.attribute):
        raise NotImplementedError("it has no operator Gelu with tanh")

    def number(value: float, name: str) -> onnx.NodeProto:
        return helper.make_node("Constant", [], [f"{target}.{name}"], f"{target}.{name}", value_float=value)

    def step(kind: str, inputs: list[str], output: str) -> onnx.NodeProto:
        return helper.make_node(kind, inputs, [output], f"{output}.{kind}")

    one, half, root = (f"{target}.{name}" for name in ("one", "half", "root"))
    return [
        *(number(value, name) for value, name in ((1.0, "one"), (0.5, "half"), (2**0.5, "root"))),
        step("Div", [source, root], f"{target}.scaled"),
        step("Erf", [f"{target}.scaled"], f"{target}.erf"),
        step("Add", [f"{target}.erf", one], f"{target}.sum"),
        step("Mul", [source, f"{target}.sum"], f"{target}.twice"),
        step("Mul", [f"{target}.twice", half], target),
    ]


def _know_newer_operators() -> None:
    """Let operators of opset 16 be converted as those of opset 12, where only their types are more."""
    from onnx2torch.node_converters.registry import add_converter, get_converter

    for name in _SAME:
        try:
            get_converter(operation_type=name, version=16)
        except NotImplementedError:
            known: Any = get_converter(operation_type=name, version=12)
            add_converter(operation_type=name, version=16)(known)
