"""Numbers of a comparison that interleaved runs settle: which ones, and what they are then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mlbench.comparison.compare import Cell, Comparison, Confirmation, Judged
from mlbench.comparison.kinds import KINDS
from mlbench.comparison.verdicts import SpeedVerdict


def cells_to_confirm(comparison: Comparison) -> list[Cell]:
    """Return the cells with a number that turns could settle (`Cell.unsettled`), those with a loss first."""
    found = [cell for cell in comparison.cells if cell.unsettled]
    return sorted(found, key=lambda cell: not has_loss(cell))


def has_loss(cell: Cell) -> bool:
    """Return whether a number is worse than on other days, or suspected to be."""
    return any(each.is_by_history for each in cell.numbers)


def confirm(comparison: Comparison, in_turns: Comparison) -> Comparison:
    """Return the comparison with the speeds of some cells replaced by those of interleaved runs.

    A slowdown that these show too, without being significant, stays suspected; what had no verdict before can become
    slower, faster or the same, and no suspicion.
    """
    measured = {cell.key: cell for cell in in_turns.cells if cell.speeds}
    pairs = [(cell, _confirmed(cell, measured.get(cell.key, cell), comparison.margins)) for cell in comparison.cells]
    made = (each for before, after in pairs if before.key in measured for each in _confirmations(before, after))
    return replace(comparison, cells=tuple(after for _, after in pairs), confirmed=(*comparison.confirmed, *made))


def with_speeds(comparison: Comparison, measured: Comparison | None) -> Comparison:
    """Return a comparison in which the speeds and resources of another one of the same cells replace its own."""
    found = {cell.key: cell for cell in measured.cells if cell.speeds} if measured else {}
    pairs = [(cell, found.get(cell.key, cell)) for cell in comparison.cells]
    cells = (replace(one, speeds=each.speeds, resources=each.resources or one.resources) for one, each in pairs)
    return replace(comparison, cells=tuple(cells))


def _confirmed(cell: Cell, measured: Cell, margins: Mapping[str, float]) -> Cell:
    losses = {each.measure for each in cell.numbers if each.is_by_history}
    speeds, resources = (
        tuple(_or_suspected(each, margins[each.kind]) if each.measure in losses else each for each in numbers)
        for numbers in (measured.speeds, measured.resources)
    )
    return replace(cell, speeds=speeds, resources=resources or cell.resources)


def _or_suspected(each: Judged, margin: float) -> Judged:
    if each.verdict is not SpeedVerdict.CANNOT_TELL or not each.effect:
        return each
    loss = each.effect.ratio if KINDS[each.kind].is_amount else 1 / each.effect.ratio
    if loss <= 1 + margin:
        return each
    reason = f"interleaved x {each.effect.ratio:.3f}, but {each.reason}"
    return replace(each, verdict=SpeedVerdict.SUSPECTED, reason=reason)


def _confirmations(before: Cell, after: Cell) -> list[Confirmation]:
    verdicts = {each.measure: each for each in after.numbers}
    return [
        Confirmation(
            cell=before.name,
            measure=each.measure,
            runs=len(verdicts[each.measure].new),
            before=each.verdict,
            after=verdicts[each.measure].verdict,
        )
        for each in before.unsettled
        if each.measure in verdicts
    ]
