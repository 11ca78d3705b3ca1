"""A product of two matrices as an ONNX file, and backends that compile it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from mlbench_onnxruntime.backend import OnnxRuntime

from mlbench import Dim, TensorSpec
from mlbench.toolkit import ModuleGraph

BATCH = Dim(name="batch", smallest=1, usual=2, largest=8)
WEIGHT = np.arange(-6, 6, dtype=np.float32).reshape(4, 3) / 6


class FileGraph(ModuleGraph):
    """A graph that is an ONNX file already, so that nothing needs to be exported."""

    def __init__(self, file: Path, calibration: list[np.ndarray]) -> None:
        super().__init__(
            "product",
            inputs=(TensorSpec(name="x", shape=(BATCH, 4), dtype="float32"),),
            outputs=(TensorSpec(name="y", shape=(BATCH, 3), dtype="float32"),),
            build=None,
            fingerprint="product",
            calibrate=lambda: ({"x": array} for array in calibration),
        )
        self._file = file

    def onnx(self) -> Path:
        return self._file


def backend(**options) -> OnnxRuntime:
    made = OnnxRuntime()
    made.options = replace(made.options, **{"threads": 1, **options})
    return made


def inputs(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (8, 4)).astype(np.float32)
