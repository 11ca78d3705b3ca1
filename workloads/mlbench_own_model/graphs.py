"""The user's model, opened: its file, and the shapes that it is measured with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mlbench import UsageError
from mlbench_own_model.model_file import ModelFile
from mlbench_own_model.options import OwnModelOptions
from mlbench_own_model.signature import Signature, resolve_signature


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenModel:
    """A file with its shapes."""

    file: ModelFile
    signature: Signature


@cache
def open_model(options: OwnModelOptions) -> OpenModel:
    """Open the model that the settings name.

    Raises:
        UsageError: there is none, it is no model, or a size is open.
    """
    path = options.model
    if path is None:
        raise UsageError("workload.model is not set.", hint="Name the model's file: --model FILE.")
    file: ModelFile
    if path.suffix.lower() == ".onnx":
        from mlbench_own_model.onnx_model_file import OnnxModelFile

        file = OnnxModelFile(path)
    else:
        from mlbench_own_model.exported_model_file import ExportedModelFile

        file = ExportedModelFile(path)
    return OpenModel(file=file, signature=resolve_signature(file, shapes=options.shapes, dims=options.dims))
