"""A graph's configuration in a model repository of NVIDIA's Triton Inference Server, for its ONNX Runtime backend.

Sources: https://github.com/triton-inference-server/server, docs/user_guide/model_configuration.md and
model_repository.md; https://github.com/triton-inference-server/common, protobuf/model_config.proto.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from mlbench.contracts.graph import Dim, TensorSpec
from mlbench.errors import GraphError, printable

CONFIG = "config.pbtxt"
VERSION = "1"
MODEL = "model.onnx"
"""The file of a version; where weights lie in another file, a folder of this name contains both."""

DATA_TYPES: Mapping[str, str] = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8",
    "uint16": "TYPE_UINT16",
    "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
}
"""Types that ONNX Runtime supports in Triton, by NumPy's name."""

_VARIES = -1


def config_text(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, comment: str) -> str:
    """Return the ``config.pbtxt`` of a graph's ONNX file.

    Without ``name`` in it, a model is called as its folder is. Where the first axis of all tensors is the batch, the
    server is left to put requests together, up to the dimension's largest size; elsewhere it takes each as it comes.

    Args:
        inputs: the file's.
        outputs: the file's.
        comment: what it says of itself, in a line.

    Raises:
        GraphError: a tensor is of a type, or a scalar, which Triton does not take.
    """
    largest = batch_limit([*inputs, *outputs])
    blocks = (_block(kind, specs, bool(largest)) for kind, specs in (("input", inputs), ("output", outputs)))
    return "\n".join(
        [f"# {printable(comment)}", 'backend: "onnxruntime"', f"max_batch_size: {largest}", *blocks],
    )


def batch_limit(specs: Sequence[TensorSpec]) -> int:
    """Return the largest batch that requests may be put together to; 0 where Triton cannot do so.

    All tensors must have the same varying first axis, and another one: Triton takes no empty shape beside the batch.
    """
    firsts = {spec.shape[0] for spec in specs if len(spec.shape) > 1}
    first = next(iter(firsts), None)
    if len(firsts) == 1 and isinstance(first, Dim) and all(len(spec.shape) > 1 for spec in specs):
        return first.largest
    return 0


def _block(kind: str, specs: Sequence[TensorSpec], has_batch: bool) -> str:
    tensors = ",\n".join(_tensor(spec, has_batch) for spec in specs)
    return f"{kind} [\n{tensors}\n]" + ("\n" if kind == "output" else "")


def _tensor(spec: TensorSpec, has_batch: bool) -> str:
    if spec.dtype not in DATA_TYPES or not spec.shape:
        what = "a scalar" if not spec.shape else spec.dtype
        raise GraphError(f"tensor {spec.name} is {what}, which Triton does not support.", hint="Use --layout files.")
    sizes = [_VARIES if isinstance(size, Dim) else size for size in spec.shape[1 if has_batch else 0 :]]
    lines = (f"name: {json.dumps(spec.name, ensure_ascii=False)}", f"data_type: {DATA_TYPES[spec.dtype]}")
    body = "".join(f"    {line}\n" for line in (*lines, f"dims: [ {', '.join(map(str, sizes))} ]"))
    return f"  {{\n{body}  }}"
