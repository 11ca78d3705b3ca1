"""Which of OpenImages' pictures the official lists name; `sources.toml` asks."""

from __future__ import annotations

from pathlib import Path

from mlbench.toolkit import read_text
from mlbench_retinanet.dataset import ANNOTATIONS, read_annotations

CLASSES = 264


def validation_images(folder: Path) -> list[str]:
    """Return the ids of the annotated pictures, 16 hexadecimal digits each, in LoadGen's order.

    Args:
        folder: the workload's part of the data folder.

    Raises:
        DataError: the annotations are missing or malformed.
    """
    annotations = read_annotations(folder / "openimages" / ANNOTATIONS, CLASSES)
    return [Path(image["file_name"]).stem for image in annotations["images"]]


def calibration_images(folder: Path) -> list[str]:
    """Return the ids of the pictures in the calibration list; arguments and errors as `validation_images`."""
    names = read_text(folder / "openimages_cal_images_list.txt", what="calibration list").split()
    return [Path(name).stem for name in names]
