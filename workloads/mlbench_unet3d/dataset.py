"""Prepared cases, each kept in the cache and mapped into memory, or random volumes of like shapes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np

from mlbench import Dataset, __version__
from mlbench.toolkit import LoadedSamples, build_once, file_sha256
from mlbench_unet3d.kits19 import IMAGE, LABEL, case_folders, read_case, read_case_list
from mlbench_unet3d.preprocessing import DARKEST, LIGHTEST, Grid, normalise, prepare_case
from mlbench_unet3d.sliding_window import window_starts

PREPARED_IMAGE, PREPARED_LABEL, CHECKSUMS = "image.npy", "label.npy", "sha256.txt"

PREPARING_THREADS = 4
"""Each holds a scan: 3 GB for the largest."""

CALIBRATION_WINDOWS = 4
"""Windows per case, evenly spread: all windows of the 20 official cases would take a CPU hours."""

RANDOM_SHAPES = {
    (192, 256, 256): 1,
    (192, 320, 320): 9,
    (256, 320, 320): 11,
    (320, 320, 320): 10,
    (384, 320, 320): 6,
    (448, 384, 384): 4,
    (512, 320, 320): 2,
}
"""How often each shape comes: 43 volumes of 32.8 million voxels on average, where the official ones have 32.9."""

RANDOM_SEED = 0

_CHUNK_BYTES = 1 << 24


class PreparedCases(LoadedSamples[np.ndarray]):
    """Cases on the network's grid; a sample is (D, H, W) float32, mapped from its file."""

    def __init__(self, data: Path, names: Sequence[str], grid: Grid) -> None:
        """Prepare the cases that the cache does not hold; of those listed twice the files are shared.

        Args:
            data: folder with a folder for each case.
            names: of the cases, in the order of their samples.
            grid: the grid that scans are resampled to.

        Raises:
            DataError: a case is missing or damaged.
        """
        self._folders = prepare_cases(data, names, grid)
        checksums = b"".join((folder / CHECKSUMS).read_bytes() for folder in self._folders)
        super().__init__(count=len(names), fingerprint=hashlib.sha256(checksums).hexdigest())

    def make(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Map the images, and read them through once: where memory suffices, they stay in the system's file cache."""
        paths = [self._folders[index] / PREPARED_IMAGE for index in indices]
        for path in paths:
            with path.open("rb") as file:
                while file.read(_CHUNK_BYTES):
                    pass
        return [np.load(path, mmap_mode="r") for path in paths]

    def label(self, index: int) -> np.ndarray:
        """Return the right labels of a sample: (D, H, W) uint8, mapped from its file."""
        label: np.ndarray = np.load(self._folders[index] / PREPARED_LABEL, mmap_mode="r")
        return label


class RandomVolumes(Dataset):
    """Seeded noise in volumes of mixed shapes, which are all parts of one; nothing is read from disk."""

    count = performance_count = sum(RANDOM_SHAPES.values())
    fingerprint = f"uniform-seed{RANDOM_SEED}-{count}-volumes"

    def __init__(self) -> None:
        shapes = [shape for shape, count in RANDOM_SHAPES.items() for _ in range(count)]
        self._shapes = [shapes[place] for place in np.random.default_rng(RANDOM_SEED).permutation(self.count)]
        self._noise = np.empty((0, 0, 0), dtype=np.float32)

    def load(self, indices: Sequence[int]) -> None:
        """Draw the one volume, between the darkest and the lightest that prepared images have: 300 MB."""
        if not self._noise.size:
            noise = np.random.default_rng(RANDOM_SEED).random(np.max(self._shapes, axis=0), dtype=np.float32)
            noise *= np.float32(LIGHTEST - DARKEST)
            noise += np.float32(DARKEST)
            self._noise = normalise(noise)

    def unload(self, indices: Sequence[int]) -> None:
        """Do nothing: the volume serves all samples."""

    def sample(self, index: int) -> np.ndarray:
        """Return a part of the volume: (D, H, W) float32."""
        down, back, left = self._shapes[index]
        volume: np.ndarray = self._noise[:down, :back, :left]
        return volume


def calibration_inputs(list_file: Path, data: Path, grid: Grid, *, tensor: str) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield windows of the cases in a calibration list as the network's input ``tensor``: (1, 1, W, W, W) float32.

    Raises:
        DataError: the list or a case that it names is missing or damaged.
    """
    for folder in prepare_cases(data, read_case_list(list_file), grid):
        image = np.load(folder / PREPARED_IMAGE, mmap_mode="r")
        starts = window_starts(image.shape, grid.window)
        count = min(CALIBRATION_WINDOWS, len(starts))
        for place in range(count):
            window = tuple(slice(first, first + grid.window) for first in starts[place * len(starts) // count])
            yield {tensor: np.array(image[window])[np.newaxis, np.newaxis]}


def prepare_cases(data: Path, names: Sequence[str], grid: Grid) -> list[Path]:
    """Return a folder with the prepared image and label of each case, preparing those that the cache does not hold.

    Raises:
        DataError: a case is missing or damaged.
    """
    folders = case_folders(data, names)
    distinct = list(dict.fromkeys(folders))
    with ThreadPoolExecutor(PREPARING_THREADS) as threads:
        found = dict(zip(distinct, threads.map(partial(_prepare_case, grid=grid), distinct), strict=True))
    return [found[folder] for folder in folders]


def _prepare_case(folder: Path, grid: Grid) -> Path:
    files = [(folder / name).resolve() for name in (IMAGE, LABEL)]
    made_from = {
        "files": [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files],  # gigabytes to hash
        "grid": asdict(grid),
        "versions": {"mlbench": __version__} | {name: metadata.version(name) for name in ("nibabel", "scipy")},
    }

    def fill(made: Path) -> None:
        image, label = prepare_case(read_case(folder), grid)
        np.save(made / PREPARED_IMAGE, image)
        np.save(made / PREPARED_LABEL, label)
        checksums = [f"{file_sha256(made / name)}  {name}\n" for name in (PREPARED_IMAGE, PREPARED_LABEL)]
        (made / CHECKSUMS).write_text("".join(checksums), encoding="utf-8")

    return build_once("kits19", made_from, fill)
