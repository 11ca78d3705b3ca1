"""A comparison of two sets of runs that knows how much earlier sessions of a results folder differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mlbench.comparison.compare import Comparison, compare
from mlbench.comparison.scores import ACCURACY_MARGIN
from mlbench.comparison.verdicts import MARGIN
from mlbench.errors import UsageError
from mlbench.records.run_record import RunRecord
from mlbench.records.store.selection import runs_like


def compare_with_history(  # noqa: PLR0913 - two sides, what may differ, and how much is noise
    results: Path,
    base: Sequence[RunRecord],
    new: Sequence[RunRecord],
    *,
    across: Collection[str] = (),
    margin: float | Mapping[str, float] = MARGIN,
    accuracy_margin: float = ACCURACY_MARGIN,
    again: Sequence[RunRecord] = (),
) -> Comparison:
    """Compare two sets of runs; earlier runs of the same kinds in a results folder show how much sessions differ.

    Raises:
        IncomparableRunsError, UsageError: as `compare`; a margin is no share.
    """
    if not 0 <= accuracy_margin < 1:
        raise UsageError(f"accuracy_margin is {accuracy_margin:g}.", hint="It is a share from 0 to below 1.")
    return compare(
        base,
        new,
        across=across,
        margin=margin,
        accuracy_margin=accuracy_margin,
        history=runs_like(results, (*base, *new)),
        again=again,
    )
