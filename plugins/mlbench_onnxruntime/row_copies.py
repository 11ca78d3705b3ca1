"""Copies rows of tensors on a device, by a graph of two operators that runs there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from mlbench_onnxruntime.providers import Place


def copy_whole_rows(place: Place, tensors: Iterable[Any], sources: Sequence[int], targets: Sequence[int]) -> None:
    """Copy rows of each tensor in place; all sources are read before a target is written.

    Args:
        place: where they lie, and are copied.
        tensors: `OrtValue`s where it runs.
        sources: rows along the first axis.
        targets: as many.
    """
    for tensor in tensors:
        session = _session(place, tensor.element_type(), len(tensor.shape()))
        binding = session.io_binding()
        binding.bind_ortvalue_input("tensor", tensor)
        binding.bind_cpu_input("sources", np.asarray(sources, np.int64))
        binding.bind_cpu_input("targets", np.asarray(targets, np.int64)[:, None])
        binding.bind_ortvalue_output("copied", tensor)
        session.run_with_iobinding(binding)


@cache
def _session(place: Place, element_type: int, rank: int) -> Any:
    """Return a session that gathers rows into new memory, then scatters them."""
    shape = [None] * rank
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["tensor", "sources"], ["rows"], axis=0),
            helper.make_node("ScatterND", ["tensor", "targets", "rows"], ["copied"]),
        ],
        "copy_rows",
        [
            helper.make_tensor_value_info("tensor", element_type, shape),
            helper.make_tensor_value_info("sources", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("targets", TensorProto.INT64, [None, 1]),
        ],
        [helper.make_tensor_value_info("copied", element_type, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    providers = place.providers[-1:]  # CUDA behind TensorRT, which would build an engine for each number of rows
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=providers, enable_fallback=0)
