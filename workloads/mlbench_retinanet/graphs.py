"""The network as a graph: body and heads, from an image to the logits and box offsets of all anchors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from mlbench import Dim, Graph, TensorSpec
from mlbench.toolkit import ModuleGraph, build_seeded, load_strictly
from mlbench_retinanet.anchors import PER_PLACE, map_shapes

if TYPE_CHECKING:
    import torch

    from mlbench.toolkit import Calibrate

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
"""RGB, of values from 0 to 1. The network normalises by itself."""

RANDOM_SEED = 0
RANDOM_STD = 0.03
"""Standard deviation of the random weights of the last layer."""

BATCH = Dim(name="batch", smallest=1, usual=8, largest=128)

IMAGE, LOGITS, OFFSETS = "images", "logits", "offsets"
"""Names of the graph's tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Differences between the official network and its small copy."""

    planes: int
    """Channels of the first convolution; each later stage doubles them."""
    blocks: tuple[int, ...]
    """Bottlenecks per stage."""
    groups: int
    """Groups of each 3x3 convolution in the body."""
    width_per_group: int
    """Channels of a group, were there 64 planes."""
    channels: int
    """Channels of the feature pyramid and the heads."""
    classes: int
    """None of them means background."""
    image_size: int
    anchor_bases: tuple[int, ...]
    """The smallest anchor size of each level, pixels."""

    @property
    def image_hw(self) -> tuple[int, int]:
        """Height and width of an image."""
        return self.image_size, self.image_size

    @property
    def map_shapes(self) -> list[tuple[int, int]]:
        """Height and width of the feature maps, the finest first."""
        return map_shapes(self.image_hw, len(self.anchor_bases))

    @property
    def anchor_count(self) -> int:
        """How many anchors all levels have together."""
        return PER_PLACE * sum(height * width for height, width in self.map_shapes)


def build_network(architecture: Architecture, norm: Callable[[int], torch.nn.Module] | None = None) -> torch.nn.Module:
    """Return torchvision's RetinaNet without its transform and without what follows the heads, freshly initialised.

    The names in its state dict are torchvision's; those of the official checkpoints are older ones, which the blocks
    rename as they load. ``forward`` takes (B, 3, size, size) RGB from 0 to 1 and returns logits (B, anchors, classes)
    and offsets (B, anchors, 4).

    Args:
        architecture: its dimensions.
        norm: makes a normalisation layer of so many channels; by default frozen batch norm, which only applies what was
            learnt.
    """
    import torch
    from torch import nn
    from torchvision.models.detection.retinanet import RetinaNetHead

    class Detector(nn.Module):
        mean: torch.Tensor
        std: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.backbone = _backbone(architecture, norm)
            self.head = RetinaNetHead(architecture.channels, PER_PLACE, architecture.classes)
            for name, values in (("mean", MEAN), ("std", STD)):
                self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            levels = self.backbone((images - self.mean) / self.std)
            outputs = self.head(list(levels.values()))
            return outputs["cls_logits"], outputs["bbox_regression"]

    return Detector()


def _backbone(architecture: Architecture, norm: Callable[[int], torch.nn.Module] | None) -> torch.nn.Module:
    """Return the ResNeXt body with a feature pyramid on its last three stages, and two more levels on top."""
    import torch
    from torch import nn
    from torchvision.models.detection.backbone_utils import BackboneWithFPN
    from torchvision.models.resnet import Bottleneck, ResNet
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7
    from torchvision.ops.misc import FrozenBatchNorm2d

    norm, planes, channels = norm or FrozenBatchNorm2d, architecture.planes, architecture.channels
    shape = {"groups": architecture.groups, "width_per_group": architecture.width_per_group}
    with torch.device("meta"):  # torchvision fixes 64 planes, so every layer that depends on them is made again below
        body = ResNet(Bottleneck, list(architecture.blocks), norm_layer=norm, **shape)
    body.inplanes = planes
    body.conv1 = nn.Conv2d(3, planes, kernel_size=7, stride=2, padding=3, bias=False)
    body.bn1 = norm(planes)
    for stage, blocks in enumerate(architecture.blocks):
        layer = body._make_layer(Bottleneck, planes << stage, blocks, stride=1 if stage == 0 else 2)
        setattr(body, f"layer{stage + 1}", layer)
    for part in body.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
    stages = [planes * Bottleneck.expansion << stage for stage in (1, 2, 3)]
    names = {f"layer{stage}": str(place) for place, stage in enumerate((2, 3, 4))}
    backbone: nn.Module = BackboneWithFPN(body, names, stages, channels, LastLevelP6P7(channels, channels))
    return backbone


def draw_heads(network: torch.nn.Module) -> None:
    """Draw the hidden weights of both heads so that what passes through keeps its size.

    torchvision's own draw, made for 256 channels and a body that was trained before, shrinks it.
    """
    from torch import nn

    for name in ("classification_head", "regression_head"):
        for part in network.get_submodule(f"head.{name}.conv").modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")


def build_detector(
    architecture: Architecture,
    read_state: Callable[[], Mapping[str, torch.Tensor]],
    calibrate: Calibrate,
    *,
    fingerprint: str,
) -> Graph:
    """Return the network with trained weights.

    Args:
        architecture: its dimensions.
        read_state: returns the state dict, or raises `DataError`; called when a backend asks for the module.
        calibrate: yields inputs for quantisation.
        fingerprint: the checksum of the weights.
    """

    def build() -> torch.nn.Module:
        state = read_state()  # first: a missing file should not take the time to draw weights
        network = build_network(architecture)
        load_strictly(network, state)
        return network

    return _detector(architecture, build, calibrate, weights_fingerprint=fingerprint)


def random_detector(architecture: Architecture, calibrate: Calibrate) -> Graph:
    """Return the network with seeded weights; the global generator stays as it was.

    Classes are drawn further apart than for training: else no score would be high enough for a detection, and what
    follows the heads would have nothing to do.
    """

    def build() -> torch.nn.Module:
        import torch

        network = build_network(architecture)
        draw_heads(network)
        torch.nn.init.normal_(network.get_parameter("head.classification_head.cls_logits.weight"), std=RANDOM_STD)
        return network

    def seeded() -> torch.nn.Module:
        return build_seeded(build, seed=RANDOM_SEED)

    return _detector(architecture, seeded, calibrate, weights_fingerprint=f"random-seed{RANDOM_SEED}")


def _detector(
    architecture: Architecture, build: Callable[[], torch.nn.Module], calibrate: Calibrate, *, weights_fingerprint: str
) -> Graph:
    """Return the graph ``images`` (B, 3, size, size) -> ``logits`` (B, anchors, classes), ``offsets`` (B, anchors, 4).

    All are float32.
    """
    size, anchors = architecture.image_size, architecture.anchor_count
    dimensions = "-".join(str(value) for value in asdict(architecture).values())
    return ModuleGraph(
        "detector",
        inputs=(TensorSpec(name=IMAGE, shape=(BATCH, 3, size, size), dtype="float32", layout="NCHW"),),
        outputs=(
            TensorSpec(name=LOGITS, shape=(BATCH, anchors, architecture.classes), dtype="float32"),
            TensorSpec(name=OFFSETS, shape=(BATCH, anchors, 4), dtype="float32"),
        ),
        build=build,
        fingerprint=f"{weights_fingerprint}-{dimensions}",
        calibrate=calibrate,
    )
