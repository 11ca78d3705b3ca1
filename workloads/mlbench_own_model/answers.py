"""The outputs of a graph for each sample, and a file of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mlbench import Executable
from mlbench_own_model.dataset import Sample
from mlbench_own_model.program import call_graph
from mlbench_own_model.signature import Signature


def answer(signature: Signature, run: Executable, sample: Sample) -> list[np.ndarray]:
    """Return the outputs of one sample, flat."""
    return [np.array(part[0]) for part in call_graph(signature, run, [sample])]


def write_outputs(file: Path, outputs: Sequence[Sequence[np.ndarray]]) -> None:
    """Write the outputs of all samples."""
    sizes = np.array([[part.size for part in each] for each in outputs], np.int64)
    flat = np.concatenate([part for each in outputs for part in each])
    np.savez(file, flat=flat, sizes=sizes)


def read_outputs(file: Path) -> list[list[np.ndarray]]:
    """Return the outputs of all samples."""
    with np.load(file, allow_pickle=False) as arrays:
        flat, sizes = arrays["flat"], arrays["sizes"]
    parts = np.split(flat, np.cumsum(sizes.ravel())[:-1])
    return [parts[start : start + sizes.shape[1]] for start in range(0, len(parts), sizes.shape[1])]


def differ(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return absolute differences; where both are NaN, or the same infinity, 0, and where only one is, infinity."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.astype(np.float64) - wanted)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
