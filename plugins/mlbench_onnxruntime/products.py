"""Measures the precision of a provider's fp32 products, since a setting against TF32 may come too late.

Tensor cores round the factors: TF32 and fp16 keep 10 bits of the mantissa, bf16 7, fp32 all 23.
"""

from __future__ import annotations

import os
from typing import Any

BITS = 23
"""Size of the mantissa of an fp32 number."""

OVERRIDE = "NVIDIA_TF32_OVERRIDE"
"""The environment variable that NVIDIA's libraries read when they start. The TensorRT provider has no option of its own
against TF32."""

_SIZE = 1024  # large enough for tensor cores to be the faster choice


def switch_off_tf32() -> None:
    """Keep NVIDIA's libraries from TF32, unless the user has set their variable; call it before their first use."""
    os.environ.setdefault(OVERRIDE, "0")


def measure_bits(session: Any) -> int:
    """Return the bits of the mantissa that a session of `product_model` keeps."""
    import numpy as np

    factors = np.tile(1 + 2.0 ** -(1 + np.arange(_SIZE) % BITS), (_SIZE, 1)).astype(np.float32)
    (found,) = session.run(None, {"x": factors, "y": np.eye(_SIZE, dtype=np.float32)})
    return int(np.cumprod((found == factors).all(axis=0)[:BITS]).sum())


def product_model() -> bytes:
    """Return a model of one matrix product."""
    from onnx import TensorProto, helper

    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [_SIZE, _SIZE]) for name in "xyz")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "y"], ["z"])], "product", [x, y], [z])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    made: bytes = model.SerializeToString()
    return made
