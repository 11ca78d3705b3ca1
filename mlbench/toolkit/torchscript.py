"""Weights in a TorchScript archive, read without running its code."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from mlbench.system.documents import foreign, open_regular
from mlbench.system.documents.archives import open_zip


def read_torchscript(path: Path, *, hint: str = "") -> Mapping[str, torch.Tensor]:
    """Return the parameters and buffers in a TorchScript archive, by name, as its ``state_dict`` has them.

    Its modules are read as plain data: of the classes and functions that its pickle names only those that build tensors
    and containers exist for the reader, and the code beside it is not opened.

    Raises:
        DataError: the file is missing, or holds something else.
    """
    with foreign("weights file is not a TorchScript archive:", str(path), hint=hint, path=path) as meter:
        with open_regular(path) as file, open_zip(file, meter) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            module = ArchiveReader(archive, name).load()
        if not isinstance(module, ScriptObject):
            raise ValueError("it contains no module")
        return {name.removeprefix("."): tensor for name, tensor in _tensors("", module)}


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
        """Return the stand-in for a class or function; refuse all others."""
        if module.startswith("__torch__."):
            return ScriptObject
        if (known := KNOWN.get(f"{module}.{name}")) is None:
            raise ValueError(f"it asks for {module}.{name}")
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
    "torch.BFloat16Storage": torch.bfloat16,
    "torch.DoubleStorage": torch.float64,
    "torch.LongStorage": torch.int64,
    "torch.BoolStorage": torch.bool,
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
