"""A user's own model as a workload: ONNX files, torch exported programs, and language models in a folder."""

from __future__ import annotations

from pathlib import Path

from mlbench import Workload, hookimpl
from mlbench_own_model.language_workload import OwnLanguageModel
from mlbench_own_model.options import LanguageModelOptions, OwnModelOptions
from mlbench_own_model.workload import OwnModel

FORMS = (".onnx", ".pt2")

__all__ = ["LanguageModelOptions", "OwnLanguageModel", "OwnModel", "OwnModelOptions"]


@hookimpl
def mlbench_model_workload(file: Path, name: str) -> Workload | None:
    """Return the workload of a file by its ending, and of what has none: a folder."""
    if file.suffix.lower() in FORMS:
        return OwnModel(name, file.suffix.lower())
    return None if file.is_file() else OwnLanguageModel(name)
