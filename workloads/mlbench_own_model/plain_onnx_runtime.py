"""ONNX Runtime without its optimiser: the reference of ONNX files."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from mlbench import Executable, Graph, GraphError, UnavailableError
from mlbench.toolkit import first_line, usable_threads

INSTALL = "pip install 'mlbench-inference[cpu]'"


def compile_plainly(graph: Graph) -> Executable:
    """Return a call of a session that computes a graph operator by operator on the CPU, as the file has them.

    Raises:
        UnavailableError: ONNX Runtime is not installed.
        GraphError: it cannot run the file.
    """
    try:
        import onnxruntime
    except ImportError:
        reason = f"{graph.name} is an ONNX file, and only ONNX Runtime computes it for comparison"
        raise UnavailableError(f"{reason}: it is not installed.", hint=INSTALL) from None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = usable_threads()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            os.fspath(graph.onnx()), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # ONNX Runtime has an exception class for each of its status codes
        raise GraphError(f"ONNX Runtime cannot load the model: {first_line(error)}.") from error
    outputs, inputs = [spec.name for spec in graph.outputs], [spec.name for spec in graph.inputs]

    def run(arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        found = session.run(outputs, {name: arrays[name] for name in inputs})
        return dict(zip(outputs, found, strict=True))

    return run
