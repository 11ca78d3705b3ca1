"""The tensors that a model's file declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from mlbench import UsageError

DTYPES = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
"""Types of tensors that NumPy has, by its names."""


NOT_A_TENSOR = "a sequence or a map"
NO_SHAPE = "a tensor without a shape"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTensor:
    """An input or output as the file declares it."""

    name: str
    dtype: str
    """NumPy's name."""
    shape: tuple[int | str, ...]
    """Sizes; an open one is the name of its dimension."""

    def __str__(self) -> str:
        return f"{self.name}: {' x '.join(map(str, self.shape)) or 'one number'}"


class DeclaredModel:
    """The declarations of a user's model. They are read when it is made."""

    path: Path
    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
    id_counts: Mapping[str, int]
    """By the name of an input that is looked up in a table: the table's rows. Its ids lie below."""
    ranges: Mapping[str, tuple[int, int | None]] = MappingProxyType({})
    """By the name of an open size: the smallest and the largest, None without a largest."""
    fingerprint: str
    """A hash of the file and its weights."""


def check_tensors(path: Path, tensors: tuple[DeclaredTensor, ...], kind: str) -> None:
    """Raise `UsageError` for a model without inputs or outputs, or with one whose type has no NumPy array."""
    if not tensors:
        raise UsageError(f"{path.name} has no {kind}.", hint="Export a model with tensors in and tensors out.")
    for each in tensors:
        if each.dtype == NOT_A_TENSOR:
            raise UsageError(
                f"{path.name}: {kind} {each.name} is {NOT_A_TENSOR}, not a tensor.",
                hint="Export tensors alone; skl2onnx does with options={'zipmap': False}.",
            )
        if each.dtype == NO_SHAPE:
            raise UsageError(
                f"{path.name} does not say how many axes {kind} {each.name} has.",
                hint="Write the shapes into it: onnx.shape_inference.infer_shapes_path.",
            )
        if each.dtype not in DTYPES:
            raise UsageError(
                f"{path.name}: {kind} {each.name} is {each.dtype}, which NumPy has no type for.",
                hint=f"Export it as one of {', '.join(DTYPES)}.",
            )
