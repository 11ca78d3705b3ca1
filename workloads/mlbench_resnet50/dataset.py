"""ImageNet's validation set, or images like it, prepared for the network when LoadGen asks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlbench import DataError
from mlbench.toolkit import LoadedSamples, read_image, read_text, stack_images
from mlbench_resnet50.preprocessing import pixels_for_torchvision, prepare_for_torchvision

PERFORMANCE_COUNT = 1024
"""Source: MLPerf Inference v4.1, mlperf.conf: resnet50.*.performance_sample_count_override."""

LABEL_LIST = "val_map.txt"
_MISSING = "It belongs to the official data."
_MISSING_LABELS = (
    "ImageNet's tar contains none: it is val.txt of Caffe's archive (caffe_ilsvrc12.tar.gz) under this name; "
    "`mlbench fetch resnet50` brings it."
)
_SUFFIXES = (".JPEG", ".jpeg", ".jpg", ".JPG", ".png")
RANDOM_IMAGES = 1024
RANDOM_SEED = 0
CALIBRATION_BATCH = 20

Prepare = Callable[[np.ndarray], np.ndarray]
"""(H, W, 3) uint8 RGB to (3, size, size), contiguous, float32 or pixels in uint8: a recipe of `preprocessing`."""


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """A line of the label list."""

    name: str
    label: int


class PreparedImages(LoadedSamples[np.ndarray]):
    """Images held ready for the network in one block of memory: (3, size, size) each."""

    def __init__(
        self,
        image: Callable[[int], np.ndarray],
        *,
        size: int,
        labels: Sequence[int],
        fingerprint: str,
        dtype: str = "float32",
    ) -> None:
        """Store the source of images.

        Args:
            image: returns the image of an index; called from several threads.
            size: pixels along each side.
            labels: the class of each image; its length is the number of images.
            fingerprint: a hash of the images and labels.
            dtype: of an image's values.
        """
        super().__init__(count=len(labels), performance_count=PERFORMANCE_COUNT, fingerprint=fingerprint)
        self.labels = labels
        self._image = image
        self._size = size
        self._dtype = dtype

    def make(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Decode and prepare these images; raises `DataError` for a file that is missing or corrupt."""
        return list(stack_images(self._image, indices, (3, self._size, self._size), self._dtype))


def image_folder(folder: Path, prepare: Prepare, *, size: int, classes: int, dtype: str = "float32") -> PreparedImages:
    """Open a folder of image files and `val_map.txt`, the layout of the official data.

    Raises:
        DataError: the folder, the list or an image it names is missing, or a line of the list is malformed.
    """
    files = read_label_list(folder / LABEL_LIST, classes)
    found = set(surviving(files, folder))
    missing = [file.name for file in files if file not in found]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(files)} images are missing in {folder}, first {missing[0]}.",
            hint=_where_it_lies(missing[0], folder)
            or f"Unpack the data again, or take the missing names out of {LABEL_LIST}.",
        )

    def image(index: int) -> np.ndarray:
        return prepare(read_image(folder / files[index].name))

    labels = [file.label for file in files]
    fingerprint = _folder_fingerprint(folder, files)
    return PreparedImages(image, size=size, labels=labels, fingerprint=fingerprint, dtype=dtype)


def random_images(size: int) -> PreparedImages:
    """Return seeded noise by torchvision's recipe, without labels worth the name; nothing is read from disk."""
    return _noise(lambda index: prepare_for_torchvision(_noisy_image(index, size), size, size), size, "float32")


def random_pixels(size: int) -> PreparedImages:
    """Return the pixels of the same noise."""
    return _noise(lambda index: pixels_for_torchvision(_noisy_image(index, size), size, size), size, "uint8")


def _noise(image: Callable[[int], np.ndarray], size: int, dtype: str) -> PreparedImages:
    labels, fingerprint = [0] * RANDOM_IMAGES, f"pixels-seed{RANDOM_SEED}-{size}x{size}"
    return PreparedImages(image, size=size, labels=labels, fingerprint=fingerprint, dtype=dtype)


def _noisy_image(index: int, size: int) -> np.ndarray:
    return np.random.default_rng((RANDOM_SEED, index)).integers(256, size=(size, size, 3), dtype=np.uint8)


