"""The network as a graph: the official layers at any width, or an official ONNX file as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Dim, Graph, TensorSpec
from mlbench.toolkit import ModuleGraph, OnnxFileGraph, build_seeded, fit_state, foreign, load_weights, verify_file

if TYPE_CHECKING:
    import torch

    from mlbench.toolkit import Calibrate

CLASSES = 3
"""Background, kidney, tumour."""

RANDOM_SEED = 0
CHECKPOINT_KEY = "best_model_state_dict"

IMAGE, ONNX_IMAGE = "image", "input"
"""Name of the input, here and in the official ONNX files."""

BATCH = Dim(name="batch", smallest=1, usual=2, largest=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Differences between the official network and its small copy; the defaults are the official numbers."""

    filters: tuple[int, ...] = (32, 64, 128, 256, 320)
    """Channels on the way down, level by level; the bottleneck has as many as the last."""
    window: int = 128
    """Voxels along each side of the input; halved once a level, and once more in the bottleneck."""


def build_network(architecture: Architecture) -> torch.nn.Module:
    """Return the 3D U-Net, freshly initialised as torch does; the names in its state dict are the official ones."""
    from mlbench_unet3d.network import UNet3D

    return UNet3D(architecture.filters, CLASSES)


def build_segmenter(
    architecture: Architecture, weights: Path, calibrate: Calibrate | None, *, sha256: str = "", md5: str = ""
) -> Graph:
    """Return the network with the weights of a file, which is read and verified when a backend asks for the module.

    Args:
        architecture: what the file holds.
        weights: a safetensors file, or one of the official torch files.
        calibrate: yields inputs for quantisation.
        sha256: its checksum; or
        md5: this one.
    """

    def build() -> torch.nn.Module:
        state = load_weights(weights, sha256=sha256) if sha256 else official_state(weights, md5=md5)
        return _load_network(architecture, state, weights)

    return _segmenter(architecture, build, calibrate, weights_fingerprint=sha256 or md5)


def random_segmenter(architecture: Architecture, calibrate: Calibrate | None) -> Graph:
    """Return the network with seeded weights, the same each time; the global generator stays as it was."""

    def build() -> torch.nn.Module:
        return build_seeded(lambda: build_network(architecture), seed=RANDOM_SEED)

    return _segmenter(architecture, build, calibrate, weights_fingerprint=f"random-seed{RANDOM_SEED}")


def dynamic_onnx_segmenter(file: Path, calibrate: Calibrate | None, *, md5: str) -> Graph:
    """Return MLCommons' ONNX checkpoint for any number of windows, as it is."""
    return _onnx_segmenter(file, calibrate, md5=md5, batch=BATCH)


def load_onnx_segmenter(file: Path, calibrate: Calibrate | None) -> Graph:
    """Return MLCommons' ONNX checkpoint for one window, as it is; no checksum of it is published.

    Raises:
        DataError: the file is missing.
    """
    with verify_file(file, what="weights file").open("rb") as content:
        md5 = hashlib.file_digest(content, "md5").hexdigest()
    return _onnx_segmenter(file, calibrate, md5=md5, batch=1)


def _onnx_segmenter(file: Path, calibrate: Calibrate | None, *, md5: str, batch: int | Dim) -> Graph:
    window = Architecture().window
    return OnnxFileGraph(
        "segmenter",
        file,
        md5=md5,
        inputs=(_spec(ONNX_IMAGE, batch, 1, window),),
        outputs=(_spec("output", batch, CLASSES, window),),
        calibrate=calibrate,
        hint="Use a backend that runs ONNX files, or one of the torch checkpoints.",
    )


def official_state(file: Path, *, md5: str) -> Mapping[str, torch.Tensor]:
    """Return the weights in one of MLCommons' torch files: the TorchScript one (.ptc), or the checkpoint (.pth).

    No code in them is run: the checkpoint is read with ``weights_only``, and of TorchScript the tensors alone.

    Raises:
        DataError: the file is missing, has another checksum, or does not hold the weights.
    """
    import torch

    from mlbench.toolkit import read_torchscript

    verify_file(file, md5=md5, what="weights file")
    if file.suffix == ".ptc":
        return read_torchscript(file)
    with foreign("weights file cannot be read:", str(file), path=file):
        found = torch.load(file, map_location="cpu", weights_only=True)
        if CHECKPOINT_KEY not in found:
            raise ValueError(f"{CHECKPOINT_KEY!r} is not in it")
        return dict(found[CHECKPOINT_KEY])


def _load_network(architecture: Architecture, state: Mapping[str, torch.Tensor], origin: Path) -> torch.nn.Module:
    """Return the network with these weights.

    Raises:
        DataError: a tensor is missing, unknown, or of another shape.
    """
    import torch

    with torch.device("meta"):
        network = build_network(architecture)
    fitting = fit_state(state, network.state_dict(), origin=origin)
    network.load_state_dict({name: tensor.float() for name, tensor in fitting.items()}, assign=True)
    return network


def _segmenter(
    architecture: Architecture,
    build: Callable[[], torch.nn.Module],
    calibrate: Calibrate | None,
    *,
    weights_fingerprint: str,
) -> Graph:
    """Return the graph ``image`` (B, 1, W, W, W) float32 -> ``logits`` (B, 3, W, W, W) float32."""
    return ModuleGraph(
        "segmenter",
        inputs=(_spec(IMAGE, BATCH, 1, architecture.window),),
        outputs=(_spec("logits", BATCH, CLASSES, architecture.window),),
        build=build,
        fingerprint=f"{weights_fingerprint}-{'-'.join(map(str, architecture.filters))}-{architecture.window}",
        calibrate=calibrate,
    )


def _spec(name: str, batch: int | Dim, channels: int, window: int) -> TensorSpec:
    return TensorSpec(name=name, shape=(batch, channels, window, window, window), dtype="float32", layout="NCDHW")
