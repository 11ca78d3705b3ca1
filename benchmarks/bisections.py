"""How often `mlbench bisect` names the right commit of sixteen, a wrong one, or none.

    python benchmarks/bisections.py
    python benchmarks/bisections.py --tries 1000 --loss 0

Makes up runs on machines whose noise is known: normal, resembling the run before, with single runs that are far slower.
All but the numbers of the runs is mlbench's own. Where nothing was lost, every named commit is a false alarm. The last
rows have a second loss of the same size, four commits after the first.

Seeded: the same numbers every time. Some two minutes of one core.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from mlbench.comparison.bisection import Candidate, Rule
from mlbench.planning.requests import RunRequest
from mlbench.records.run_record import RunRecord
from mlbench.running.bisection import Bisection

COMMITS, SEED = 16, 20261129
RECORD = Path(__file__).parents[1] / "tests/data/records/resnet50-pytorch-Offline.json"

Machine = Callable[[np.random.Generator], Iterator[float]]
"""Yields the noise of one run after another: logarithms."""


def normal(spread: float, correlation: float = 0.0, odd: float = 0.0) -> Machine:
    """Return a machine whose runs resemble the one before, or of which some take a third longer."""

    def noise(rng: np.random.Generator) -> Iterator[float]:
        state = rng.standard_normal()
        while True:
            state = correlation * state + math.sqrt(1 - correlation**2) * rng.standard_normal()
            yield spread * state - (0.3 if rng.random() < odd else 0.0)

    return noise


MACHINES = {
    "runs vary by 0.5 %": normal(0.005),
    "runs vary by 2 %": normal(0.02),
    "runs vary by 5 %": normal(0.05),
    "by 5 %, and resemble the one before": normal(0.05, correlation=0.8),
    "by 1 %, and one in twenty is odd": normal(0.01, odd=0.05),
}


@dataclass(slots=True)
class Made:
    """Commits whose runs are made up."""

    levels: Sequence[float]
    """The logarithm of each commit's speed."""
    noise: Iterator[float]
    record: RunRecord
    runs: int = 0
    _place: int = 0
    versions: tuple[Candidate, ...] = field(init=False)
    key: tuple[str, ...] = ("made up",)

    def __post_init__(self) -> None:
        self.versions = tuple(Candidate(name=f"{place:040x}") for place in range(len(self.levels)))

    def command(self, place: int, folder: Path) -> Made:
        """Return what makes the run of a commit."""
        self._place = place
        return self

    def run(self, request: RunRequest) -> RunRecord:
        """Make a run up."""
        self.runs += 1
        assert self.record.result
        value = 100 * math.exp(self.levels[self._place] + next(self.noise))
        result = self.record.result.model_copy(update={"value": value})
        changes = {"result": result, "tag": request.tag, "created": datetime.now(UTC), "duration_ns": 0}
        return self.record.model_copy(update=changes)

    def clean_up(self, place: int, folder: Path) -> None:
        """Remove nothing."""


def bisect(machine: Machine, losses: dict[int, float], rng: np.random.Generator, record: RunRecord) -> tuple[str, int]:
    """Return how one bisection ended, and how many runs it took."""
    levels = np.cumsum([math.log1p(-losses.get(place, 0.0)) for place in range(COMMITS)])
    made = Made(list(levels), machine(rng), record)
    with tempfile.TemporaryDirectory() as folder:
        request = RunRequest(
            workload="resnet50", backend="pytorch", scenario="Offline", wants_accuracy=False, results=Path(folder)
        )
        rule = Rule(versions=COMMITS, pairs=10, margin=0.05)
        bisection = Bisection(installations=made, request=request, measure="speed", rule=rule)  # type: ignore[arg-type]
        found = bisection.run()
    if not found.has_step:
        return "no step", made.runs
    if len(found.suspects) > 1:
        return "several" if set(found.suspects) & losses.keys() else "wrong", made.runs
    return "right" if found.suspects[0] in losses else "wrong", made.runs


@click.command()
@click.option("--tries", default=200, show_default=True, help="Bisections of each row.")
@click.option("--loss", "losses", multiple=True, type=float, default=(0.0, 0.06, 0.1, 0.2), show_default=True)
@click.option("--machine", "chosen", default="", help="Part of a machine's name; the others are left out.")
def main(tries: int, losses: tuple[float, ...], chosen: str) -> None:
    """Print a row per machine and loss."""
    record = RunRecord.model_validate_json(RECORD.read_text())
    table = Table(title=f"{tries} bisections of {COMMITS} commits each, %")
    for heading in ("machine", "loss", "right", "one of several", "no step", "wrong", "runs"):
        table.add_column(heading, justify="left" if heading == "machine" else "right")
    for name, machine in ((name, each) for name, each in MACHINES.items() if chosen in name):
        for loss, second in [*((each, False) for each in losses), *((each, True) for each in losses[-2:] if each)]:
            rng = np.random.default_rng(SEED)
            ends, runs = Counter[str](), 0
            for _ in range(tries):
                place = int(rng.integers(1, COMMITS))
                lost = {place: loss} | ({place + 4: loss} if second and place + 4 < COMMITS else {}) if loss else {}
                end, made = bisect(machine, lost, rng, record)
                ends[end] += 1
                runs += made
            shares = (f"{100 * ends[each] / tries:.1f}" for each in ("right", "several", "no step", "wrong"))
            table.add_row(name, f"{loss:.0%}{' twice' if second else ''}", *shares, f"{runs / tries:.0f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