def calibration_inputs(
    list_file: Path, folder: Path, prepare: Prepare, *, tensor: str
) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield the images of a calibration list as the network's input ``tensor``, up to 20 at a time.

    Shapes are (20, 3, size, size), as ``prepare`` makes them; the last may be shorter. Either official list serves:
    the file name is the first word of a line.

    Raises:
        DataError: the list or an image it names is missing or corrupt.
    """
    names = [line.split()[0] for line in _lines(list_file, what="calibration list") if line.strip()]
    for start in range(0, len(names), CALIBRATION_BATCH):
        part = names[start : start + CALIBRATION_BATCH]
        yield {tensor: np.stack([prepare(read_image(folder / name)) for name in part])}


def read_label_list(path: Path, classes: int) -> list[LabelledFile]:
    """Read ``<file name> <label>`` lines, in order: LoadGen's sample index is the line number from 0.

    Raises:
        DataError: the list is missing or empty, or a line is malformed or its label not below ``classes``.
    """
    labels = {str(label or ""): label for label in range(classes)}  # as written, without zeros before it
    files: dict[str, LabelledFile] = {}
    for number, line in enumerate(_lines(path, what="label list", missing_hint=_MISSING_LABELS), start=1):
        words = line.split()
        if len(words) != 2 or words[1].lstrip("0") not in labels:
            from_one = " Labels from 1 must be one less each." if words[1:] == [str(classes)] else ""
            raise DataError(
                f"line {number} of {path} is malformed: {line[:80]!r}.",
                hint=f"Expected a file name, a space and a label from 0 to {classes - 1}.{from_one}",
            )
        if words[0] in files:
            hint = "Each image is one sample: list it once."
            raise DataError(f"line {number} of {path} lists {words[0]} a second time.", hint=hint)
        files[words[0]] = LabelledFile(words[0], labels[words[1].lstrip("0")])
    return list(files.values())


def surviving(files: Sequence[LabelledFile], folder: Path, limit: int | None = None) -> list[LabelledFile]:
    """Return those of the first ``limit`` files that exist, in order: the data set the reference would silently use.

    Raises:
        DataError: the folder cannot be read.

    Source: MLPerf Inference v4.1, vision/classification_and_detection, imagenet.py.
    """
    try:
        present = set(os.listdir(folder))
    except (OSError, ValueError) as error:
        raise DataError(f"data folder cannot be read: {folder}: {getattr(error, 'strerror', error)}.") from None
    return [file for file in files[:limit] if file.name in present or _is_below(file.name, folder)]


def _is_below(name: str, folder: Path) -> bool:
    """Return whether a path leads to an image in a folder for its class; what leads out of the data is none."""
    return "/" in name and not {"", ".", ".."} & {*name.split("/")} and (folder / name).is_file()


def _where_it_lies(name: str, folder: Path) -> str:
    """Return a hint if a missing image exists in another folder, or with another ending."""
    stem = Path(name).stem
    present = set(os.listdir(folder))  # no pattern is made of a name: it may be anything
    below = next((each for each in present if os.path.lexists(folder / each / Path(name).name)), None)
    if below:
        return f"They lie in folders for each class, this one in {below}: name them so in {LABEL_LIST}."
    other = next((each for each in present if each.casefold() == name.casefold()), None)
    other = other or next((f"{stem}{suffix}" for suffix in _SUFFIXES if f"{stem}{suffix}" in present), None)
    return f"It exists as {other}: rename the files, or the names in {LABEL_LIST}." if other else ""


def _lines(path: Path, *, what: str, missing_hint: str = _MISSING) -> list[str]:
    """Return the lines of a text file that must have some, without blank ones at the end."""
    lines = read_text(path, what=what, missing_hint=missing_hint).rstrip().splitlines()
    if not lines:
        raise DataError(f"{what} is empty: {path}.")
    return lines


def _folder_fingerprint(folder: Path, files: Sequence[LabelledFile]) -> str:
    """Hash names, labels and file sizes; hashing the contents of 50,000 images would take minutes."""
    digest = hashlib.sha256()
    for file in files:
        try:
            size = (folder / file.name).stat().st_size
        except OSError as error:  # a link to nowhere
            raise DataError(f"image cannot be read: {folder / file.name}: {error.strerror}.") from None
        digest.update(f"{file.name} {file.label} {size}\n".encode())
    return digest.hexdigest()
