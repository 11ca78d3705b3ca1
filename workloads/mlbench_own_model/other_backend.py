"""Answers of another backend, whose plugin is loaded in a process of its own."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import Backend, GraphBackend, GraphError, Precision, UsageError
from mlbench.toolkit import SideProcess, first_line
from mlbench_own_model.answers import answer, read_outputs, write_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlbench_own_model.options import OwnModelOptions

PATIENCE_S = 3600.0
"""As long as a stage of a run may take."""


def find_backend(name: str) -> GraphBackend:
    """Return an installed backend that compiles graphs.

    Raises:
        UsageError: there is none of this name, or it compiles none.
    """
    known: list[Backend] = []
    for entry in entry_points(group="mlbench"):
        try:
            known += getattr(entry.load(), "mlbench_backends", list)()
        except Exception:  # a broken plugin is another command's to name
            continue
    found = next((each for each in known if each.name == name), None)
    names = ", ".join(each.name for each in known if isinstance(each, GraphBackend))
    if found is None:
        raise UsageError(f"there is no backend {name!r} for a reference.", hint=f"There are: {names}.")
    if not isinstance(found, GraphBackend):
        raise UsageError(f"{name} compiles no graphs, so it is no reference.", hint=f"There are: {names}.")
    return found


def answers_of_backend(options: OwnModelOptions) -> Sequence[Sequence[np.ndarray]]:
    """Return the outputs that the options' reference computes for each sample.

    Raises:
        GraphError: it cannot compute the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "outputs.npz"
        plain = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(options).items()}
        process = SideProcess(__name__, json.dumps(plain), str(target))
        with process.line:
            status = process.wait(PATIENCE_S)
        if status or not target.is_file():
            told = target.with_suffix(".txt")
            reason = told.read_text(encoding="utf-8") if told.is_file() else f"it ended with status {status}"
            raise GraphError(f"the reference {options.reference} has no answers: {reason}", hint="Name another.")
        return read_outputs(target)


def main() -> None:
    """Write the answers to the file that the last argument names, or the reason why there are none."""
    from mlbench_own_model.dataset import open_inputs
    from mlbench_own_model.graphs import open_model
    from mlbench_own_model.options import OwnModelOptions

    _, _, text, target = sys.argv
    values = json.loads(text)
    paths = {key: Path(values[key]) if values[key] else None for key in ("model", "inputs")}
    options = OwnModelOptions(**values | paths)
    try:
        backend, opened = find_backend(options.reference), open_model(options)
        precisions = backend.probe().precisions
        precision = Precision.FP32 if Precision.FP32 in precisions else precisions[0]
        data = open_inputs(opened, options)
        run = backend.compile(opened.file.graph(opened.signature, lambda: iter(())), precision)
        write_outputs(Path(target), [answer(opened.signature, run, data.sample(at)) for at in range(data.count)])
    except Exception as error:  # a backend's code
        Path(target).with_suffix(".txt").write_text(f"{first_line(error)}.", encoding="utf-8")
        sys.exit(1)


if __name__ == "__main__":
    main()
