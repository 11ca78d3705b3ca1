"""Makes the mini profile: draws the images, trains the small network, measures it and writes the files of `mini/`.

    python -m mlbench_recipes resnet50 --out mini

Real handwritten digits (scikit-learn's copy of the UCI test set, 8x8 pixels) are drawn large, turned and sheared, in a
warm or a cool ink on a textured ground. There are 20 classes, digit + 10 for cool ink, so that shape, orientation and
channel order all matter. No digit serves both training and validation.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from mlbench_resnet50.workload import ResNet50

from mlbench.toolkit import MiniFolder, decode_image
from mlbench_recipes.archives import write_archive
from mlbench_recipes.handwritten_digits import SEED, VALIDATION_SOURCES, Digits, validation_and_training_digits

if TYPE_CHECKING:
    import torch
    from mlbench_resnet50.graphs import Architecture
    from mlbench_resnet50.mini_profile import MiniProfile

CALIBRATION_IMAGES = 120
TRAINING_IMAGES = 20_000
CANVAS = 72
CROP = 64
JPEG_QUALITY = 92

STEPS = 2_400
BATCH = 64
LEARNING_RATE = 4e-3
WEIGHT_DECAY = 0.05
LABEL_SMOOTHING = 0.05

PLANES = 8
CLASSES = 20


def make_mini_profile(out: Path) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    from mlbench_resnet50.dataset import LABEL_LIST
    from mlbench_resnet50.graphs import Architecture
    from mlbench_resnet50.mini_profile import CALIBRATION, CALIBRATION_LIST, FILES, VALIDATION, WEIGHTS, MiniProfile
    from safetensors.torch import save

    from mlbench_recipes.reference_scores import write_profile

    validation, training = validation_and_training_digits()
    rngs = [np.random.default_rng([SEED, purpose]) for purpose in range(3)]
    pictures = list(draw_pictures(validation, len(validation), rngs[0]))
    write_pictures(out / VALIDATION, pictures, prefix="digits_val", list_name=LABEL_LIST)
    pictures = list(draw_pictures(training, CALIBRATION_IMAGES, rngs[1]))
    write_pictures(out / CALIBRATION, pictures, prefix="digits_train", list_name=CALIBRATION_LIST)
    architecture = Architecture(planes=PLANES, classes=CLASSES, image_size=CROP)
    weights = train(list(draw_pictures(training, TRAINING_IMAGES, rngs[2])), architecture)
    (out / WEIGHTS).write_bytes(save(weights))
    profile = MiniProfile(
        files=MiniFolder.of(out, FILES),
        planes=PLANES,
        classes=CLASSES,
        stored_size=CANVAS,
        image_size=CROP,
        reference={},
    )
    return write_profile(ResNet50(), profile, ("acc",), batch=VALIDATION_SOURCES)


@dataclass(frozen=True, slots=True)
class Picture:
    """One image of the mini data: a JPEG file and its class."""

    jpeg: bytes
    label: int


def draw_pictures(digits: Digits, count: int, rng: np.random.Generator) -> Iterator[Picture]:
    """Yield ``count`` pictures, going round the digits."""
    import cv2

    for position in range(count):
        source = position % len(digits)
        is_cool = bool(rng.integers(2))
        image = draw_image(digits.pixels[source], is_cool, rng)
        bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
        jpeg = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1].tobytes()
        yield Picture(jpeg, int(digits.labels[source]) + 10 * is_cool)


def draw_image(digit: np.ndarray, is_cool: bool, rng: np.random.Generator) -> np.ndarray:
    """Return (72, 72, 3) uint8 RGB: the digit in a warm or cool ink on a textured ground."""
    cover = _place(digit, rng)[..., np.newaxis]
    hue = rng.uniform(0.52, 0.70) if is_cool else rng.uniform(-0.06, 0.10)
    ink = np.array(colorsys.hsv_to_rgb(hue % 1, rng.uniform(0.55, 1), rng.uniform(0.65, 1)))
    image: np.ndarray = _ground(rng) * (1 - cover) + ink * cover
    image += rng.normal(0, rng.uniform(0, 0.06), image.shape)
    return (image.clip(0, 1) * 255).round().astype(np.uint8)


def _place(digit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return (72, 72) in 0 .. 1: the digit 36 to 55 pixels large, turned, sheared and moved a little."""
    import cv2

    scale = rng.uniform(36, 55) / len(digit)
    angle = np.deg2rad(rng.uniform(-15, 15))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    shape = turn @ np.array([[1, rng.uniform(-0.2, 0.2)], [0, 1]]) * scale
    middle = (CANVAS - 1) / 2 + rng.uniform(-8, 8, 2)
    shift = middle - shape @ np.full(2, (len(digit) - 1) / 2)
    placed: np.ndarray = cv2.warpAffine(digit, np.column_stack([shape, shift]), (CANVAS, CANVAS), flags=cv2.INTER_CUBIC)
    return placed.clip(0, 1)


