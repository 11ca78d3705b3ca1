"""Options of the model that is run: transforms, and those of a user's own model, which several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mlbench.cli.completions import offer_backends, offer_transforms
from mlbench.errors import UsageError


def transform_option(several: str = "applied in order") -> Callable[..., Any]:
    """Return the option ``--transform``; ``several`` says how more than one apply."""
    return click.option(
        "--transform",
        "transforms",
        multiple=True,
        metavar="NAME[:VALUE]",
        shell_complete=offer_transforms,
        help=f"Change of the model before it runs, from `mlbench list`: prune-layers:0.25; repeatable, {several}.",
    )


def model_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a user's own model, as a `UserModel` argument ``model``, None without one."""

    @click.option(
        "--model",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Your own model, instead of a workload: .onnx, .pt2, or a Hugging Face folder.",
    )
    @click.option("--name", default="", metavar="NAME", help="With --model: its name.  [default: the file's]")
    @click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="INPUT=SHAPE",
        help="With --model: shape of an input: x=8x3x224x224.",
    )
    @click.option(
        "--dim", "dims", multiple=True, metavar="DIM=SIZE", help="With --model: an open size: seq=128, or seq=16..512."
    )
    @click.option(
        "--inputs",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="With --model: your inputs: .npz, a folder of .npy, prompts as .jsonl.  [default: random]",
    )
    @click.option(
        "--reference",
        default="",
        metavar="BACKEND",
        shell_complete=offer_backends,
        help="With --model: backend whose answers are right.  [default: the model, operator by operator]",
    )
    @functools.wraps(function)
    def with_model(model: Path | None, **given: Any) -> Any:
        from mlbench.planning.user_model import UserModel

        own = {name: given.pop(name) for name in ("name", "shapes", "dims", "inputs", "reference")}
        if not model and (alone := next((name for name, value in own.items() if value), "")):
            raise UsageError(f"--{alone.removesuffix('s') if alone != 'inputs' else alone} is given without --model.")
        return function(model=UserModel(file=model, **own) if model else None, **given)

    return with_model
