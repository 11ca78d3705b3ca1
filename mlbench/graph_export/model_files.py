"""The files of a user's own model: its own, and those beside it that hold weights."""

from __future__ import annotations

from pathlib import Path

from mlbench.errors import UsageError
from mlbench.system.documents import foreign
from mlbench.toolkit import onnx_weight_files


def files_of_model(model: Path) -> list[Path]:
    """Return the files of a user's model.

    Raises:
        UsageError: it is not there, or of another form.
    """
    if model.suffix.lower() not in (".onnx", ".pt2") or not model.is_file():
        raise UsageError(f"there is no model {str(model)!r}.", hint="Name an .onnx or a .pt2 file.")
    if model.suffix.lower() == ".pt2":
        return [model]
    with foreign("model is not an ONNX file:", str(model), hint="Export it anew.", path=model):
        return [model, *(model.parent / each for each in onnx_weight_files(model))]
