"""The two official checkpoints that hold weights: as state dicts of this network, read without running their code."""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping
from pathlib import Path

import torch

from mlbench.toolkit import foreign, open_regular, open_zip, read_member, read_torchscript, verify_file

PARTS = ("backbone", "head")
"""Parts of the official model that have weights; its transform and anchor generator have none."""

HINT = "Fetch it again from the official record."


def torchscript_state(path: Path, *, md5: str) -> Mapping[str, torch.Tensor]:
    """Return the weights in a TorchScript archive.

    Raises:
        DataError: the file is missing, has another checksum, or holds something else.
    """
    verify_file(path, md5=md5, what="weights file", hint=HINT)
    state = read_torchscript(path, hint=HINT)
    return {name: tensor for name, tensor in state.items() if name.partition(".")[0] in PARTS}


def training_state(path: Path, *, md5: str) -> Mapping[str, torch.Tensor]:
    """Return the weights in a checkpoint of the training code, the one file in a zip archive.

    torch reads it with ``weights_only``. The training's command line, which lies beside the weights, is let in: it
    holds values only.

    Raises:
        DataError: the file is missing, has another checksum, or holds something else.
    """
    verify_file(path, md5=md5, what="weights file", hint=HINT)
    with (
        foreign("weights file is not a checkpoint of this model:", str(path), hint=HINT, path=path) as meter,
        open_regular(path) as file,
        open_zip(file, meter) as archive,
        torch.serialization.safe_globals([argparse.Namespace]),
    ):
        (member,) = archive.infolist()
        content = io.BytesIO(b"".join(read_member(archive, member, meter)))
        checkpoint = torch.load(content, map_location="cpu", weights_only=True)
        return {name: _one_axis(tensor) for name, tensor in checkpoint["model"].items()}


def _one_axis(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers of a batch norm, which the training code keeps as (1, C, 1, 1), as (C,); others unchanged."""
    is_norm = tensor.ndim == 4 and tensor.shape[0] == tensor.shape[2] == tensor.shape[3] == 1
    return tensor.flatten() if is_norm else tensor
