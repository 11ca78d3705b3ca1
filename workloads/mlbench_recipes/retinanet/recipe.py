"""Makes the mini profile: draws the scenes, trains the small network, measures it and writes the files of `mini/`.

python -m mlbench_recipes retinanet --out mini
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from mlbench_retinanet import workload
from mlbench_retinanet.detection import Selection
from mlbench_retinanet.graphs import Architecture

from mlbench.toolkit import MiniFolder, decode_image
from mlbench_recipes.handwritten_digits import SEED, validation_and_training_digits
from mlbench_recipes.reference_scores import write_profile
from mlbench_recipes.retinanet.scenes import (
    Scene,
    draw_scenes,
    write_calibration,
    write_validation,
)

if TYPE_CHECKING:
    import torch
    from mlbench_retinanet.mini_profile import MiniProfile

VALIDATION_SCENES = 200
CALIBRATION_SCENES = 64
TRAINING_SCENES = 12_000

STEPS = 2_600
BATCH = 16
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 0.01
LARGEST_GRADIENT = 5.0

Targets = list[dict[str, "torch.Tensor"]]
"""``boxes`` (N, 4) float32 in pixels of the network's input, and ``labels`` (N,) int64, of each image."""

ARCHITECTURE = Architecture(
    planes=16,
    blocks=(2, 2, 2, 2),
    groups=8,
    width_per_group=8,
    channels=48,
    classes=10,
    image_size=128,
    anchor_bases=(12, 24, 48, 96, 192),
)

SELECTION = Selection(lowest_score=0.05, per_level=200, largest_overlap=0.5, at_most=50)


def make_mini_profile(out: Path) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    from mlbench_retinanet.mini_profile import CALIBRATION, CALIBRATION_LIST, VALIDATION, WEIGHTS, MiniProfile
    from safetensors.torch import save

    validation, training = validation_and_training_digits()
    draw = [
        draw_scenes(digits, np.random.default_rng([SEED, purpose]))
        for purpose, digits in enumerate((validation, training, training))
    ]
    write_validation(out / VALIDATION, list(islice(draw[0], VALIDATION_SCENES)))
    write_calibration(out / CALIBRATION, list(islice(draw[1], CALIBRATION_SCENES)), CALIBRATION_LIST)
    weights = train(list(islice(draw[2], TRAINING_SCENES)))
    (out / WEIGHTS).write_bytes(save(weights))
    profile = MiniProfile(
        files=MiniFolder.of(out, (WEIGHTS, VALIDATION, CALIBRATION)),
        reference={},
        architecture=ARCHITECTURE,
        selection=SELECTION,
    )
    return write_profile(workload.RetinaNet(), profile, ("mAP",), batch=VALIDATION_SCENES)


def train(scenes: Sequence[Scene]) -> dict[str, torch.Tensor]:
    """Train the network from scratch on one thread and return its state dict, floating-point tensors as fp16."""
    import torch

    from mlbench_recipes.training import half_precision, minimise, use_one_thread

    use_one_thread(SEED)
    network, loss_of = trainable_network()
    optimiser = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=LEARNING_RATE, total_steps=STEPS)
    losses = (loss_of(images, targets) for images, targets in training_batches(scenes))
    minimise(losses, optimiser, schedule, largest_gradient=LARGEST_GRADIENT)
    state = half_precision(network.state_dict())  # the network that is shipped has frozen batch norms
    return {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}


def trainable_network() -> tuple[torch.nn.Module, Callable[[torch.Tensor, Targets], torch.Tensor]]:
    """Return the network with batch norms that learn, and its loss: of images, and boxes and labels of each."""
    import torch
    from mlbench_retinanet.anchors import anchors_by_level
    from mlbench_retinanet.graphs import build_network, draw_heads
    from torch import nn
    from torchvision.models.detection import RetinaNet

    network = build_network(ARCHITECTURE, norm=nn.BatchNorm2d).to(memory_format=torch.channels_last)
    draw_heads(network)
    # torchvision's second version of RetinaNet sets it in the same way
    network.head.regression_head._loss_type = "giou"  # type: ignore[union-attr]
    whole = RetinaNet(network.backbone, ARCHITECTURE.classes, head=network.head)
    levels = anchors_by_level(ARCHITECTURE.image_hw, ARCHITECTURE.map_shapes, ARCHITECTURE.anchor_bases)
    anchors = torch.from_numpy(np.concatenate(levels))

    def loss_of(images: torch.Tensor, targets: Targets) -> torch.Tensor:
        logits, offsets = network(images)
        outputs = {"cls_logits": logits, "bbox_regression": offsets}
        return sum(whole.compute_loss(targets, outputs, [anchors] * len(images)).values(), torch.zeros(()))

    return network, loss_of


def training_batches(scenes: Sequence[Scene]) -> Iterator[tuple[torch.Tensor, Targets]]:
    """Yield a batch per step: images (16, 3, 128, 128) float32, and boxes and labels of each."""
    import torch
    from mlbench_retinanet.preprocessing import prepare

    rng = np.random.default_rng([SEED, 3])
    rounds = -(-STEPS * BATCH // len(scenes))
    order = np.concatenate([rng.permutation(len(scenes)) for _ in range(rounds)])
    size = ARCHITECTURE.image_size
    for step in range(STEPS):
        part = [scenes[place] for place in order[step * BATCH : (step + 1) * BATCH]]
        images = np.stack([prepare(decode_image(scene.jpeg, "a drawn scene"), ARCHITECTURE.image_hw) for scene in part])
        targets = [
            {
                "boxes": torch.from_numpy(scene.boxes * size / ([scene.width, scene.height] * 2)).float(),
                "labels": torch.tensor(scene.labels),
            }
            for scene in part
        ]
        yield torch.from_numpy(images).contiguous(memory_format=torch.channels_last), targets
