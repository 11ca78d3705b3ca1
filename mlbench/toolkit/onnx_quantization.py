"""A graph's ONNX file with its matrix products and convolutions quantised, by ONNX Runtime's tools."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization

from mlbench.contracts.graph import Graph
from mlbench.errors import GraphError
from mlbench.execution.export.compile_cache import build_once
from mlbench.system.guards import convert_errors
from mlbench.system.processor import machine_flags
from mlbench.toolkit.onnx_fingerprint import onnx_identity
from mlbench.toolkit.onnx_lowering import OPSET
from mlbench.version import __version__

OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators for which int8 saves time."""

MATRIX_PRODUCTS = ("Gemm", "MatMul")

VNNI = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
"""Flags of x86 CPUs that add up products of uint8 and int8 in 32 bits."""

LARGEST_FP8 = 448
"""The largest finite number of E4M3."""

SYMMETRIC_OPTIONS = {"ActivationSymmetric": True, "AddQDQPairToWeight": True, "QuantizeBias": False}
"""TensorRT has no zero points, quantises weights itself, and adds biases in fp32."""

logger = logging.getLogger(__name__)


class Scheme(StrEnum):
    """Types of values between QuantizeLinear and DequantizeLinear."""

    UNSIGNED = "uint8"
    """Activations uint8, weights int8 and stored as that: what CPUs multiply. Where sums would saturate, weights have
    seven bits."""
    SYMMETRIC = "int8"
    """Both int8 about zero, weights stored as fp32 before their own pair: what TensorRT takes."""
    FP8 = "fp8"
    """As ``SYMMETRIC``, in OCP's E4M3."""


def quantize_onnx(graph: Graph, scheme: Scheme, *, per_channel: bool) -> Path:
    """Return the path of the graph's quantised file, made once and kept in the cache.

    Activations have fixed ranges, taken from the graph's calibration inputs. In a graph with state that these leave out
    they have the ranges of each call: a calibration input would find zeros in the state. Only ``Scheme.UNSIGNED`` can
    do that.

    Raises:
        GraphError: ONNX Runtime cannot quantise the graph; or its calibration inputs, or the state among them, are
            missing in a scheme that needs them.
    """
    inputs = graph.calibration()
    first = next(inputs, {})
    lacks_state = any(spec.name not in first for spec in graph.state)
    if lacks_state and scheme is Scheme.UNSIGNED:
        settings: Mapping[str, Any] = {"settings": [per_channel, MATRIX_PRODUCTS, saturates()]}
        return _build_file(graph, scheme, settings, partial(_quantize_by_call, per_channel=per_channel))
    if lacks_state or not first:
        reason = "state, so ranges are not known beforehand" if graph.state else "no calibration inputs"
        raise GraphError(f"graph {graph.name} has {reason}: {scheme} needs them.", hint="Choose another precision.")
    made_from = {
        "calibration": [hashlib.sha256(array.tobytes()).hexdigest() for array in first.values()],  # tells lists apart
        "settings": [per_channel, OPERATORS, str(scheme), scheme is Scheme.UNSIGNED and saturates()],
    }
    data = CalibrationInputs(first, inputs)
    kept = graph.unquantized
    if kept or graph.calibration_id:
        made_from |= {"unquantized": [*kept], "calibration_id": graph.calibration_id}
    make = partial(_quantize_by_calibration, data=data, scheme=scheme, per_channel=per_channel, kept=kept)
    return _build_file(graph, scheme, made_from, make)


def saturates() -> bool:
    """Return whether this CPU adds up products of uint8 and int8, two by two, in 16 bits, which two large ones exceed.

    Weights of seven bits, as ONNX Runtime advises there, keep sums within.
    """
    flags = machine_flags()
    return "sse2" in flags and not flags & VNNI


def _build_file(
    graph: Graph, scheme: Scheme, made_from: Mapping[str, Any], quantize: Callable[[Path, Path], None]
) -> Path:
    """Return the file that ``quantize`` makes of the exported one, unless the cache has it."""
    precision = "fp8" if scheme is Scheme.FP8 else "int8"
    exported, name = graph.onnx(), f"{graph.name}.{precision}.onnx"
    versions = [onnxruntime.__version__, __version__]

    def refuse(error: Exception) -> GraphError:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:300]
        return GraphError(f"ONNX Runtime cannot quantise graph {graph.name}: {reason}")

    def fill(folder: Path) -> None:
        logger.info("quantising %s to %s", graph.name, precision)
        with convert_errors(refuse), contextlib.redirect_stdout(io.StringIO()):
            quantize(exported, folder / name)

    return build_once("quantized", {**onnx_identity(graph, exported), "versions": versions, **made_from}, fill) / name


