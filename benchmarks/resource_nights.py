"""How often a night fails without cause in memory, start-up or speed, and whether it fails when there is one.

    python benchmarks/resource_nights.py
    python benchmarks/resource_nights.py --nights 2000

`nights.py` for numbers that are no speeds. Makes up nights of eight cells, five repeats each: a speed, a processor
time, a peak memory and three times to start for each cell. Each kind is judged as `mlbench compare` judges it,
with its own margin, assumption and family; the row "any kind" is the whole comparison. The noise is that of real
repeats, in `docs/decisions/0058-memory-and-start-up-are-guarded-numbers.md`, and larger.

Nothing changes first, so every number that is worse is a false alarm. Then the first number of each kind gets worse by
a factor. Judged without earlier nights, as on the first day, and with twenty.

Seeded: the same numbers every time. Some minutes of one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from mlbench.comparison.effect import detectable_loss
from mlbench.comparison.kinds import KINDS, MeasureKind
from mlbench.comparison.tested import Tested, compare_by_sessions
from mlbench.comparison.verdicts import ALPHA, Number, SpeedVerdict, judge_together

CELLS, REPEATS, EARLIER, SEED = 8, 5, 20, 20261129
COUNTS: Mapping[str, int] = {"speed": 1, "processor time": 1, "memory": 1, "start-up": 3}
"""Numbers of a cell."""
FACTORS: Mapping[str, tuple[float, ...]] = {
    "speed": (1.1, 1.5),
    "processor time": (1.05, 1.1),
    "memory": (1.1, 1.5),
    "start-up": (2.0, 10.0),
}
"""By how much a number gets worse."""
WAYS = {"first day": 0, f"{EARLIER} nights": EARLIER}

Draw = Callable[[np.random.Generator, int], Mapping[str, np.ndarray]]
"""Draws signed logarithms of so many sessions, by kind: (numbers, sessions, REPEATS)."""


def machine(
    *, between: Mapping[str, float], within: Mapping[str, float], load: float = 0.0, cold: float = 0.0, odd: float = 0.0
) -> Draw:
    """Return a machine whose sessions and repeats differ normally.

    Args:
        between: the standard deviation of sessions, by kind.
        within: that of the repeats of a session.
        load: the logarithm by which other load slows a session down, every second one: start-up, and speed as much.
            Processor time only varies by more.
        cold: the same of the first run of each session, of start-up alone.
        odd: how likely a run takes a tenth more memory.
    """

    def draw(rng: np.random.Generator, sessions: int) -> Mapping[str, np.ndarray]:
        is_busy = rng.random(sessions) < 0.5
        found = {}
        for kind, count in COUNTS.items():
            shape = (CELLS * count, sessions, REPEATS)
            values = between[kind] * rng.standard_normal(shape[:2])[..., None] + within[kind] * rng.standard_normal(
                shape
            )
            if kind == "memory":
                values -= math.log(1.1) * (rng.random(shape) < odd)
            elif kind == "processor time":
                values *= 1 + load * is_busy[None, :, None]
            else:
                values -= load * is_busy[None, :, None]
            if kind == "start-up":
                values[..., 0] -= cold
            found[kind] = values
        return found

    return draw


REAL = {"speed": 0.03, "processor time": 0.03, "memory": 0.009, "start-up": 0.25}
"""Standard deviations of sessions, as of their repeats."""
QUIET = {"speed": 0.01, "processor time": 0.015, "memory": 0.001, "start-up": 0.07}
LARGE = {"speed": 0.05, "processor time": 0.05, "memory": 0.015, "start-up": 0.4}
MACHINES: Mapping[str, Draw] = {
    "quiet": machine(between=QUIET, within=QUIET),
    "as measured, crowded": machine(between=REAL, within=REAL),
    "as measured, every second night beside load": machine(between=REAL, within=REAL, load=math.log(1.8)),
    "as measured, first run three times as long": machine(between=REAL, within=REAL, cold=math.log(3)),
    "as measured, one run in twenty takes a tenth more memory": machine(between=REAL, within=REAL, odd=0.05),
    "half as noisy again as assumed": machine(between=LARGE, within=LARGE),
}


def compared(sessions: np.ndarray, kind: MeasureKind, loss: float) -> Tested:
    """Compare the newest session, made worse by a logarithm, with the oldest."""
    base, later, new = [sessions[0]], list(sessions[1:-1]), sessions[-1] - loss
    tested = compare_by_sessions(base, [new], before=base, after=later, margin=kind.margin, assumed=kind.assumed)
    assert tested
    return tested


def numbers_of(name: str, drawn: Mapping[str, np.ndarray], loss: float = 0.0) -> list[Number]:
    """Return the numbers of a kind, the first with a loss."""
    return [
        Number(
            cell=(f"{index // COUNTS[name]}",),
            tested=compared(sessions, KINDS[name], loss if index == 0 else 0.0),
            is_result=name == "speed",
        )
        for index, sessions in enumerate(drawn[name])
    ]


def judge(name: str, numbers: Sequence[Number], speeds: Sequence[Number]) -> list[SpeedVerdict]:
    """Judge the numbers of a kind as a comparison does."""
    of_kind = {"speed": (speeds, KINDS["speed"].margin), "": ((), 0.0)}
    witnesses = of_kind.get(KINDS[name].witnesses, (numbers, KINDS[name].margin))
    return [each.verdict for each in judge_together(numbers, KINDS[name].margin, witnesses)]


def night(drawn: Mapping[str, np.ndarray]) -> Mapping[str, list[float]]:
    """Return for each kind: an alarm, a suspicion, what it says it sees, and whether each factor was seen."""
    numbers = {name: numbers_of(name, drawn) for name in COUNTS}
    found = {}
    for name, some in numbers.items():
        verdicts = judge(name, some, numbers["speed"])
        least = detectable_loss(some[0].tested.foreseen, len(some), KINDS[name].margin, ALPHA)
        assert least is not None
        seen = []
        for factor in FACTORS[name]:
            worse = [*numbers_of(name, {name: drawn[name][:1]}, math.log(factor)), *some[1:]]
            seen.append(judge(name, worse, numbers["speed"])[0] in (SpeedVerdict.SLOWER, SpeedVerdict.SUSPECTED))
        is_alarm = SpeedVerdict.SLOWER in verdicts
        is_suspected = SpeedVerdict.SUSPECTED in verdicts and not is_alarm
        found[name] = [is_alarm, is_suspected, 1 / (1 - least), *seen]
    return found


@click.command()
@click.option("--nights", default=300, show_default=True, help="Of each kind.")
@click.option("--machine", "chosen", default="", help="Only machines whose names hold this.")
def main(nights: int, chosen: str) -> None:
    """Print a row per machine, way and kind."""
    table = Table(title=f"{nights} nights of {CELLS} cells, %")
    for heading in ("machine", "judged by", "kind", "false alarms", "suspected", "factor it says it sees", "seen"):
        table.add_column(heading, justify="right" if heading in ("false alarms", "suspected") else "left")
    for name, draw in MACHINES.items():
        for way, earlier in WAYS.items() if chosen in name else ():
            rng = np.random.default_rng(SEED)
            found = [night(draw(rng, earlier + 2)) for _ in range(nights)]
            for kind in COUNTS:
                alarms, suspected, factors, *seen = np.array([each[kind] for each in found], dtype=float).T
                shares = ", ".join(
                    f"x {factor:g}: {100 * np.mean(some):.0f}" for factor, some in zip(FACTORS[kind], seen, strict=True)
                )
                row = (f"{100 * np.mean(alarms):.1f}", f"{100 * np.mean(suspected):.1f}", f"{np.median(factors):.2f}")
                table.add_row(name, way, kind, *row, shares)
            whole = 100 * np.mean([any(each[kind][0] for kind in COUNTS) for each in found])
            table.add_row(name, way, "any kind", f"{whole:.1f}", "", "", "")
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
