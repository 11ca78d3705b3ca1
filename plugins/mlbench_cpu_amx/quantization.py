"""A graph's module with its convolutions and matrix products in int8, by torchao's quantiser for x86."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

from mlbench import Graph, GraphError
from mlbench.toolkit.exported_program import export_program, graph_step

if TYPE_CHECKING:
    from torch.fx import GraphModule


def calibration_inputs(graph: Graph) -> tuple[Mapping[str, np.ndarray], Iterator[Mapping[str, np.ndarray]]]:
    """Return a graph's first calibration inputs and the rest.

    Raises:
        GraphError: the graph has none, or has state, whose values calibration inputs do not have.
    """
    rest = iter(()) if graph.state else graph.calibration()
    first = next(rest, None)
    if first is None:
        reason = "state, so ranges are not known beforehand" if graph.state else "no calibration inputs"
        raise GraphError(f"graph {graph.name} has {reason}: int8 needs them.", hint="Choose another precision.")
    return first, rest


def quantize(graph: Graph, module: torch.nn.Module) -> GraphModule:
    """Return a graph's module with quantise and dequantise operators, which the inductor turns into int8 kernels.

    Activations are uint8, each with one range from the calibration inputs; weights int8, with a scale per output
    channel.

    Raises:
        GraphError: the graph has no calibration inputs, or no operator that the quantiser supports.
    """
    first, rest = calibration_inputs(graph)
    # strictly: else a module that is used twice (one ReLU in three places) looks to the quantiser like one operator
    traced = export_program(graph, module, strict=True).module()
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    with graph_step(graph, "quantised"):
        prepared = prepare_pt2e(traced, quantizer)
        for inputs in (first, *rest):
            prepared(*(torch.from_numpy(inputs[spec.name]) for spec in graph.inputs))
        converted: GraphModule = convert_pt2e(prepared)
    if not any("quantize_per_channel" in str(node.target) for node in converted.graph.nodes):
        raise GraphError(
            f"graph {graph.name} has no operator that torchao quantises on x86 (image convolutions, linear layers).",
            hint="Choose another precision.",
        )
    return converted
