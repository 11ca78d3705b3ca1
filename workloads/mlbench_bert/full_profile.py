"""The official files of the full profile, each verified by its checksum.

Source of checksums and counts: MLPerf Inference v4.1, language/bert, and MLCommons' automation scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Dataset, Graph, UsageError, Weights
from mlbench.toolkit import OneGraph, UserFilesProfile, check_files, verify_file
from mlbench_bert.dataset import OFFICIAL_WINDOWS, RandomWindows, SquadWindows, calibration_samples
from mlbench_bert.graphs import (
    OFFICIAL_ONNX_OUTPUTS,
    OUTPUTS,
    Architecture,
    build_reader,
    official_onnx_reader,
    random_reader,
)
from mlbench_bert.program import Reading
from mlbench_bert.squad import Windows

if TYPE_CHECKING:
    import numpy as np

    from mlbench_bert.workload import BertOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes and checksums of the official files."""

    windows_in_data: int
    windows: Windows
    architecture: Architecture
    data_md5: str
    vocabulary_md5: str
    torch_md5: str
    """model.pytorch, fp32, zenodo record 3733896."""
    onnx_md5: str
    """model.onnx, fp32, opset 11, zenodo record 3733910."""


OFFICIAL = OfficialFiles(
    windows_in_data=OFFICIAL_WINDOWS,
    windows=Windows(),
    architecture=Architecture(),
    data_md5="3e85deb501d4e538b6bc56f786231552",
    vocabulary_md5="64800d5d8528ce344256daf115d4965e",
    torch_md5="00fbcbfaebfa20d87ac9885120a6e9b4",
    onnx_md5="819b25b19cd8e59080c10892689750ca",
)


@dataclass(frozen=True, slots=True)
class FullProfile(UserFilesProfile[OfficialFiles], OneGraph):
    """BERT-large with the files a user names."""

    official = OFFICIAL

    options: BertOptions
    weights: Weights

    def check(self) -> None:
        """Raise `UsageError` for options that are missing or not used."""
        options = self.options
        if (options.data is None) != (options.vocab is None):
            missing = "vocab" if options.data else "data"
            raise UsageError(
                f"bert has no {missing}, which it needs to read questions.",
                hint=f"Give it with --set workload.{missing}=PATH.",
            )
        if options.calibration and not options.data:
            raise UsageError(
                "bert has a calibration list, but no questions.", hint="Give it with --set workload.data=PATH."
            )
        check_files("bert", self.weights, options, {"data": "data", "weights": "weights"})

    def dataset(self) -> Dataset:
        """Open the official questions; where none are given, random ones."""
        return self._questions() if self.options.data else RandomWindows()

    @property
    def program(self) -> Reading:
        """The program that feeds the graph and reads its logits; the ONNX checkpoint takes 384 tokens, no fewer."""
        if self._is_onnx:
            return Reading(outputs=OFFICIAL_ONNX_OUTPUTS, largest=Windows().tokens, multiple=Windows().tokens)
        return Reading(outputs=OUTPUTS, largest=self.files.windows.tokens)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the user's checkpoint or random weights."""
        calibrate = self._calibration_inputs if self.options.calibration else None
        if weights is Weights.RANDOM:
            return random_reader(Architecture(), Windows().tokens, calibrate)
        assert self.options.weights is not None
        files, weights_file = self.files, Path(self.options.weights)
        if self._is_onnx:
            return official_onnx_reader(weights_file, calibrate, md5=files.onnx_md5)
        tokens = files.windows.tokens
        return build_reader(files.architecture, tokens, weights_file, calibrate, md5=files.torch_md5)

    @property
    def _is_onnx(self) -> bool:
        return self.options.weights is not None and Path(self.options.weights).suffix == ".onnx"

    def _questions(self) -> SquadWindows:
        assert self.options.data is not None and self.options.vocab is not None
        files = self.files
        return SquadWindows(
            verify_file(Path(self.options.data), md5=files.data_md5, what="SQuAD file"),
            verify_file(Path(self.options.vocab), md5=files.vocabulary_md5, what="vocabulary"),
            vocabulary_size=files.architecture.vocabulary,
            windows=files.windows,
            count=files.windows_in_data,
        )

    def _calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        assert self.options.calibration is not None
        for sample in calibration_samples(Path(self.options.calibration), self._questions()):
            yield self.program.inputs([sample])
