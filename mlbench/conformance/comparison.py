"""Are outputs close enough, and if not, what does it look like."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlbench.conformance.subject import Subject
from mlbench.contracts.graph import Graph, Tolerance
from mlbench.errors import ConformanceError


def demand_close(
    subject: Subject,
    graph: Graph,
    outputs: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    where: str,
) -> None:
    """Raise `ConformanceError` where an output differs by more than the graph's tolerance, naming the worst element."""
    allowed = graph.tolerance(subject.precision)
    for name, right in expected.items():
        if name not in outputs or outputs[name].shape != right.shape:
            found = f"has shape {outputs[name].shape}" if name in outputs else "is missing"
            raise ConformanceError(
                f"graph {graph.name} {where}: output {name!r} {found}, expected shape {right.shape}.",
                hint="See the check outputs_have_the_promised_form.",
            )
        if not (is_close := _close(outputs[name], right, allowed)).all():
            raise ConformanceError(
                f"graph {graph.name} {where}: output {name!r} {_difference(outputs[name], right, is_close)}; "
                f"{subject.precision} allows {allowed.absolute:g} + {allowed.relative:g} * |value|.",
                hint=_advice(outputs[name], right, allowed),
            )


def place_of(row: np.ndarray, rows: np.ndarray, allowed: Tolerance) -> int | None:
    """Return which of the expected rows a row is; None when it is none of them."""
    return next((place for place, right in enumerate(rows) if _close(row, right, allowed).all()), None)


def _close(found: np.ndarray, right: np.ndarray, allowed: Tolerance) -> np.ndarray:
    distance = np.abs(found.astype(np.float64) - right)
    return np.asarray(distance <= allowed.absolute + allowed.relative * np.abs(right))


def _difference(found: np.ndarray, right: np.ndarray, is_close: np.ndarray) -> str:
    distance = np.where(is_close, 0, np.nan_to_num(np.abs(found.astype(np.float64) - right), nan=np.inf))
    worst = np.unravel_index(int(distance.argmax()), right.shape)
    place = tuple(int(axis) for axis in worst)
    return f"is {found[worst]:.6g} at {place}, expected {right[worst]:.6g} ({is_close.size - is_close.sum()} differ)"


def _advice(found: np.ndarray, right: np.ndarray, allowed: Tolerance) -> str:
    """Describe the difference."""
    places = [place_of(row, right, allowed) for row in found]
    if None not in places:
        return f"These are the right rows in the wrong places ({places}): look for a swap, or a transposed batch."
    if np.isnan(found).any():
        return "There are NaNs: look for an overflow, or memory that was read before it was written."
    wrong_rows = [row for row, place in enumerate(places) if place != row]
    if len(wrong_rows) < len(found):
        return f"Only rows {wrong_rows} are wrong: check padding, and old values of longer batches in a buffer."
    return "All rows are wrong: compare with graph.module() on the same inputs, first at fp32."
