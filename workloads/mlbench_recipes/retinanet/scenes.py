"""The mini data: scenes with handwritten digits on them, and where each digit is.

Real digits (scikit-learn's copy of the UCI test set, 8x8 pixels) are drawn at several sizes on a textured ground. Those
in a warm ink are to be found; those in a cool ink are not, so that channel order matters.
"""

from __future__ import annotations

import colorsys
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mlbench_retinanet.dataset import ANNOTATIONS

from mlbench_recipes.archives import write_archive
from mlbench_recipes.handwritten_digits import Digits

SMALLEST_SIDE, LARGEST_SIDE = 104, 167
LOWEST_DIGIT, HIGHEST_DIGIT = 20, 60
"""Pixels."""
MOST_WANTED, MOST_DISTRACTORS = 6, 2
PLACES_TRIED = 20
INKED = 0.35
"""How much ink a pixel of a digit's box has at least, where the box ends."""
JPEG_QUALITY = 90


@dataclass(frozen=True, slots=True)
class Scene:
    """One image of the mini data, and what is to be found in it."""

    jpeg: bytes
    height: int
    width: int
    boxes: np.ndarray
    """(N, 4) float: x1, y1, x2, y2 in pixels."""
    labels: list[int]


def draw_scenes(digits: Digits, rng: np.random.Generator) -> Iterator[Scene]:
    """Yield scenes for ever, going round the digits."""
    import cv2

    source = 0
    while True:
        height, width = rng.integers(SMALLEST_SIDE, LARGEST_SIDE + 1, 2).tolist()
        image = _ground(height, width, rng)
        taken: list[np.ndarray] = []
        labels = []
        wanted = int(rng.integers(1, MOST_WANTED + 1))
        for number in range(wanted + int(rng.integers(MOST_DISTRACTORS + 1))):
            cover, box = _free_place(digits.pixels[source], (height, width), taken, rng)
            if box is not None:
                taken.append(box)
                image = draw_ink(image, cover, is_cool=number >= wanted, rng=rng)
                labels += [int(digits.labels[source])] * (number < wanted)
            source = (source + 1) % len(digits)
        image += rng.normal(0, rng.uniform(0, 0.06), image.shape)
        bgr = (image[..., ::-1].clip(0, 1) * 255).round().astype(np.uint8)
        jpeg = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1].tobytes()
        yield Scene(jpeg, height, width, np.array(taken[: len(labels)]), labels)


def draw_ink(image: np.ndarray, cover: np.ndarray, *, is_cool: bool, rng: np.random.Generator) -> np.ndarray:
    """Return (H, W, 3) in 0 .. 1, RGB: the image with a warm or cool ink where ``cover``, (H, W), says."""
    hue = rng.uniform(0.52, 0.70) if is_cool else rng.uniform(-0.06, 0.10)
    ink = np.array(colorsys.hsv_to_rgb(hue % 1, rng.uniform(0.55, 1), rng.uniform(0.65, 1)))
    drawn: np.ndarray = image + (ink - image) * cover[..., np.newaxis]
    return drawn


def _free_place(
    digit: np.ndarray, image_hw: tuple[int, int], taken: Sequence[np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return where a digit's ink goes, (H, W) in 0 .. 1, and its box; no box when no free place was found."""
    for _ in range(PLACES_TRIED):
        cover = _place_digit(digit, image_hw, rng)
        rows, columns = (np.flatnonzero((cover > INKED).any(axis=axis)) for axis in (1, 0))
        box = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], dtype=float)
        is_whole = (box[:2] > 0).all() and (box[2:] < image_hw[::-1]).all()
        if is_whole and all((box[:2] >= other[2:]).any() or (box[2:] <= other[:2]).any() for other in taken):
            return cover, box
    return cover, None


def _place_digit(digit: np.ndarray, image_hw: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Return (H, W) in 0 .. 1: the digit 20 to 60 pixels high, stretched and turned a little, wholly in the image."""
    import cv2

    high = np.exp(rng.uniform(np.log(LOWEST_DIGIT), np.log(HIGHEST_DIGIT)))
    scale = np.diag([high * rng.uniform(0.8, 1.2), high]) / len(digit)
    angle = np.deg2rad(rng.uniform(-12, 12))
    shape = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ scale
    height, width = image_hw
    middle = rng.uniform(high / 2, [width - high / 2, height - high / 2])
    shift = middle - shape @ np.full(2, (len(digit) - 1) / 2)
    placed: np.ndarray = cv2.warpAffine(digit, np.column_stack([shape, shift]), (width, height), flags=cv2.INTER_CUBIC)
    return placed.clip(0, 1)


def _ground(height: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """Return (H, W, 3): a dark gradient between four colours, with a coarse texture."""
    import cv2

    gradient = cv2.resize(rng.uniform(0.05, 0.45, (2, 2, 3)), (width, height), interpolation=cv2.INTER_LINEAR)
    texture = cv2.resize(rng.uniform(-1, 1, (12, 12)), (width, height), interpolation=cv2.INTER_CUBIC)
    return gradient + rng.uniform(0, 0.08) * texture[..., np.newaxis]


def write_validation(path: Path, scenes: Sequence[Scene]) -> None:
    """Store scenes in a zip archive in the official layout, the same bytes each time."""
    document = {
        "info": {"description": "handwritten digits in scenes"},
        "categories": [{"id": digit, "name": str(digit)} for digit in range(10)],
        "images": [
            {"id": number, "file_name": file_name(number), "height": scene.height, "width": scene.width}
            for number, scene in enumerate(scenes, start=1)
        ],
        "annotations": list(_annotations(scenes)),
    }
    files = {f"validation/data/{file_name(number)}": scene.jpeg for number, scene in enumerate(scenes, start=1)}
    write_archive(path, {ANNOTATIONS: json.dumps(document, indent=0).encode(), **files})


def write_calibration(path: Path, scenes: Sequence[Scene], list_name: str) -> None:
    """Store the images of scenes and a list of their names in a zip archive, the same bytes each time."""
    files = {file_name(number): scene.jpeg for number, scene in enumerate(scenes, start=1)}
    listing = "".join(f"{name}\n" for name in files).encode()
    write_archive(path, {list_name: listing, **{f"train/data/{name}": jpeg for name, jpeg in files.items()}})


def file_name(number: int) -> str:
    """Return an image's name: 16 hexadecimal digits, as OpenImages has them."""
    return f"{number:016x}.jpg"


def _annotations(scenes: Sequence[Scene]) -> Iterator[dict[str, object]]:
    found = (
        (image, box, label)
        for image, scene in enumerate(scenes, start=1)
        for box, label in zip(scene.boxes.tolist(), scene.labels, strict=True)
    )
    for number, (image, (left, top, right, bottom), label) in enumerate(found, start=1):
        yield {
            "id": number,
            "image_id": image,
            "category_id": label,
            "bbox": [left, top, right - left, bottom - top],
            "area": (right - left) * (bottom - top),
            "iscrowd": 0,
        }
