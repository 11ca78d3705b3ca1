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
