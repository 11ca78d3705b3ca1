"""The round of a result: mlbench has the rules of v4.1 only."""

from __future__ import annotations

from collections.abc import Sequence

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
    """Return the reason why a result of this round is not imported; empty for v4.1 and unknown rounds."""
    if found is None or found == ROUND:
        return ""
    return f"it is a result of round {found} by the seeds in its log; mlbench judges by the rules of {ROUND} only."


def explain_other_tree(others: Sequence[ResultEntry], results: int) -> str:
    """Return the reason why a tree is not judged; empty unless most of its results are of another round.

    Args:
        others: its results of other rounds.
        results: how many it has in all.
    """
    if 2 * len(others) <= results:
        return ""
    rounds = " and ".join(sorted({find_round(entry) or "" for entry in others}))
    told = f"It is a tree of round {rounds} by the seeds in {len(others)} of {results} logs"
    return f"{told}; mlbench judges by the rules of {ROUND} only."
