from collections.abc import Callable, Mapping
from pathlib import Path

import nibabel
import numpy as np
import pytest

WriteCase = Callable[..., Path]


@pytest.fixture
def write_case(tmp_path: Path) -> WriteCase:
    """Writes the two files of a case into a folder of `tmp_path`, as KiTS19 lays them out, and returns the folder."""

    def write(
        name: str,
        image: np.ndarray,
        label: np.ndarray,
        *,
        spacing: tuple[float, float, float] = (1.6, 1.2, 1.2),
        label_spacing: tuple[float, float, float] | None = None,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        files: Mapping[str, tuple[np.ndarray, tuple[float, float, float]]] = {
            "imaging.nii.gz": (image, spacing),
            "segmentation.nii.gz": (label, label_spacing or spacing),
        }
        for file, (volume, steps) in files.items():
            nibabel.save(nibabel.Nifti1Image(volume, np.diag([*steps, 1.0])), folder / file)
        return folder

    return write
