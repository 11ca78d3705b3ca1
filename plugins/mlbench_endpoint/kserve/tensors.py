"""Tensors of KServe's open inference protocol (v2) over HTTP: requests out of arrays, arrays out of answers.

A tensor travels as numbers in the JSON, or, by the binary data extension, as bytes behind it: little endian, row by
row, in the order of the tensors in the JSON, which then has their sizes. The header `JSON_SIZE` says where they begin.

Sources: the protocol, https://github.com/kserve/open-inference-protocol; the extension,
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlbench_endpoint.client.connection import Body
from mlbench_endpoint.client.failure import RequestFailed
from mlbench_endpoint.client.json_object import json_object

JSON_SIZE = "Inference-Header-Content-Length"
"""The header with the bytes of the JSON where tensors follow it."""

DATATYPES: Mapping[str, str] = {
    "bool": "BOOL",
    **{f"{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}
"""The protocol's names of NumPy's types. ``BYTES`` and ``BF16`` have none."""

NOT_IN_JSON = ("FP16",)
"""Types that only travel as bytes."""

_LONGEST_NUMBER = 32
"""Most bytes of a number in JSON, with the comma and some spaces."""

_LONGEST_JSON = 1 << 20
"""Most bytes of an answer's JSON besides its numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The required form of an output."""

    name: str
    dtype: str
    """NumPy's name."""
    shape: tuple[int | None, ...]
    """None: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferRequest:
    """A request, ready to be sent."""

    body: Sequence[bytes | memoryview]
    headers: Mapping[str, str]


def encode_request(
    inputs: Mapping[str, np.ndarray], outputs: Sequence[str], *, number: str, is_binary: bool
) -> InferRequest:
    """Return a request for some outputs.

    Args:
        inputs: arrays by name, of types in `DATATYPES`.
        outputs: names of the requested outputs.
        number: id of the request, which the answer repeats.
        is_binary: whether tensors are sent as bytes in both directions.

    Raises:
        ValueError: a number is NaN or infinite, which JSON cannot represent.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    wanted = [{"name": name, **({"parameters": {"binary_data": True}} if is_binary else {})} for name in outputs]
    fields = {
        "id": number,
        "inputs": [_input_fields(name, array, is_binary=is_binary) for name, array in arrays.items()],
        "outputs": wanted,
    }
    text = json.dumps(fields, allow_nan=False, separators=(",", ":")).encode()
    if not is_binary:
        return InferRequest(body=[text], headers={"Content-Type": "application/json"})
    tensors = [_little_endian(array).reshape(-1).view(np.uint8).data for array in arrays.values() if array.size]
    return InferRequest(
        body=[text, *tensors], headers={"Content-Type": "application/octet-stream", JSON_SIZE: str(len(text))}
    )


def read_answer(body: Body, expected: Sequence[Expected], *, number: str, model: str) -> dict[str, np.ndarray]:
    """Return the outputs of an answer, in new memory, in either encoding: a server may choose.

    Args:
        body: of the response.
        expected: all requested outputs.
        number: of the request.
        model: the server's name of the model.

    Raises:
        RequestFailed: the answer is in another form, of another request or model, or lacks an output.
    """
    fields, has_tensors = _read_fields(body, expected)
    for name, ours in (("id", number), ("model_name", model)):
        if fields.get(name) not in (None, "", ours):
            raise RequestFailed(f"the server answered with {name} {fields[name]!r}, not {ours!r}")
    by_name = {each.name: each for each in expected}
    found: dict[str, np.ndarray] = {}
    for output in _outputs(fields):
        name = str(output.get("name"))
        if name in found or name not in by_name:
            raise RequestFailed(
                f"the server answered with an output {name!r} that was not requested, or is there twice"
            )
        shape = _shape_of(output, by_name[name])
        size = (output.get("parameters") or {}).get("binary_data_size")
        if size is None:
            found[name] = _from_numbers(output.get("data"), by_name[name], shape)
        else:
            found[name] = _from_bytes(body if has_tensors else None, size, by_name[name], shape)
    if missing := [each.name for each in expected if each.name not in found]:
        raise RequestFailed(f"the server's answer lacks {', '.join(missing)}")
    if has_tensors and (rest := body.read_rest(_LONGEST_JSON)):
        raise RequestFailed(f"the server's answer has {len(rest)} bytes more than its tensors")
    return found


