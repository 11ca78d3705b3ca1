"""Which round a result belongs to: mlbench has the rules of v4.1, and judges no other by them."""

from __future__ import annotations

from mlbench.errors import DataError
from mlbench.loadgen.logs import read_damaged_detail
from mlbench.rules.rounds import ROUND, recognise_round
from mlbench.submission.tree import DETAIL, ResultEntry


def find_round(entry: ResultEntry) -> str | None:
    """Return the round that a result's logs name by their seeds, read as far as they go; None: they name none."""
    for folder in (entry.performance, entry.accuracy):
        try:
            found = recognise_round(read_damaged_detail(folder / DETAIL).values)
        except DataError:
            continue
        if found:
            return found
    return None


def explain_other_round(found: str | None) -> str:
    """Return why a result of this round is not imported; empty for v4.1, and where the round is unknown."""
    if found is None or found == ROUND:
        return ""
    return f"it is a result of round {found} by the seeds in its log; mlbench judges by the rules of {ROUND} only."
