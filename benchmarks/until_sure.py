"""How often a verdict is wrong that is asked for after every turn, and how many turns it takes.

    python benchmarks/until_sure.py
    python benchmarks/until_sure.py --nights 1000 --machine independent

Makes up interleaved runs, A B B A, of eight cells on machines of known noise (those of `nights.py`), and ends each cell
as soon as it has a verdict, after 40 turns at the latest. Three rules are compared: the evidence of
`mlbench/comparison/sequential.py` after each turn; Pocock's boundary, Student's t at one nominal level at ten looks
from the 4th to the 40th turn; and the test of a single look, repeated after each turn, which is the mistake that the
other two avoid. All judge eight numbers at 1 % together.

Per rule: the share of nights on which any cell is called faster or slower although nothing changed; the share of these
cells that are called the same, and the mean turns until a cell ends; of a loss of 6, 10 and 20 % the share called
slower, the mean turns, and the share wrongly called the same.

Seeded. Some four minutes of one core for 300 nights of all machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import click
import numpy as np
from nights import MACHINES, NUMBERS, SEED, Machine
from rich.console import Console
from rich.table import Table
from scipy import special

from mlbench.comparison.effect import CONFIDENCE, Effect, effect_of_pairs
from mlbench.comparison.sequential import at_any_time
from mlbench.comparison.sessions import LEAST_PAIRS
from mlbench.comparison.spread import without_odd_runs
from mlbench.comparison.verdicts import ALPHA, MARGIN, SpeedVerdict, decide

MOST = 40
LOOKS = (4, 6, 8, 11, 15, 20, 26, 31, 35, 40)
LOSSES = (0.06, 0.1, 0.2)
CHOSEN = (
    *("independent repeats, 1 %", "independent repeats, 5 %", "AR(1) 0.8 within a night, 5 %"),
    *("drift of 5 % in a night, AR(1), 3 %", "independent repeats, t(3), 5 %"),
    *("one run in twenty slower by 30 %, 1 %", "one run in twenty slower by 30 %, 5 %"),
    *("each its two speeds, 10 runs each, 1 %", "machine of two speeds, 50 runs each, 1 %"),
)

Rule = Callable[[Effect, int], SpeedVerdict | None]
"""Gives the verdict on the effect of so many pairs; None at a turn at which it does not look."""


def by_evidence(effect: Effect, count: int) -> SpeedVerdict | None:
    """Judge as `mlbench` does: eight numbers, each at an eighth of the chance."""
    found = at_any_time(effect)
    assert found.p_value is not None
    return decide(found, NUMBERS * found.p_value, MARGIN)


def by_single_looks(effect: Effect, count: int) -> SpeedVerdict | None:
    """Judge as if this were the only look."""
    assert effect.p_value is not None
    return decide(effect, NUMBERS * effect.p_value, MARGIN)


def nominal_level(chance: float, tries: int = 400_000) -> float:
    """Return the level of a t test at each look at which any of ten is met with this chance: Pocock's boundary.

    By simulation: tables of it end at 1 %, and know no Student's t.
    """
    rng, least = np.random.default_rng(SEED), []
    for _ in range(8):
        values = rng.standard_normal((tries // 8, MOST))
        counts = np.array(LOOKS)
        sums, squares = (np.cumsum(each, axis=1)[:, counts - 1] for each in (values, values**2))
        t = sums / counts / np.sqrt((squares - sums**2 / counts) / (counts - 1) / counts)
        least.append((2 * special.stdtr(counts - 1, -np.abs(t))).min(axis=1))
    return float(np.quantile(np.concatenate(least), chance))


def pocock() -> Rule:
    """Return the rule that looks ten times."""
    change, interval = nominal_level(ALPHA / NUMBERS), nominal_level(1 - CONFIDENCE)

    def judge(effect: Effect, count: int) -> SpeedVerdict | None:
        if count not in LOOKS:
            return None
        assert effect.p_value is not None and effect.error is not None
        reach = float(special.stdtrit(count - 1, 1 - interval / 2)) * effect.error
        low, high = (effect.ratio * math.exp(sign * reach) for sign in (-1, 1))
        wide = Effect(ratio=effect.ratio, low=low, high=high, p_value=effect.p_value)
        return decide(wide, effect.p_value * ALPHA / change, MARGIN)

    return judge


def end_of(differences: Sequence[float], rule: Rule) -> tuple[SpeedVerdict, int]:
    """Return the first verdict on a cell, and its turn."""
    for count in range(LEAST_PAIRS, MOST + 1):
        (usual,) = without_odd_runs([differences[:count]])
        verdict = rule(effect_of_pairs(usual), len(usual) if rule in (by_evidence, by_single_looks) else count)
        if verdict not in (None, SpeedVerdict.CANNOT_TELL):
            assert verdict
            return verdict, count
    return SpeedVerdict.CANNOT_TELL, MOST


def night_of(rng: np.random.Generator, machine: Machine) -> np.ndarray:
    """Return the differences of pairs of each number: (NUMBERS, MOST)."""
    (runs,) = np.moveaxis(machine(rng, 1, 2 * MOST), 1, 0)
    differences: np.ndarray = runs[:, 1::2] - runs[:, ::2]
    differences[:, 1::2] *= -1  # A B B A
    return differences


def row_of(nights: Sequence[np.ndarray], rule: Rule) -> list[str]:
    """Return the cells of the table for one rule."""
    quiet = [[end_of(number, rule) for number in night] for night in nights]
    alarms = np.mean([any(verdict in CHANGED for verdict, _ in ends) for ends in quiet])
    ends = [end for night in quiet for end in night]
    cells = [f"{100 * alarms:.1f}", _share_and_turns(ends, SpeedVerdict.SAME)]
    for loss in LOSSES:
        slowed = [end_of(night[0] + math.log1p(-loss), rule) for night in nights]
        same = np.mean([verdict is SpeedVerdict.SAME for verdict, _ in slowed])
        cells.append(f"{_share_and_turns(slowed, SpeedVerdict.SLOWER)}, {100 * same:.1f}")
    return cells


CHANGED = (SpeedVerdict.FASTER, SpeedVerdict.SLOWER)


def _share_and_turns(ends: Sequence[tuple[SpeedVerdict, int]], wanted: SpeedVerdict) -> str:
    share = np.mean([verdict is wanted for verdict, _ in ends])
    return f"{100 * share:.0f} in {np.mean([turns for _, turns in ends]):.1f}"


@click.command()
@click.option("--nights", default=300, show_default=True, help="Of each kind.")
@click.option("--machine", "chosen", default="", help="Only machines whose names hold this.")
def main(nights: int, chosen: str) -> None:
    """Print a row per machine and rule."""
    rules: dict[str, Rule] = {"evidence": by_evidence, "Pocock": pocock(), "single looks": by_single_looks}
    table = Table(title=f"{nights} nights of {NUMBERS} cells each, at most {MOST} turns; shares in %")
    columns = ["machine", "rule", "false alarms", "same"]
    columns += [f"{loss:.0%}: slower, same" for loss in LOSSES]
    for heading in columns:
        table.add_column(heading, justify="left" if heading in ("machine", "rule") else "right")
    for name in CHOSEN:
        if chosen in name:
            rng = np.random.default_rng(SEED)
            made = [night_of(rng, MACHINES[name]) for _ in range(nights)]
            for rule, judge in rules.items():
                table.add_row(name, rule, *row_of(made, judge))
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
