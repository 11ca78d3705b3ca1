"""The two official checkpoints that hold weights: as state dicts of this network, read without running their code."""

from __future__ import annotations

import argparse
import contextlib
import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from mlbench import DataError
from mlbench.toolkit import first_line, verify_file

PARTS = ("backbone", "head")
"""Parts of the official model that have weights; its transform and anchor generator have none."""

HINT = "Fetch it again from the official record."


def torchscript_state(path: Path, *, md5: str) -> Mapping[str, torch.Tensor]:
    """Return the weights in a TorchScript archive.

    Its modules are read as plain data: of the classes and functions that its pickle names only those that build tensors
    and containers exist for the reader, and the code beside it is not opened.

    Raises:
        DataError: the file is missing, has another checksum, or holds something else.
    """
    with _reading(path, md5=md5, kind="TorchScript archive"), zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        parts = vars(ArchiveReader(archive, name).load())
        return dict(pair for part in PARTS for pair in _tensors(part, parts[part]))


def training_state(path: Path, *, md5: str) -> Mapping[str, torch.Tensor]:
    """Return the weights in a checkpoint of the training code, the one file in a zip archive.

    torch reads it with ``weights_only``. The training's command line, which lies beside the weights, is let in: it
    holds values only.

    Raises:
        DataError: the file is missing, has another checksum, or holds something else.
    """
    with _reading(path, md5=md5, kind="checkpoint"), zipfile.ZipFile(path) as archive:
        (name,) = archive.namelist()
        with torch.serialization.safe_globals([argparse.Namespace]):
            checkpoint = torch.load(io.BytesIO(archive.read(name)), map_location="cpu", weights_only=True)
        return {name: _one_axis(tensor) for name, tensor in checkpoint["model"].items()}


@contextlib.contextmanager
def _reading(path: Path, *, md5: str, kind: str) -> Iterator[None]:
    """Check a file, and turn what the readers raise into `DataError`."""
    verify_file(path, md5=md5, what="weights file", hint=HINT)
    try:
        yield
    except Exception as error:  # the readers raise anything for a file of another kind
        reason = first_line(error)
        raise DataError(f"weights file is not a {kind} of this model: {path}: {reason}.", hint=HINT) from None


def _one_axis(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers of a batch norm, which the training code keeps as (1, C, 1, 1), as (C,); others unchanged."""
    is_norm = tensor.ndim == 4 and tensor.shape[0] == tensor.shape[2] == tensor.shape[3] == 1
    return tensor.flatten() if is_norm else tensor


class ScriptObject:
    """An object of a class that the archive defines: its attributes, and nothing that it could do."""


class ArchiveReader(pickle.Unpickler):
    """Reads a pickle of a TorchScript archive: tensors, containers, and objects as plain data."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        """Open the pickle of this name; tensors lie in the folder ``data`` beside it."""
        super().__init__(io.BytesIO(archive.read(name)))
        self._archive = archive
        self._folder = name.removesuffix(".pkl")

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a class or function; refuse all that is not needed."""
        if module.startswith("__torch__."):
            return ScriptObject
        if (known := KNOWN.get(f"{module}.{name}")) is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return known

    def persistent_load(self, key: Any) -> torch.Tensor:
        """Return the memory of a tensor."""
        _, dtype, name, _, _ = key
        return torch.frombuffer(bytearray(self._archive.read(f"{self._folder}/{name}")), dtype=dtype)


def _container(value: Any, *_: Any) -> Any:
    """Return a container as it is; what follows says which type its elements have."""
    return value


def _tensor(
    memory: torch.Tensor, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> torch.Tensor:
    """Return a tensor, given where in its memory the elements lie."""
    return memory.as_strided(shape, strides, offset).clone()


KNOWN: Mapping[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch.FloatStorage": torch.float32,
    "torch.HalfStorage": torch.float16,
    "torch.LongStorage": torch.int64,
    **{
        f"torch.jit._pickle.{name}": _container
        for name in ("restore_type_tag", "build_intlist", "build_doublelist", "build_boollist", "build_tensorlist")
    },
}


def _tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of an object and of its parts, each by its path."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, ScriptObject):
        for attribute, part in vars(value).items():
            yield from _tensors(f"{name}.{attribute}", part)
