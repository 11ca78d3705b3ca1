"""Files that a workload ships or a user names: verified, and loaded without running code from them."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.errors import DataError, first_line
from mlbench.execution.compile_cache import build_once

if TYPE_CHECKING:
    import torch


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_file(path: Path, *, sha256: str = "", md5: str = "", what: str = "file", hint: str = "") -> Path:
    """Return ``path`` if the file is there and has the checksum.

    Raises:
        DataError: it is missing, cannot be read, or differs.
    """
    if not os.path.isfile(path):
        raise DataError(f"{what} not found: {path}.", hint=hint)
    wanted, algorithm = (sha256, "sha256") if sha256 else (md5, "md5")
    if wanted:
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, algorithm).hexdigest()
        except OSError as error:
            raise DataError(f"{what} cannot be read: {path}: {error.strerror}.", hint=hint) from None
        if found != wanted:
            raise DataError(
                f"{what} is corrupt or another version: {path} has {algorithm} {found[:12]}..., not {wanted[:12]}....",
                hint=hint or "Fetch or install it again.",
            )
    return path


def unpack(archive: Path, *, sha256: str) -> Path:
    """Return a folder with the contents of a zip archive, unpacked once into the cache under its checksum.

    Raises:
        DataError: the archive is missing or corrupt.
    """
    return build_once("data", [archive.name, sha256], lambda folder: _unpack(archive, sha256, folder))


def _unpack(archive: Path, sha256: str, folder: Path) -> None:
    verify_file(archive, sha256=sha256, what="data archive", hint="Install mlbench again.")
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)


def load_weights(path: Path, *, sha256: str = "", md5: str = "", hint: str = "") -> Mapping[str, torch.Tensor]:
    """Return a state dict from a ``.safetensors`` file or a torch checkpoint, floating-point tensors as fp32.

    A torch checkpoint is read with ``weights_only``: it can hold tensors, but no code.

    Raises:
        DataError: the file is missing, has another checksum, or does not hold tensors.
    """
    import torch

    verify_file(path, sha256=sha256, md5=md5, what="weights file", hint=hint)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the readers raise anything for a damaged file
        raise DataError(f"weights file cannot be read: {path}: {first_line(error)}.", hint=hint) from None
    if not isinstance(state, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise DataError(f"weights file holds no state dict: {path}.", hint=hint)
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