def _quantize_by_calibration(  # noqa: PLR0913 - where from and to, and how
    exported: Path, path: Path, *, data: CalibrationInputs, scheme: Scheme, per_channel: bool, kept: Sequence[str]
) -> None:
    """Quantise an exported file into ``path``, without the parts in whose weights' names one of ``kept`` is.

    Ranges run from the smallest to the largest value seen.
    """
    is_unsigned, is_large = scheme is Scheme.UNSIGNED, _has_weights_beside(exported)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        prepared = _prepare_file(exported, Path(folder), is_large=is_large)
        in_int8 = Path(folder) / "int8.onnx" if scheme is Scheme.FP8 else path
        quantization.quantize_static(
            prepared,
            in_int8,
            data,
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=list(OPERATORS),
            per_channel=per_channel,
            reduce_range=is_unsigned and saturates(),
            activation_type=quantization.QuantType.QUInt8 if is_unsigned else quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax,
            nodes_to_exclude=[*_products_of_activations(prepared), *_nodes_with(prepared, kept)],
            use_external_data_format=is_large,
            extra_options={} if is_unsigned else SYMMETRIC_OPTIONS,
        )
        if scheme is Scheme.FP8:
            model = onnx.load(in_int8)
            _store_as_fp8(model)
            onnx.save(model, path, save_as_external_data=is_large, location=f"{path.name}.data")


def _prepare_file(exported: Path, folder: Path, *, is_large: bool) -> Path:
    """Return a file that the quantisers take, in a folder that outlasts its use."""
    prepared = folder / "prepared.onnx"
    quantization.quant_pre_process(exported, prepared, skip_symbolic_shape=True, save_as_external_data=is_large)
    return prepared


def _store_as_fp8(model: onnx.ModelProto) -> None:
    """Turn symmetric int8 pairs into fp8 ones: the same largest value becomes fp8's largest, not 127."""
    pairs = [node for node in model.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    scales, zeros = ({node.input[place] for node in pairs} for place in (1, 2))
    for tensor in model.graph.initializer:
        if tensor.name in scales:
            values = onnx.numpy_helper.to_array(tensor) * np.float32(127 / LARGEST_FP8)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
        elif tensor.name in zeros:
            kind, size = onnx.TensorProto.FLOAT8E4M3FN, max(1, int(np.prod(tensor.dims)))
            tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, kind, tensor.dims, bytes(size), raw=True))
    del model.graph.value_info[:]
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = max(opset.version, OPSET)


def _quantize_by_call(exported: Path, path: Path, *, per_channel: bool) -> None:
    """Quantise an exported file into ``path``: matrix products with a weight."""
    is_large = _has_weights_beside(exported)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        quantization.quantize_dynamic(
            _prepare_file(exported, Path(folder), is_large=is_large),
            path,
            op_types_to_quantize=list(MATRIX_PRODUCTS),
            per_channel=per_channel,
            reduce_range=saturates(),
            weight_type=quantization.QuantType.QInt8,
            use_external_data_format=is_large,
        )


def _has_weights_beside(file: Path) -> bool:
    """Return whether a file's weights exceed what it can hold, and lie in others."""
    weights = onnx.load(file, load_external_data=False).graph.initializer
    return any(onnx.external_data_helper.uses_external_data(weight) for weight in weights)


def _products_of_activations(file: Path) -> list[str]:
    """Return the names of matrix products without a weight: attention's, which stay fp32.

    Quantised on both sides of a softmax, they make ONNX Runtime (1.31 at least) compute it in integers, and turn a
    probability of 1 into 0.
    """
    graph = onnx.load(file, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    return [node.name for node in graph.node if node.op_type == "MatMul" and not weights & set(node.input)]


def _nodes_with(file: Path, parts: Sequence[str]) -> list[str]:
    """Return the names of operators with a weight in whose name one of some parts is."""
    graph = onnx.load(file, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer if any(part in tensor.name for part in parts)}
    return [node.name for node in graph.node if weights & set(node.input)]


class CalibrationInputs(quantization.CalibrationDataReader):  # type: ignore[misc]  # the library is untyped
    """A graph's calibration inputs, one call at a time."""

    def __init__(self, first: Mapping[str, np.ndarray], rest: Iterator[Mapping[str, np.ndarray]]) -> None:
        self._first: Mapping[str, np.ndarray] | None = first
        self._rest = rest

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        """Return the next inputs, None after the last."""
        first, self._first = self._first, None
        return first if first is not None else next(self._rest, None)