def _ground(rng: np.random.Generator) -> np.ndarray:
    """Return (72, 72, 3): a dark gradient between four colours, with a coarse texture."""
    import cv2

    size = (CANVAS, CANVAS)
    gradient = cv2.resize(rng.uniform(0.05, 0.45, (2, 2, 3)), size, interpolation=cv2.INTER_LINEAR)
    texture = cv2.resize(rng.uniform(-1, 1, (12, 12)), size, interpolation=cv2.INTER_CUBIC)
    return gradient + rng.uniform(0, 0.08) * texture[..., np.newaxis]


def train(pictures: Sequence[Picture], architecture: Architecture) -> dict[str, torch.Tensor]:
    """Train the network from scratch on one thread and return its state dict, floating-point tensors as fp16."""
    import torch
    from mlbench_resnet50.graphs import build_network
    from torch.nn.functional import cross_entropy

    from mlbench_recipes.training import half_precision, minimise, use_one_thread

    use_one_thread(SEED)
    network = build_network(architecture).to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=LEARNING_RATE, total_steps=STEPS)
    losses = (
        cross_entropy(network(images), labels, label_smoothing=LABEL_SMOOTHING)
        for images, labels in training_batches(pictures)
    )
    minimise(losses, optimiser, schedule)
    return half_precision(network.state_dict())


def training_batches(pictures: Sequence[Picture]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield a batch per step: normalised random crops (64, 3, 64, 64) float32, and labels (64,) int64."""
    import torch
    from mlbench_resnet50.preprocessing import TORCHVISION_MEAN, TORCHVISION_STD

    rng = np.random.default_rng(SEED + 1)
    images = np.stack([decode_image(picture.jpeg, "a drawn picture") for picture in pictures])  # (N, 72, 72, 3)
    labels = np.array([picture.label for picture in pictures])
    for _ in range(STEPS):
        chosen = rng.integers(len(images), size=BATCH)
        corners = rng.integers(CANVAS - CROP + 1, size=(BATCH, 2))
        crops = np.stack(
            [images[i, top : top + CROP, left : left + CROP] for i, (top, left) in zip(chosen, corners, strict=True)]
        )
        batch = (crops.astype(np.float32) / 255 - TORCHVISION_MEAN) / TORCHVISION_STD
        yield torch.from_numpy(batch).permute(0, 3, 1, 2), torch.from_numpy(labels[chosen])


def write_pictures(path: Path, pictures: Sequence[Picture], *, prefix: str, list_name: str) -> None:
    """Store pictures and their ``<file name> <label>`` list in a zip archive, the same bytes each time."""
    names = [f"{prefix}_{number:08d}.JPEG" for number in range(1, len(pictures) + 1)]
    lines = [f"{name} {picture.label}\n" for name, picture in zip(names, pictures, strict=True)]
    files = {name: picture.jpeg for name, picture in zip(names, pictures, strict=True)}
    write_archive(path, {list_name: "".join(lines).encode(), **files})
