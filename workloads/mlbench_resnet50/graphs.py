"""The network as a graph: built from torchvision's blocks, or the official ONNX file as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Dim, Graph, Precision, TensorSpec, Tolerance
from mlbench.toolkit import ModuleGraph, OnnxFileGraph, build_seeded, load_strictly, load_weights

if TYPE_CHECKING:
    import torch

    from mlbench.toolkit import Calibrate

BLOCKS = (3, 4, 6, 3)
"""Bottlenecks per stage of a ResNet-50."""

RANDOM_SEED = 0
IMAGE, LOGITS = "image", "logits"
OFFICIAL_ONNX_INPUT, OFFICIAL_ONNX_OUTPUT = "input_tensor:0", "ArgMax:0"

BATCH = Dim(name="batch", smallest=1, usual=32, largest=256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Differences between the official network and its small copy."""

    planes: int
    """Channels of the first convolution; each later stage doubles them."""
    classes: int
    image_size: int


def build_network(architecture: Architecture) -> torch.nn.Module:
    """Return torchvision's ResNet-50 v1.5 with a given number of channels, freshly initialised as torchvision does.

    The names in its state dict are torchvision's; with 64 planes and 1,000 classes it is `torchvision.models.resnet50`.
    """
    import torch
    from torch import nn
    from torchvision.models.resnet import Bottleneck, ResNet

    planes = architecture.planes
    with torch.device("meta"):  # torchvision fixes 64 planes, so every layer that depends on them is made again below
        network = ResNet(Bottleneck, list(BLOCKS))
    network.inplanes = planes
    network.conv1 = nn.Conv2d(3, planes, kernel_size=7, stride=2, padding=3, bias=False)
    network.bn1 = nn.BatchNorm2d(planes)
    for stage, blocks in enumerate(BLOCKS):
        layer = network._make_layer(Bottleneck, planes << stage, blocks, stride=1 if stage == 0 else 2)
        setattr(network, f"layer{stage + 1}", layer)
    network.fc = nn.Linear(planes * 8 * Bottleneck.expansion, architecture.classes)
    return _initialise(network)


def _initialise(network: torch.nn.Module) -> torch.nn.Module:
    """Draw the convolutions' weights as torchvision does; its other layers keep torch's own initial values."""
    from torch import nn

    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
    return network


def build_classifier(
    architecture: Architecture, weights: Path, calibrate: Calibrate, *, sha256: str = "", md5: str = ""
) -> Graph:
    """Return the network with the weights of a torchvision state dict.

    Its module raises `DataError` when the file is missing or has another checksum.
    """

    def build() -> torch.nn.Module:
        network = build_network(architecture)
        load_strictly(network, load_weights(weights, sha256=sha256, md5=md5))
        return network

    return _classifier(architecture, build, calibrate, weights_fingerprint=sha256 or md5)


def random_classifier(architecture: Architecture, calibrate: Calibrate) -> Graph:
    """Return the network with seeded weights; the global generator stays as it was."""

    def build() -> torch.nn.Module:
        return build_seeded(lambda: build_network(architecture), seed=RANDOM_SEED)

    return _classifier(architecture, build, calibrate, weights_fingerprint=f"random-seed{RANDOM_SEED}")


def _classifier(
    architecture: Architecture, build: Callable[[], torch.nn.Module], calibrate: Calibrate, *, weights_fingerprint: str
) -> Graph:
    """Return the graph ``image`` (B, 3, size, size) float32 -> ``logits`` (B, classes) float32."""
    planes, classes, size = architecture.planes, architecture.classes, architecture.image_size
    return ModuleGraph(
        "classifier",
        inputs=(TensorSpec(name=IMAGE, shape=(BATCH, 3, size, size), dtype="float32", layout="NCHW"),),
        outputs=(TensorSpec(name=LOGITS, shape=(BATCH, classes), dtype="float32"),),
        build=build,
        fingerprint=f"{weights_fingerprint}-{planes}-{classes}-{size}",
        calibrate=calibrate,
    )


def official_onnx_classifier(file: Path, calibrate: Calibrate, *, md5: str) -> Graph:
    """Return MLCommons' ONNX checkpoint as it is: image -> class, counted from "background"."""
    return OnnxFileGraph(
        "classifier",
        file,
        md5=md5,
        inputs=(TensorSpec(name=OFFICIAL_ONNX_INPUT, shape=(BATCH, 3, 224, 224), dtype="float32", layout="NCHW"),),
        outputs=(TensorSpec(name=OFFICIAL_ONNX_OUTPUT, shape=(BATCH,), dtype="int64"),),
        calibrate=calibrate,
        tolerances=dict.fromkeys(Precision.KNOWN, Tolerance(absolute=0, relative=0)),  # a class is right or wrong
        hint="Use a backend that runs ONNX files, or torchvision's weights.",
    )
