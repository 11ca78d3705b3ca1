"""KiTS19's cases in the official lists; `sources.toml` uses them."""

from __future__ import annotations

from pathlib import Path

from mlbench_unet3d.kits19 import CASES, COPIES, read_case_list


def inference_cases(folder: Path) -> list[int]:
    """Return the numbers of the 42 cases with files of their own; ``folder`` is not read."""
    return [_number(name) for name in CASES if name not in COPIES]


def calibration_cases(folder: Path) -> list[int]:
    """Return the numbers of the cases in the calibration list.

    Args:
        folder: the workload's part of the data folder.

    Raises:
        DataError: the list is missing or malformed.
    """
    return [_number(name) for name in read_case_list(folder / "calibration_cases.txt")]


def _number(name: str) -> int:
    return int(name.removeprefix("case_"))
