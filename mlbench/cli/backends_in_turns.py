"""Backends that ran once are measured interleaved until it is known which is faster: ``mlbench run --until-sure``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlbench.cli.budget import TimeForTurns
from mlbench.cli.until_sure import UntilSure, makers_here, plan_cells
from mlbench.comparison.backends import BackendComparison
from mlbench.comparison.confirmation import with_speeds
from mlbench.comparison.kinds import margins_of
from mlbench.comparison.verdicts import MARGIN
from mlbench.contracts.hookspecs import MODEL_FILE
from mlbench.records.run_record import RunRecord
from mlbench.running.turns import request_like
from mlbench.running.until_sure import CellId, CellInTurns


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBackends:
    """Comparisons of backends with the speeds of interleaved runs."""

    found: Sequence[BackendComparison]
    turns: UntilSure

    def close(self) -> None:
        """Print what is left to know, and how."""
        self.turns.close()


def measure_backends(compared: Sequence[BackendComparison], results: Path, until: TimeForTurns) -> MeasuredBackends:
    """Repeat the runs of each backend and of the first one, interleaved, until it is known which is faster.

    Runs that take no part in a comparison, failed or INVALID, are not repeated.
    """
    pairs: dict[Pair, list[tuple[RunRecord, RunRecord]]] = {}
    for each in compared:
        for name, _ in each.others:
            pairs.setdefault((each.base, name, each.across), []).append((each.newest[each.base], each.newest[name]))
    cells, go_on = list[CellInTurns](), dict[CellId, str]()
    for side, ((*_, across), runs) in enumerate(pairs.items()):
        kinds = [([request_like(run, results) for run in pair], pair) for pair in runs]
        of_side = plan_cells(kinds, makers_here, across=across, results=results, first_side=side)
        facts = [word for fact in across for word in ("--across", fact)]
        names = [[run.run_id for run in pair] for pair in runs]
        trust = ["--trust"] if any(MODEL_FILE in run.settings for pair in runs for run in pair) else []
        options = [*facts, *until.options(results), *trust]  # what the user has just measured, and named the file of
        lines = [shlex.join(["mlbench", "compare", *each, *options]) for each in names]
        go_on |= dict(zip((cell.id for cell in of_side), lines, strict=True))
        cells += of_side
    turns = UntilSure(cells=cells, margins=margins_of(MARGIN), budget=until, go_on=go_on)
    turns.measure()
    return MeasuredBackends(found=[_with_turns(each, list(pairs), turns) for each in compared], turns=turns)


Pair = tuple[str, str, tuple[str, ...]]
"""The base, another backend, and the facts in which they differ."""


def _with_turns(compared: BackendComparison, pairs: Sequence[Pair], turns: UntilSure) -> BackendComparison:
    found = turns.comparisons
    others = tuple(
        (name, with_speeds(each, found.get(pairs.index((compared.base, name, compared.across)))))
        for name, each in compared.others
    )
    return replace(compared, others=others)
