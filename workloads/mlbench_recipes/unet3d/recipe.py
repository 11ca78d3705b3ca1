"""Makes the mini profile: draws the scans, trains the small network, measures it and writes the files of `mini/`.

    python -m mlbench_recipes unet3d --out mini

One CPU thread, about a quarter of an hour. No scan serves two purposes: each is drawn from a seed of its own.
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from mlbench_unet3d.graphs import Architecture
from mlbench_unet3d.kits19 import CASES, IMAGE, LABEL
from mlbench_unet3d.preprocessing import TUMOUR, Grid, Scan, prepare_case
from mlbench_unet3d.workload import UNet3D

from mlbench.toolkit import MiniFolder
from mlbench_recipes.archives import write_archive
from mlbench_recipes.reference_scores import write_profile
from mlbench_recipes.training import half_precision, minimise, use_one_thread
from mlbench_recipes.unet3d.phantoms import draw_scan

if TYPE_CHECKING:
    import torch
    from mlbench_unet3d.mini_profile import MiniProfile

logger = logging.getLogger(__name__)

SEED = 20240724
VALIDATION_SCANS = 12
CALIBRATION_SCANS = 4
TRAINING_SCANS = 400

VALIDATION, CALIBRATION, TRAINING = range(3)
"""What a scan is drawn for: a part of its seed."""

STEPS = 900
BATCH = 2
PEAK_RATE = 4e-3
WEIGHT_DECAY = 0.01
LARGEST_GRADIENT = 5.0
CLASS_WEIGHTS = (0.5, 1.0, 2.0)

ARCHITECTURE = Architecture(filters=(8, 16, 24, 32, 48), window=64)
SPACING = (4.8, 3.6, 3.6)
"""Three times the official one, so that the smaller window sees more of a patient."""


def make_mini_profile(out: Path) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    from mlbench_unet3d import mini_profile
    from safetensors.torch import save

    validation = dict(zip(CASES, scans(VALIDATION, VALIDATION_SCANS), strict=False))
    calibration = dict(zip(CASES[VALIDATION_SCANS:], scans(CALIBRATION, CALIBRATION_SCANS), strict=False))
    write_scans(out / mini_profile.VALIDATION, validation)
    write_scans(out / mini_profile.CALIBRATION, calibration, list_name=mini_profile.CALIBRATION_LIST)
    (out / mini_profile.WEIGHTS).write_bytes(save(train()))
    profile = mini_profile.MiniProfile(
        files=MiniFolder.of(out, (mini_profile.WEIGHTS, mini_profile.VALIDATION, mini_profile.CALIBRATION)),
        reference={},
        spacing=SPACING,
        cases=tuple(validation),
        architecture=ARCHITECTURE,
    )
    return write_profile(UNet3D(), profile, ("DICE", "kidney", "tumor"), batch=VALIDATION_SCANS)


def scans(purpose: int, count: int) -> Iterator[Scan]:
    """Yield scans drawn for a purpose, the same ones each time."""
    for number in range(count):
        yield draw_scan(np.random.default_rng([SEED, purpose, number]))


def write_scans(path: Path, cases: Mapping[str, Scan], list_name: str = "") -> None:
    """Store scans, and a list of them if it has a name, in a zip archive: the same bytes each time."""
    files = {list_name: "".join(f"{name}\n" for name in cases).encode()} if list_name else {}
    for name, scan in cases.items():
        for file, volume in ((IMAGE, scan.image.astype(np.int16)), (LABEL, scan.label)):
            files[f"{name}/{file}"] = nifti_gz(volume, scan.spacing)
    write_archive(path, files)


def nifti_gz(volume: np.ndarray, spacing: Sequence[float]) -> bytes:
    """Return a volume as the bytes of a .nii.gz file; its axes go down, back and left, as KiTS19's do."""
    import nibabel

    affine = np.zeros((4, 4))
    affine[[2, 1, 0], [0, 1, 2]] = [-step for step in spacing]
    affine[3, 3] = 1
    return gzip.compress(nibabel.Nifti1Image(volume, affine).to_bytes(), mtime=0)


def train() -> dict[str, torch.Tensor]:
    """Train the network from scratch on one thread and return its state dict, fp16."""
    import torch
    from mlbench_unet3d.graphs import build_network

    use_one_thread(SEED)
    network = build_network(ARCHITECTURE).to(memory_format=torch.channels_last_3d)
    optimiser = torch.optim.AdamW(network.parameters(), lr=PEAK_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=PEAK_RATE, total_steps=STEPS)
    weights = torch.tensor(CLASS_WEIGHTS)
    minimise(
        (_loss(network(images), labels, weights) for images, labels in training_batches()),
        optimiser,
        schedule,
        largest_gradient=LARGEST_GRADIENT,
    )
    return half_precision(network.state_dict())


def _loss(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits, labels, weight=weights) + soft_dice_loss(logits, labels)


def soft_dice_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return 1 minus the DICE of probabilities with labels over a whole batch, the mean of kidneys and tumours.

    Args:
        logits: (B, 3, W, W, W) float32.
        labels: (B, W, W, W) int64.
    """
    from torch.nn.functional import one_hot

    wanted = one_hot(labels, logits.shape[1]).movedim(-1, 1)
    probabilities = logits.softmax(dim=1)
    axes = (0, 2, 3, 4)
    shared, total = (probabilities * wanted).sum(axes), probabilities.sum(axes) + wanted.sum(axes)
    return 1 - ((2 * shared + 1) / (total + 1))[1:].mean()


def training_batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield a batch per step: windows (2, 1, 64, 64, 64) float32, and labels (2, 64, 64, 64) int64."""
    import torch

    grid = Grid(spacing=SPACING, window=ARCHITECTURE.window)
    volumes = [prepare_case(scan, grid) for scan in scans(TRAINING, TRAINING_SCANS)]
    tumours = [np.argwhere(label == TUMOUR) for _, label in volumes]
    logger.info("drew %d scans", len(volumes))
    rng = np.random.default_rng([SEED, TRAINING])
    for _ in range(STEPS):
        windows = []
        for number in rng.integers(len(volumes), size=BATCH):
            image, label = volumes[number]
            window = window_near(tumours[number], image.shape, rng)
            windows.append((image[window], label[window]))
        images, labels = (np.stack(each) for each in zip(*windows, strict=True))
        yield torch.from_numpy(images)[:, None], torch.from_numpy(labels.astype(np.int64))


def window_near(places: np.ndarray, shape: Sequence[int], rng: np.random.Generator) -> tuple[slice, ...]:
    """Return a window of a volume: half of the time around one of these places, else anywhere."""
    size = ARCHITECTURE.window
    if len(places) and rng.random() < 0.5:
        middle = places[rng.integers(len(places))] + rng.integers(-size // 4, size // 4, 3)
    else:
        middle = rng.integers(shape)
    starts = np.clip(middle - size // 2, 0, np.subtract(shape, size))
    return tuple(slice(start, start + size) for start in starts)
