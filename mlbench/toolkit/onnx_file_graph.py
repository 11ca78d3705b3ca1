"""An official ONNX checkpoint as a graph: the file as it is, without a torch module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contracts.graph import TensorSpec, Tolerance
from mlbench.contracts.precision import Precision
from mlbench.errors import GraphError
from mlbench.toolkit.files import verify_file
from mlbench.toolkit.module_graph import TOLERANCES, Calibrate, ModuleGraph

if TYPE_CHECKING:
    import torch


class OnnxFileGraph(ModuleGraph):
    """A graph that exists as an ONNX file only; backends that take torch modules cannot run it."""

    def __init__(  # noqa: PLR0913 - a graph has these parts
        self,
        name: str,
        file: Path,
        *,
        md5: str,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        calibrate: Calibrate | None = None,
        tolerances: Mapping[Precision, Tolerance] = TOLERANCES,
        hint: str = "",
    ) -> None:
        """Store which file; the other arguments are `ModuleGraph`'s.

        Args:
            name: unique within the model.
            file: the checkpoint, its weights inside: what lies beside it is not covered by the checksum.
            md5: its checksum.
            inputs: as the file names them.
            outputs: as the file names them.
            calibrate: yields inputs for quantisation.
            tolerances: per precision.
            hint: what to give to backends that need a torch module.
        """
        super().__init__(
            name,
            inputs=inputs,
            outputs=outputs,
            build=self._refuse,
            fingerprint=md5,
            calibrate=calibrate,
            tolerances=tolerances,
        )
        self._file = file
        self._hint = hint

    def onnx(self) -> Path:
        """Return the official file.

        Raises:
            DataError: it is missing or has another checksum.
        """
        return verify_file(self._file, md5=self.fingerprint, what="weights file")

    def _refuse(self) -> torch.nn.Module:
        raise GraphError(
            f"graph {self.name}: the official ONNX checkpoint {self._file.name} has no torch module.",
            hint=self._hint or "Use a backend that runs ONNX files.",
        )
