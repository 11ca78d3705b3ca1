"""The shapes that a model is measured with: what its file declares, with what the user says of open sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mlbench import Dim, TensorSpec, UsageError
from mlbench_own_model.declarations import DeclaredModel, DeclaredTensor

USUAL_BATCH, LARGEST_BATCH = 16, 1024
LARGEST_SIZE = 2**31 - 1

Size = int | Dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A graph's tensors, and which axis is the batch."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    has_batch: bool
    """Whether the first axis of every tensor is one of independent samples. Else a sample is all of a call's inputs."""
    rows: int = 0
    """Samples of each call, where the user fixed them; 0: any number."""

    @property
    def largest_batch(self) -> int:
        """The most samples that one call may have."""
        first = self.inputs[0].shape[0] if self.has_batch else 1
        return first.largest if isinstance(first, Dim) else first

    @property
    def dims(self) -> Mapping[str, Dim]:
        """The sizes of samples that vary, by name."""
        shapes = [spec.shape[1:] if self.has_batch else spec.shape for spec in self.inputs]
        return {size.name: size for shape in shapes for size in shape if isinstance(size, Dim)}

    def sample_shape(self, spec: TensorSpec) -> tuple[Size, ...]:
        """Return the shape of one sample's part of a tensor."""
        return spec.shape[1:] if self.has_batch else spec.shape


def resolve_signature(file: DeclaredModel, *, shapes: str, dims: str) -> Signature:
    """Return the shapes of a model.

    Args:
        file: the model.
        shapes: ``input=8x3x224x224,mask=8x128``.
        dims: ``seq=128,width=64..512``.

    Raises:
        UsageError: one does not fit the file, or a size is still open; the message names it.
    """
    firsts = _first_axes(file)
    batch = firsts[0] if firsts else ""
    sizes: dict[str, Size] = {name: _read_size(name, text) for name, text in _pairs(dims, "dim", "seq=128")}
    for name, text in _pairs(shapes, "shape", "image=8x3x224x224"):
        sizes |= _sizes_of_shape(file, name, text)
    known = [size for each in (*file.inputs, *file.outputs) for size in each.shape if isinstance(size, str)]
    if unknown := next((name for name in sizes if name not in known), ""):
        raise UsageError(
            f"{file.path.name} has no open size {unknown!r}.",
            hint=f"Open are: {', '.join(dict.fromkeys(known)) or 'none'}.",
        )
    rows = sizes.get(batch, 0)
    if isinstance(rows, Dim):
        raise UsageError(
            f"dim {batch} is the batch, and a range is given.",
            hint="Give a number, or leave it out: any batch is tried.",
        )
    if batch and not rows:
        smallest, largest = file.ranges.get(batch, (1, None))
        sizes |= dict.fromkeys(
            firsts,
            _range(
                "batch" if "." in batch else batch,
                max(1, smallest),
                min(LARGEST_BATCH, largest or LARGEST_BATCH),
                USUAL_BATCH,
            ),
        )
    elif batch:
        sizes |= dict.fromkeys(firsts, rows)
    _refuse_open(file, sizes)
    return Signature(
        inputs=tuple(_spec(each, sizes) for each in file.inputs),
        outputs=tuple(_spec(each, sizes) for each in file.outputs),
        has_batch=bool(batch),
        rows=rows,
    )


def _first_axes(file: DeclaredModel) -> list[str]:
    """Return the names of all tensors' first axes where these are open and one: of one name, or without a name."""
    tensors = (*file.inputs, *file.outputs)
    firsts = [each.shape[0] if each.shape else 0 for each in tensors]
    named = {first for each, first in zip(tensors, firsts, strict=True) if first != f"{each.name}.0"}
    if len(named) > 1 or not all(isinstance(first, str) for first in firsts):
        return []
    return sorted({str(first) for first in firsts}, key=lambda first: first not in named)


def _pairs(text: str, kind: str, example: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = (each.strip() for each in part.rpartition("="))
        if not equals or not name or not value:
            raise UsageError(f"{kind} {part!r} is not a name and a size.", hint=f"Give it as --{kind} {example}.")
        yield name, value


def _read_size(name: str, text: str) -> Size:
    found = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", text, re.ASCII)
    smallest, largest = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= smallest <= largest:
        raise UsageError(f"dim {name} is {text!r}.", hint="Give a size from 1 on, or a range: seq=128, seq=16..512.")
    if smallest == largest:
        return smallest
    return _range(name, smallest, largest, (smallest + largest) // 2)


def _range(name: str, smallest: int, largest: int, usual: int) -> Dim:
    return Dim(name=name, smallest=smallest, usual=min(max(usual, smallest), largest), largest=largest)


def _sizes_of_shape(file: DeclaredModel, name: str, text: str) -> dict[str, Size]:
    """Return the open sizes that a shape of an input gives."""
    declared = next((each for each in file.inputs if each.name == name), None)
    if declared is None:
        raise UsageError(f"{file.path.name} has no input {name!r}.", hint=f"It has {'; '.join(map(str, file.inputs))}.")
    given = text.lower().split("x") if text else []
    if len(given) != len(declared.shape) or not all(each.isascii() and each.isdigit() and int(each) for each in given):
        raise UsageError(f"shape {name}={text} does not fit the file.", hint=f"There it is {declared}.")
    found: dict[str, Size] = {}
    for size, wanted in zip(map(int, given), declared.shape, strict=True):
        if found.setdefault(wanted, size) != size if isinstance(wanted, str) else wanted != size:
            raise UsageError(f"shape {name}={text} does not fit the file.", hint=f"There it is {declared}.")
    return found


def _refuse_open(file: DeclaredModel, sizes: Mapping[str, Size]) -> None:
    for each in file.inputs:
        if opened := [size for size in each.shape if isinstance(size, str) and size not in sizes]:
            hint = " ".join(f"--dim {size}=128" for size in opened)
            raise UsageError(
                f"{file.path.name} leaves the size of {' and '.join(opened)} open ({each}).",
                hint=f"Give it, or a range: {hint}, --dim {opened[0]}=16..128.",
            )


def _spec(declared: DeclaredTensor, sizes: Mapping[str, Size]) -> TensorSpec:
    shape = [sizes.get(size, _any_size(size)) if isinstance(size, str) else size for size in declared.shape]
    return TensorSpec(name=declared.name, shape=tuple(shape), dtype=declared.dtype)


def _any_size(name: str) -> Dim:
    """Return the size of an output that follows from the inputs in a way that the file does not tell."""
    return Dim(name=name, smallest=1, usual=1, largest=LARGEST_SIZE)
