"""The round of each result of a tree, by the seeds in its logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.errors import DataError
from mlbench.loadgen.logs import read_pairs
from mlbench.rules.official import Round, recognise_round, round_named
from mlbench.rules.round_files import known_rounds
from mlbench.submission.endpoints import endpoints_round
from mlbench.submission.tree import DETAIL, ResultEntry, entries_of


def entries_by_round(root: Path, asked: Round | None = None) -> list[ResultEntry]:
    """Return every scenario folder of a tree with the round that it is judged by.

    A result whose logs name no round that is judged here has the one that is asked for, or else that of most of the
    tree; where no result has one, the default one.

    Raises:
        UsageError: as `entries_of`.
    """
    entries = entries_of(root)
    found = [endpoints_round(entry) or find_round(entry) for entry in entries]
    usual = asked or usual_round([name for name in found if name in known_rounds()])
    return [
        replace(entry, round=round_named(name) if name in known_rounds() else usual)
        for entry, name in zip(entries, found, strict=True)
    ]


def usual_round(names: Sequence[str | None]) -> Round:
    """Return the round that most of these are; the default one where there is none."""
    counts = Counter(name for name in names if name)
    return round_named(counts.most_common(1)[0][0] if counts else DEFAULT_ROUND)


def find_round(entry: ResultEntry) -> str | None:
    """Return the round that a result's logs name by their seeds, read as far as they go; None: they name none."""
    for folder in (entry.performance, entry.accuracy):
        try:
            seeds = ({key: value} for key, value in read_pairs(folder / DETAIL) if key.endswith("_rng_seed"))
            names = map(recognise_round, seeds)
            if found := next(filter(None, names), None):
                return found
        except DataError:
            continue
    return None


def explain_other_round(found: str | None) -> str:
    """Return the reason why a result of this round is not imported; empty: its rules are here, or it is unknown."""
    if found is None or found in known_rounds():
        return ""
    known = ", ".join(known_rounds())
    return f"it is a result of round {found} by the seeds in its log; mlbench judges by the rules of {known} only."


def explain_other_tree(others: Sequence[ResultEntry], results: int) -> str:
    """Return the reason why a tree is not judged; empty unless most of its results are of a round without rules here.

    Args:
        others: its results of such rounds.
        results: how many it has in all.
    """
    if 2 * len(others) <= results:
        return ""
    rounds = " and ".join(sorted({find_round(entry) or "" for entry in others}))
    told = f"It is a tree of round {rounds} by the seeds in {len(others)} of {results} logs"
    return f"{told}; mlbench judges by the rules of {', '.join(known_rounds())} only."
