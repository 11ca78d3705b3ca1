"""OpenImages' validation subset, or images like it, prepared for the network when LoadGen asks."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlbench import DataError
from mlbench.toolkit import (
    DATA_BYTES,
    LoadedSamples,
    foreign,
    read_bytes,
    read_image,
    read_json,
    read_text,
    stack_images,
)
from mlbench_retinanet.preprocessing import prepare
from mlbench_retinanet.program import PreparedImage

PERFORMANCE_COUNT = 64
"""Source: MLPerf Inference v4.1, mlperf.conf: retinanet.*.performance_sample_count_override."""

ANNOTATIONS = "annotations/openimages-mlperf.json"
"""Where the official downloader writes it; the loader looks for it there too."""

RANDOM_SEED = 0

_LARGEST_NUMBER = 1e12


class PreparedImages(LoadedSamples[PreparedImage]):
    """Images held ready for the network in blocks of memory: (3, height, width) float32 each."""

    def __init__(
        self,
        image: Callable[[int], np.ndarray],
        *,
        count: int,
        image_hw: tuple[int, int],
        fingerprint: str,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the source of images.

        Args:
            image: returns the image of an index; called from several threads.
            count: how many there are.
            image_hw: their height and width, pixels.
            fingerprint: a hash of the images and of what is to be found in them.
            annotations: what is to be found, in COCO form; the sample with index i is its i-th image.
        """
        super().__init__(count=count, performance_count=PERFORMANCE_COUNT, fingerprint=fingerprint)
        self.annotations = annotations
        self._image = image
        self._image_hw = image_hw

    def make(self, indices: Sequence[int]) -> list[PreparedImage]:
        """Decode and prepare these images; raises `DataError` for a file that is missing or corrupt."""
        return list(map(PreparedImage, indices, stack_images(self._image, indices, (3, *self._image_hw))))


def open_images(folder: Path, *, image_hw: tuple[int, int], classes: int) -> PreparedImages:
    """Open a folder in the official layout: the annotation file, and the images it lists, in its order.

    Raises:
        DataError: the annotation file is missing or malformed, or an image it lists is missing.
    """
    path = folder / ANNOTATIONS
    annotations = read_annotations(path, classes)
    files = locate_images([image["file_name"] for image in annotations["images"]], folder, split="validation")

    def image(index: int) -> np.ndarray:
        return prepare(read_image(files[index]), image_hw)

    return PreparedImages(
        image,
        count=len(files),
        image_hw=image_hw,
        fingerprint=_folder_fingerprint(path, files),
        annotations=annotations,
    )


def random_images(image_hw: tuple[int, int]) -> PreparedImages:
    """Return seeded noise in the shape of prepared images, in which nothing is to be found; no file is read."""

    def image(index: int) -> np.ndarray:
        return np.random.default_rng((RANDOM_SEED, index)).random((3, *image_hw), dtype=np.float32)

    height, width = image_hw
    fingerprint = f"uniform-seed{RANDOM_SEED}-{height}x{width}"
    return PreparedImages(image, count=PERFORMANCE_COUNT, image_hw=image_hw, fingerprint=fingerprint)


def calibration_inputs(
    list_file: Path, folder: Path, *, image_hw: tuple[int, int], tensor: str
) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield the images of a calibration list as the network's input ``tensor``, (1, 3, height, width) float32 each.

    Raises:
        DataError: the list or an image it names is missing or corrupt.
    """
    names = read_text(list_file, what="calibration list", missing_hint="It belongs to the official data.").split()
    if not names:
        raise DataError(f"calibration list is empty: {list_file}.")
    for file in locate_images(names, folder, split="train"):
        yield {tensor: prepare(read_image(file), image_hw)[np.newaxis]}


def read_annotations(path: Path, classes: int) -> Mapping[str, Any]:
    """Return an annotation file in COCO form.

    Raises:
        DataError: it is missing, no JSON, or lacks something that the images or the score need; names what.
    """
    document: Any = read_json(
        path, what="annotation file", missing_hint="It belongs to the official data.", limit_bytes=DATA_BYTES
    )
    for part in ("images", "annotations", "categories"):
        if not isinstance(document, dict) or not isinstance(document.get(part), list) or not document[part]:
            raise DataError(
                f"annotation file has no {part}: {path}.", hint="Expected OpenImages' annotations in COCO form."
            )
    _check_entries(document, path, classes)
    return dict(document)


def locate_images(names: Sequence[str], folder: Path, *, split: str) -> list[Path]:
    """Return where these image files lie: in the folder, or in ``<split>/data`` below, as the downloader puts them.

    Raises:
        DataError: one is in neither place. The reference would pass over it and shift every later sample.
    """
    places = (folder, folder / split / "data")
    files = [next((place / name for place in places if os.path.isfile(place / name)), None) for name in names]
    missing = [name for name, file in zip(names, files, strict=True) if file is None]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(names)} images are missing in {folder} and its {split}/data, first {missing[0]}.",
            hint="Download the data again.",
        )
    return [file for file in files if file is not None]


def _check_entries(document: Mapping[str, Any], path: Path, classes: int) -> None:
    """Raise `DataError` for an image without name or size, and for a box of an unknown image or class."""
    with foreign("annotation file is malformed:", str(path), path=path):
        for number, image in enumerate(document["images"]):
            has_size = all(_is_number(image[name]) and image[name] > 0 for name in ("height", "width"))
            if not (isinstance(image["file_name"], str) and has_size):
                raise DataError(f"image {number} of {path} has no name or no size.")
            if type(image["id"]) is not int:
                raise DataError(f"image {number} of {path} has no whole number as its id.")
        images = {image["id"] for image in document["images"]}
        _check_listed_once([image["id"] for image in document["images"]], "image id", path)
        _check_listed_once([image["file_name"] for image in document["images"]], "image", path)
        categories = {category["id"] for category in document["categories"]}
        if not categories <= set(range(classes)):
            raise DataError(
                f"{path} has categories other than 0 to {classes - 1}.", hint="Expected the annotations of release 2.1."
            )
        for number, box in enumerate(document["annotations"]):
            x, y, width, height = box["bbox"]
            is_known = box["image_id"] in images and box["category_id"] in categories
            if not is_known or not all(map(_is_number, (x, y, width, height, box["area"], box["iscrowd"]))):
                raise DataError(f"annotation {number} of {path} is of an unknown image or category, or has no box.")


def _check_listed_once(names: Sequence[object], what: str, path: Path) -> None:
    """Raise `DataError` for a name that is listed twice: its sample would be two."""
    if len(names) > len(set(names)):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise DataError(f"{path} lists {what} {twice} a second time.", hint="Download it again.")


def _is_number(value: Any) -> bool:
    """Return whether a value is one that a float holds."""
    return isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER


def _folder_fingerprint(annotations: Path, files: Sequence[Path]) -> str:
    """Hash the annotations, and names and sizes of the images; the contents of 24,781 would take minutes."""
    digest = hashlib.sha256(read_bytes(annotations, what="annotation file", limit_bytes=DATA_BYTES))
    for file in files:
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
    return digest.hexdigest()
