"""Makes the mini profile: draws the scenes, trains the small network, measures it and writes the files of `mini/`.

python -m mlbench_retinanet.recipe --out mini
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench_retinanet.detection import Selection
from mlbench_retinanet.graphs import Architecture
from mlbench_retinanet.scenes import (
    SEED,
    Scene,
    draw_scenes,
    validation_and_training_digits,
    write_calibration,
    write_validation,
)

if TYPE_CHECKING:
    import torch

    from mlbench_retinanet.mini_profile import MiniProfile

logger = logging.getLogger(__name__)

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
    from safetensors.torch import save

    from mlbench.toolkit import MiniFolder, write_mini
    from mlbench_retinanet.mini_profile import CALIBRATION, CALIBRATION_LIST, VALIDATION, WEIGHTS, MiniProfile

    out.mkdir(parents=True, exist_ok=True)
    validation, training = validation_and_training_digits()
    draw = [
        draw_scenes(digits, np.random.default_rng([SEED, purpose]))
        for purpose, digits in enumerate((validation, training, training))
    ]
    write_validation(out / VALIDATION, list(islice(draw[0], VALIDATION_SCENES)))
    write_calibration(out / CALIBRATION, list(islice(draw[1], CALIBRATION_SCENES)), CALIBRATION_LIST)
    weights = train(list(islice(draw[2], TRAINING_SCENES)))
    (out / WEIGHTS).write_bytes(save(dict(weights)))
    profile = MiniProfile(
        files=MiniFolder.of(out, (WEIGHTS, VALIDATION, CALIBRATION)),
        reference_map=0,
        architecture=ARCHITECTURE,
        selection=SELECTION,
    )
    profile = replace(profile, reference_map=measure(profile))
    write_mini(profile, recipe="mlbench_retinanet.recipe")
    return profile


def train(scenes: Sequence[Scene]) -> Mapping[str, torch.Tensor]:
    """Train the network from scratch on one thread and return its state dict, floating-point tensors as fp16."""
    import torch
    from torch import nn

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    network, loss_of = trainable_network()
    optimiser = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=LEARNING_RATE, total_steps=STEPS)
    for step, (images, targets) in enumerate(training_batches(scenes)):
        loss = loss_of(images, targets)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), LARGEST_GRADIENT)
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            logger.info("step %d of %d: loss %.3f", step, STEPS, loss.item())
    return {
        name: tensor.half().contiguous()
        for name, tensor in network.state_dict().items()
        if not name.endswith("num_batches_tracked")  # the network that is shipped has frozen batch norms
    }


def trainable_network() -> tuple[torch.nn.Module, Callable[[torch.Tensor, Targets], torch.Tensor]]:
    """Return the network with batch norms that learn, and its loss: of images, and boxes and labels of each."""
    import torch
    from torch import nn
    from torchvision.models.detection import RetinaNet

    from mlbench_retinanet.anchors import anchors_by_level
    from mlbench_retinanet.graphs import build_network, draw_heads

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

    from mlbench_retinanet.preprocessing import decode, prepare

    rng = np.random.default_rng([SEED, 3])
    rounds = -(-STEPS * BATCH // len(scenes))
    order = np.concatenate([rng.permutation(len(scenes)) for _ in range(rounds)])
    size = ARCHITECTURE.image_size
    for step in range(STEPS):
        part = [scenes[place] for place in order[step * BATCH : (step + 1) * BATCH]]
        images = np.stack([prepare(decode(scene.jpeg, "a drawn scene"), ARCHITECTURE.image_hw) for scene in part])
        targets = [
            {
                "boxes": torch.from_numpy(scene.boxes * size / ([scene.width, scene.height] * 2)).float(),
                "labels": torch.tensor(scene.labels),
            }
            for scene in part
        ]
        yield torch.from_numpy(images).contiguous(memory_format=torch.channels_last), targets


def measure(profile: MiniProfile) -> float:
    """Return mAP in percent of the torch module over the validation scenes, fp32."""
    import torch

    from mlbench import LoggedReply, Weights
    from mlbench_retinanet.accuracy import MeanAveragePrecision
    from mlbench_retinanet.graphs import IMAGE, LOGITS, OFFSETS

    dataset = profile.dataset()
    dataset.load(range(dataset.count))
    module = profile.graph(Weights.TRAINED).module()

    def detector(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        with torch.inference_mode():
            outputs = module(torch.from_numpy(inputs[IMAGE]))
        return {name: output.numpy() for name, output in zip((LOGITS, OFFSETS), outputs, strict=True)}

    samples = [dataset.sample(index) for index in range(dataset.count)]
    rows = profile.program.run(samples, {"detector": detector})
    replies = [LoggedReply(index=index, data=reply.tobytes()) for index, reply in enumerate(rows)]
    assert dataset.annotations is not None
    return MeanAveragePrecision(dataset.annotations, reference=100).score(replies)["mAP"]


def main() -> None:
    """Make the mini profile in the folder of the command line."""
    parser = argparse.ArgumentParser(prog="python -m mlbench_retinanet.recipe", description="Make the mini profile.")
    parser.add_argument("--out", type=Path, required=True, help="Folder to write to; made if missing.")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    profile = make_mini_profile(parser.parse_args().out)
    logger.info("mAP %.3f %%", profile.reference_map)


if __name__ == "__main__":
    main()
