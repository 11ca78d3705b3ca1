"""Files that a workload ships or a user names: verified, and loaded without running code from them."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.errors import DataError
from mlbench.execution.export.compile_cache import build_once
from mlbench.system.documents import foreign, refusal

if TYPE_CHECKING:
    import torch


UNREAD_HINT = "It may be quantised: give the unquantised model, or use a backend that reads this one, such as vllm."


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
        raise refusal(path, f"{what} not found: {path}.", hint=hint)
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
    with foreign("weights file cannot be read:", str(path), hint=hint, path=path):
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise DataError(f"weights file contains no state dict: {path}.", hint=hint)
    if short := [name for name, each in state.items() if each.is_floating_point() and each.element_size() < 2]:
        raise DataError(f"{path} stores {short[0]} as {state[short[0]].dtype}, without a scale.", hint=UNREAD_HINT)
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def fit_state(
    state: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor], *, origin: Path, extras: str = ""
) -> dict[str, torch.Tensor]:
    """Return the tensors of a state dict that a network has.

    Args:
        state: as it was read.
        wanted: the network's own.
        origin: of the weights, for messages.
        extras: a pattern of names that official checkpoints have beyond it, and that change nothing.

    Raises:
        DataError: a tensor is missing, of another shape, or there and read by nothing: the scales of quantised weights
            are such, and without them all numbers are wrong.
    """
    for name, tensor in wanted.items():
        if name not in state:
            raise DataError(f"weights file lacks {name}: {origin}.")
        if state[name].shape != tensor.shape:
            raise DataError(f"{name} is {tuple(state[name].shape)}, not {tuple(tensor.shape)}: {origin}.")
    refuse_unread([name for name in state if name not in wanted], origin, extras)
    return {name: state[name] for name in wanted}


def refuse_unread(names: Sequence[str], origin: Path, extras: str) -> None:
    """Raise `DataError` for unused tensors of a checkpoint, except those whose names match a pattern."""
    if unread := sorted(name for name in names if not re.fullmatch(extras, name)):
        shown = ", ".join(unread[:3])
        raise DataError(f"{origin} has unused tensors: {shown} ({len(unread)} in all).", hint=UNREAD_HINT)


def load_strictly(network: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Load a state dict as torch does, which also renames what older versions wrote.

    Raises:
        DataError: a tensor is missing, unknown or of another shape.
    """
    try:
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        reason = " ".join(line.strip() for line in str(error).splitlines()[1:3]).rstrip(". ")
        raise DataError(f"weights file is of another network: {reason[:300]}.", hint=UNREAD_HINT) from None
