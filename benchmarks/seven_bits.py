"""int8 weights as x86 CPUs without VNNI get them, on any CPU.

Sums of products stay within 16 bits with weights of seven, so the two kinds of CPU compute the same integers from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from mlbench.toolkit import machine_flags, onnx_quantization


@contextmanager
def seven_bit_weights() -> Iterator[None]:
    """Quantise graphs within as if the CPU had no VNNI."""
    flags = machine_flags() - onnx_quantization.VNNI
    with mock.patch.object(onnx_quantization, "machine_flags", lambda: flags):
        yield
