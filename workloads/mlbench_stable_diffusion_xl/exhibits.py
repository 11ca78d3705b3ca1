"""Images as files: the ten that a submission must show, and a sheet of small ones for the eye.

Source: MLPerf Inference v4.1, text_to_image/tools/accuracy_coco.py and tools/submission/submission_checker.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

SUBMISSION_SEED, SUBMISSION_IMAGES = 633994880, 10

SHEET_COLUMNS, SHEET_IMAGES = 10, 100
TILE = 96
"""Pixels along each side."""


def submission_indices(count: int) -> list[int]:
    """Return which of so many samples a submission shows: of 5,000 the official ones, 4655, 2569, 1303 and so on."""
    drawn = np.random.RandomState(SUBMISSION_SEED).choice(count, SUBMISSION_IMAGES)
    return [int(index) for index in drawn]


def write_submission_images(
    images: Iterable[tuple[int, np.ndarray]], captions: Sequence[str], folder: Path, shown: Sequence[int] = ()
) -> None:
    """Write ``<index>.png`` of the ten samples, and captions.txt with a line for each.

    Args:
        images: with their indices.
        captions: of all samples.
        folder: to write to.
        shown: the samples, as the round names them; others where it names none, or the set is smaller.
    """
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    are_there = shown and max(shown) < len(captions)
    wanted = [*shown] if are_there else submission_indices(len(captions))
    found = ((index, image) for index, image in images if index in wanted)
    for index, image in islice(found, len(set(wanted))):  # no further: the log of 5,000 images has 31 GB
        Image.fromarray(image).save(folder / f"{index}.png")
    lines = [f"{index}  {captions[index]}\n" for index in wanted]
    (folder / "captions.txt").write_text("".join(lines), encoding="utf-8")


def write_contact_sheet(images: Iterable[tuple[int, np.ndarray]], path: Path) -> None:
    """Write the first hundred images, as they come, ten to a row."""
    from PIL import Image

    tiles = [Image.fromarray(image).resize((TILE, TILE)) for _, image in islice(images, SHEET_IMAGES)]
    rows = -(-len(tiles) // SHEET_COLUMNS)
    sheet = Image.new("RGB", (SHEET_COLUMNS * TILE, rows * TILE))
    for place, tile in enumerate(tiles):
        sheet.paste(tile, (place % SHEET_COLUMNS * TILE, place // SHEET_COLUMNS * TILE))
    sheet.save(path)
