"""Makes the mini profile: draws the scans, trains the small network, measures it and writes the files of `mini/`.

    python -m mlbench_unet3d.recipe --out mini

One CPU thread, about a quarter of an hour. No scan serves two purposes: each is drawn from a seed of its own.
"""

from __future__ import annotations

import argparse
import gzip
import logging
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench_unet3d.graphs import Architecture
from mlbench_unet3d.kits19 import CASES, IMAGE, LABEL
from mlbench_unet3d.phantoms import draw_scan
from mlbench_unet3d.preprocessing import TUMOUR, Grid, Scan, prepare_case

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
    from safetensors.torch import save

    from mlbench.toolkit import MiniFolder, write_mini
    from mlbench_unet3d import mini_profile

    out.mkdir(parents=True, exist_ok=True)
    validation = dict(zip(CASES, scans(VALIDATION, VALIDATION_SCANS), strict=False))
    calibration = dict(zip(CASES[VALIDATION_SCANS:], scans(CALIBRATION, CALIBRATION_SCANS), strict=False))
    write_archive(out / mini_profile.VALIDATION, validation)
    write_archive(out / mini_profile.CALIBRATION, calibration, list_name=mini_profile.CALIBRATION_LIST)
    (out / mini_profile.WEIGHTS).write_bytes(save(dict(train())))
    profile = mini_profile.MiniProfile(
        files=MiniFolder.of(out, (mini_profile.WEIGHTS, mini_profile.VALIDATION, mini_profile.CALIBRATION)),
        reference_dice=0,
        reference_kidney=0,
        reference_tumour=0,
        spacing=SPACING,
        cases=tuple(validation),
        architecture=ARCHITECTURE,
    )
    scores = reference_scores(profile)
    profile = replace(
        profile,
        reference_dice=scores["dice"],
        reference_kidney=scores["kidney"],
        reference_tumour=scores["tumor"],
    )
    write_mini(profile, recipe="mlbench_unet3d.recipe")
    return profile


def scans(purpose: int, count: int) -> Iterator[Scan]:
    """Yield scans drawn for a purpose, the same ones each time."""
    for number in range(count):
        yield draw_scan(np.random.default_rng([SEED, purpose, number]))


def write_archive(path: Path, cases: Mapping[str, Scan], list_name: str = "") -> None:
    """Store scans, and a list of them if it has a name, in a zip archive: the same bytes each time."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        if list_name:
            archive.writestr(zipfile.ZipInfo(list_name), "".join(f"{name}\n" for name in cases))
        for name, scan in cases.items():
            for file, volume in ((IMAGE, scan.image.astype(np.int16)), (LABEL, scan.label)):
                archive.writestr(zipfile.ZipInfo(f"{name}/{file}"), nifti_gz(volume, scan.spacing))


def nifti_gz(volume: np.ndarray, spacing: Sequence[float]) -> bytes:
    """Return a volume as the bytes of a .nii.gz file; its axes go down, back and left, as KiTS19's do."""
    import nibabel

    affine = np.zeros((4, 4))
    affine[[2, 1, 0], [0, 1, 2]] = [-step for step in spacing]
    affine[3, 3] = 1
    return gzip.compress(nibabel.Nifti1Image(volume, affine).to_bytes(), mtime=0)


def train() -> Mapping[str, torch.Tensor]:
    """Train the network from scratch on one thread and return its state dict, fp16."""
    import torch
    from torch.nn.functional import cross_entropy

    from mlbench_unet3d.graphs import build_network

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    network = build_network(ARCHITECTURE).to(memory_format=torch.channels_last_3d)
    optimiser = torch.optim.AdamW(network.parameters(), lr=PEAK_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=PEAK_RATE, total_steps=STEPS)
    weights = torch.tensor(CLASS_WEIGHTS)
    for step, (images, labels) in enumerate(training_batches()):
        logits = network(images)
        loss = cross_entropy(logits, labels, weight=weights) + soft_dice_loss(logits, labels)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), LARGEST_GRADIENT)
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            logger.info("step %d of %d: loss %.3f", step, STEPS, loss.item())
    return {name: tensor.half().contiguous() for name, tensor in network.state_dict().items()}


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


def reference_scores(profile: MiniProfile) -> Mapping[str, float]:
    """Return the official scores of a profile's weights in torch, fp32, a window at a time."""
    import torch

    from mlbench import LoggedReply, Weights
    from mlbench_unet3d.accuracy import Dice
    from mlbench_unet3d.program import segmentation

    dataset, graph = profile.dataset(), profile.graph(Weights.TRAINED)
    program, module = segmentation(graph, windows_per_call=1), graph.module()
    (image,), (logits,) = graph.inputs, graph.outputs

    def segmenter(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        with torch.inference_mode():
            return {logits.name: module(torch.from_numpy(inputs[image.name])).numpy()}

    dataset.load(range(dataset.count))
    labels = program.run([dataset.sample(index) for index in range(dataset.count)], {graph.name: segmenter})
    replies = [LoggedReply(index=index, data=reply.tobytes()) for index, reply in enumerate(labels)]
    return Dice(dataset.label, dataset.count, reference=1).score(replies)


def main() -> None:
    """Make the mini profile in the folder of the command line."""
    parser = argparse.ArgumentParser(prog="python -m mlbench_unet3d.recipe", description="Make the mini profile.")
    parser.add_argument("--out", type=Path, required=True, help="Folder to write to; made if missing.")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    profile = make_mini_profile(parser.parse_args().out)
    logger.info("DICE %.5f", profile.reference_dice)


if __name__ == "__main__":
    main()
