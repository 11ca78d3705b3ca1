"""KiTS19's files: the cases that count, and the content of a case's two NIfTI files.

Source: KiTS19 challenge; MLPerf Inference v4.1, vision/medical_imaging/3d-unet-kits19, the case lists in meta.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlbench import DataError
from mlbench.toolkit import first_line, read_text
from mlbench_unet3d.preprocessing import TUMOUR, Scan

CASES = tuple(
    f"case_{number:05}"
    for number in (
        *(0, 3, 5, 6, 12, 24, 34, 41, 44, 49, 52, 56, 61, 65, 66, 70, 76, 78, 80, 84, 86, 87, 92, 111, 112, 125, 128),
        *(138, 157, 160, 161, 162, 169, 171, 176, 185, 187, 189, 198, 203, 206, 207, 400),
    )
)
"""In LoadGen's order."""

COPIES = {"case_00400": "case_00185"}
"""Listed cases that repeat another one; they have no files of their own."""

IMAGE, LABEL = "imaging.nii.gz", "segmentation.nii.gz"

_CASE = re.compile(r"case_\d{5}")
_SAME_PLACE_MM = 0.01
_SHORTEST_MM, _LONGEST_MM = 0.01, 100.0
"""Plausible sizes of a voxel; scans have 0.4 to 5."""


def case_folders(data: Path, names: Sequence[str]) -> list[Path]:
    """Return the folder of each case.

    Raises:
        DataError: a folder lacks one of its two files, or there is none.
    """
    folders = [data / COPIES.get(name, name) for name in names]
    missing = [
        folder / file
        for folder in dict.fromkeys(folders)
        for file in (IMAGE, LABEL)
        if not os.path.isfile(folder / file)
    ]
    if missing:
        raise DataError(
            f"{len(missing)} files of KiTS19 are missing, first {missing[0]}.",
            hint=f"workload.data names the folder with case_00000/{IMAGE}, case_00000/{LABEL} and so on.",
        )
    return folders


def read_case_list(path: Path) -> list[str]:
    """Return the names of cases in a list: one to a line, or as JSON.

    Raises:
        DataError: the list is missing or empty, or holds something else.
    """
    words = re.split(r'[\s",\[\]]+', read_text(path, what="calibration list"))
    names = [word for word in words if word]
    if not names:
        raise DataError(f"calibration list is empty: {path}.")
    if wrong := next((name for name in names if not _CASE.fullmatch(name)), None):
        raise DataError(f"{path} names no case: {wrong[:80]!r}.", hint="Expected names such as case_00050.")
    return names


def read_case(folder: Path) -> Scan:
    """Return the content of a case's files.

    Raises:
        DataError: a file is damaged or no NIfTI file, not a volume, or image and label do not belong together.
    """
    image, label = _Volume.read(folder / IMAGE), _Volume.read(folder / LABEL)
    if label.values.shape != image.values.shape:
        shapes = f"{image.values.shape} and {label.values.shape}"
        raise DataError(f"image and label of {folder} have shapes {shapes}.", hint="Fetch both again.")
    apart = np.abs(label.affine - image.affine).max()
    if not apart <= _SAME_PLACE_MM:  # a NaN is not
        raise DataError(
            f"image and label of {folder} lie on different grids: their affines differ by up to {apart:.3g}.",
            hint="Fetch both again.",
        )
    if not np.isfinite(image.values.min()):
        raise DataError(f"{folder / IMAGE} contains grey values that are not numbers.", hint="Fetch it again.")
    return Scan(image=image.values, label=_check_label(label.values, folder / LABEL), spacing=image.spacing)


@dataclass(frozen=True, slots=True)
class _Volume:
    """A NIfTI file."""

    values: np.ndarray
    """(D, H, W) float32, scaled as the header says."""
    affine: np.ndarray
    """(4, 4): from voxels to mm."""
    spacing: tuple[float, float, float]
    """mm, as the header says."""

    @classmethod
    def read(cls, path: Path) -> _Volume:
        import nibabel

        try:
            file = nibabel.load(path)
            values = np.asarray(file.dataobj, dtype=np.float32)
            down, back, left = (float(size) for size in file.header["pixdim"][1:4])
        except Exception as error:  # the reader raises anything for a damaged file
            raise DataError(f"no whole NIfTI file: {path}: {first_line(error)}.", hint="Fetch it again.") from None
        if values.ndim != 3 or not values.size:
            raise DataError(f"{path} has shape {values.shape}, which is not a volume.", hint="Expected three axes.")
        if not all(_SHORTEST_MM <= size <= _LONGEST_MM for size in (down, back, left)):  # a NaN is not
            raise DataError(f"{path} has voxels of {down:g} x {back:g} x {left:g} mm.", hint="Fetch it again.")
        return cls(values, file.affine, (down, back, left))


def _check_label(values: np.ndarray, path: Path) -> np.ndarray:
    """Return labels as uint8."""
    if 0 <= values.min() and values.max() <= TUMOUR:
        label = values.astype(np.uint8)
        if np.array_equal(label, values):
            return label
    raise DataError(
        f"{path} contains labels from {values.min():g} to {values.max():g}.", hint="Expected labels 0, 1 and 2."
    )