def _input_fields(name: str, array: np.ndarray, *, is_binary: bool) -> Any:
    fields: dict[str, Any] = {"name": name, "shape": list(array.shape), "datatype": DATATYPES[array.dtype.name]}
    if is_binary:
        return fields | {"parameters": {"binary_data_size": array.nbytes}}
    return fields | {"data": array.reshape(-1).tolist()}


def _little_endian(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _read_fields(body: Body, expected: Sequence[Expected]) -> tuple[Any, bool]:
    """Return an answer's JSON, and whether tensors may follow it."""
    size = body.header(JSON_SIZE)
    numbers = sum(math.prod(each or 1 for each in output.shape) for output in expected)
    most = _LONGEST_JSON + _LONGEST_NUMBER * numbers
    if size is None:
        text = body.read_rest(most)
    elif size.isascii() and size.isdigit() and len(size) <= len(str(most)) and int(size) <= most:
        buffer = bytearray(int(size))
        body.read_into(memoryview(buffer))
        text = bytes(buffer)
    else:
        raise RequestFailed(f"the server's {JSON_SIZE} is {size!r}")
    return json_object(text), size is not None


def _outputs(fields: Mapping[str, Any]) -> Sequence[Any]:
    outputs: Any = fields.get("outputs")
    if not isinstance(outputs, list) or not all(isinstance(each, dict) for each in outputs):
        raise RequestFailed("the server's answer has no outputs")
    if not all(isinstance(each.get("parameters") or {}, dict) for each in outputs):
        raise RequestFailed("the server's answer has outputs whose parameters are no object")
    return outputs


def _shape_of(output: Mapping[str, Any], expected: Expected) -> tuple[int, ...]:
    """Return the shape of an output, which must be of the expected type and fit the expected shape."""
    told, datatype, wanted = output.get("shape"), output.get("datatype"), DATATYPES[expected.dtype]
    shape = tuple(told) if isinstance(told, list) and all(type(each) is int and each >= 0 for each in told) else ()
    is_like = len(shape) == len(expected.shape)
    fits = is_like and all(ours in (None, size) for ours, size in zip(expected.shape, shape, strict=True))
    if not fits or datatype != wanted:
        ours = ["any" if each is None else each for each in expected.shape]
        raise RequestFailed(f"the server answered {expected.name} as {datatype} {told}, not as {wanted} {ours}")
    return shape


def _from_numbers(data: Any, expected: Expected, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array of an output's JSON numbers, which may be nested by its shape or not."""
    dtype = np.dtype(expected.dtype)
    try:
        found = np.asarray(data if isinstance(data, list) else None)
        if found.size == 0:
            found = found.astype(dtype)
        kinds = {"b": "b", "f": "iuf"}.get(dtype.kind, "iu")
        if found.dtype.kind not in kinds or found.size != math.prod(shape):
            raise ValueError
        array = found.reshape(shape).astype(dtype)
        if dtype.kind in "iu" and not np.array_equal(array, found.reshape(shape)):
            raise ValueError
    except (ValueError, OverflowError):  # also: rows of unequal lengths
        wanted = math.prod(shape)
        raise RequestFailed(f"the server's data of {expected.name} are not {wanted} numbers of {dtype}") from None
    return array


def _from_bytes(body: Body | None, size: Any, expected: Expected, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array whose bytes come next in the body."""
    dtype = np.dtype(expected.dtype).newbyteorder("<")
    wanted = dtype.itemsize * math.prod(shape)
    if body is None or size != wanted:
        where = "" if body else f", without {JSON_SIZE}"
        raise RequestFailed(f"the server sent {size!r} bytes of {expected.name}, not {wanted}{where}")
    array = np.empty(shape, dtype)
    if array.size:
        body.read_into(array.reshape(-1).view(np.uint8).data)
    return array.astype(expected.dtype, copy=False)
