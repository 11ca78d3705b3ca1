"""Int8: a graph's ONNX file with its matrix products and convolutions quantised."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization

from mlbench import Graph, GraphError, MlbenchError, UsageError
from mlbench.toolkit import file_sha256, made_once

OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Where int8 saves time."""

MATRIX_PRODUCTS = ("Gemm", "MatMul")

logger = logging.getLogger(__name__)


def quantized(graph: Graph, *, per_channel: bool) -> Path:
    """Return the path of the graph's quantised file, kept in the cache.

    Activations have fixed ranges, taken from the graph's calibration inputs. In a graph with state they have the ranges
    of each call: what a calibration input finds in the state would be zeros.

    Raises:
        GraphError: ONNX Runtime cannot quantise the graph.
        UsageError: the graph has neither state nor calibration inputs.
    """
    if graph.state:
        made_from = {"graph": graph.fingerprint, "settings": [per_channel, MATRIX_PRODUCTS]}
        return _made(graph, made_from, partial(_quantize_by_call, per_channel=per_channel))
    inputs = graph.calibration()
    first = next(inputs, None)
    if first is None:
        raise UsageError(f"graph {graph.name} has no calibration inputs, which int8 needs.", hint="Use fp32.")
    made_from = {
        "calibration": [hashlib.sha256(array.tobytes()).hexdigest() for array in first.values()],  # tells lists apart
        "settings": [per_channel, OPERATORS],
    }
    data = CalibrationInputs(first, inputs)
    return _made(graph, made_from, partial(_quantize_by_calibration, data=data, per_channel=per_channel))


def _made(graph: Graph, made_from: Mapping[str, Any], quantize: Callable[[Path, Path], None]) -> Path:
    """Return the file that ``quantize`` makes of the exported one, unless the cache has it."""
    exported, name = graph.onnx(), f"{graph.name}.int8.onnx"
    versions = [onnxruntime.__version__, importlib.metadata.version("mlbench")]

    def fill(folder: Path) -> None:
        logger.info("quantising %s to int8", graph.name)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                quantize(exported, folder / name)
        except MlbenchError:  # a calibration input that cannot be read
            raise
        except Exception as error:  # the quantiser raises anything, from deep inside
            reason = (str(error).splitlines() or [type(error).__name__])[0][:300]
            raise GraphError(f"ONNX Runtime cannot quantise graph {graph.name}: {reason}") from error

    return made_once("onnxruntime", {"file": file_sha256(exported), "versions": versions, **made_from}, fill) / name


def _quantize_by_calibration(exported: Path, path: Path, *, data: CalibrationInputs, per_channel: bool) -> None:
    """Quantise an exported file into ``path``; ranges run from the smallest to the largest value seen."""
    prepared = path.with_suffix(".prepared")
    quantization.quant_pre_process(exported, prepared, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared,
        path,
        data,
        quant_format=quantization.QuantFormat.QDQ,
        op_types_to_quantize=list(OPERATORS),
        per_channel=per_channel,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        calibrate_method=quantization.CalibrationMethod.MinMax,
        nodes_to_exclude=_products_of_activations(prepared),
    )
    prepared.unlink()


def _quantize_by_call(exported: Path, path: Path, *, per_channel: bool) -> None:
    """Quantise an exported file into ``path``: matrix products with a weight."""
    is_large = _has_weights_beside(exported)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        prepared = Path(folder) / path.name
        quantization.quant_pre_process(exported, prepared, skip_symbolic_shape=True, save_as_external_data=is_large)
        quantization.quantize_dynamic(
            prepared,
            path,
            op_types_to_quantize=list(MATRIX_PRODUCTS),
            per_channel=per_channel,
            weight_type=quantization.QuantType.QInt8,
            use_external_data_format=is_large,
        )


def _has_weights_beside(file: Path) -> bool:
    """Tell whether a file's weights exceed what it can hold, and lie in others."""
    weights = onnx.load(file, load_external_data=False).graph.initializer
    return any(onnx.external_data_helper.uses_external_data(weight) for weight in weights)


def _products_of_activations(file: Path) -> list[str]:
    """Return the names of matrix products without a weight: attention's, which stay fp32.

    Quantised on both sides of a softmax, they make ONNX Runtime (1.31 at least) compute it in integers, and turn a
    probability of 1 into 0.
    """
    graph = onnx.load(file).graph
    weights = {tensor.name for tensor in graph.initializer}
    return [node.name for node in graph.node if node.op_type == "MatMul" and not weights & set(node.input)]


class CalibrationInputs(quantization.CalibrationDataReader):  # type: ignore[misc]  # the library is untyped
    """A graph's calibration inputs, one call at a time."""

    def __init__(self, first: Mapping[str, np.ndarray], rest: Iterator[Mapping[str, np.ndarray]]) -> None:
        self._first: Mapping[str, np.ndarray] | None = first
        self._rest = rest

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        """Return the next inputs, None after the last."""
        first, self._first = self._first, None
        return first if first is not None else next(self._rest, None)
