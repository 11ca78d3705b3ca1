"""How often a night fails without cause, and whether it fails when there is one.

    python benchmarks/nights.py
    python benchmarks/nights.py --nights 2000

Makes up nights of a suite of eight numbers, five repeats each, on machines whose noise is known: independent repeats,
repeats that resemble the one before, a drift within each session, two speeds that last for several runs. Nothing
changes, so every number called slower is a false alarm. Then one number of the eight loses what the comparison itself
says it would notice, and is to be noticed in four of five nights. The interval of each number is to hold the true
ratio, 1, in 95 of 100.

Three ways to judge a night: without earlier nights; with twenty of them, against a baseline made before; and in turns
with the baseline, ten pairs a night. The last column is how the nights would have fared with repeats taken for
independent (Welch's test, corrected after Benjamini and Hochberg at 5 %), as many tools do.

Two speeds that last for many nights look like a loss that came to stay, if only one of them was ever seen: measured in
turns they do no harm, against a history they do. That row is here to show it.

Seeded: the same numbers every time. A minute or two of one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from mlbench.comparison.compare import ALPHA, MARGIN, Verdict, decide
from mlbench.comparison.effect import Effect, adjusted, detectable_loss, effect_of, effect_of_pairs
from mlbench.comparison.speeds import Tested, compare_by_sessions

NUMBERS = 8
REPEATS = 5
EARLIER = 20
PAIRS = 10
SEED = 20261122

Machine = Callable[[np.random.Generator, int, int], np.ndarray]
"""Draws the logarithms of so many sessions of so many runs: (NUMBERS, sessions, runs)."""


def correlated(rng: np.random.Generator, shape: tuple[int, ...], correlation: float) -> np.ndarray:
    """Return AR(1) noise of unit variance along the last axis."""
    noise = rng.standard_normal(shape)
    for index in range(1, shape[-1]):
        noise[..., index] = correlation * noise[..., index - 1] + math.sqrt(1 - correlation**2) * noise[..., index]
    return noise


def sticky(rng: np.random.Generator, shape: tuple[int, ...], switches: float) -> np.ndarray:
    """Return 0 or 1 along the last axis: a state that changes with a probability from one run to the next."""
    start = rng.random((*shape[:-1], 1)) < 0.5
    changes = rng.random(shape) < switches
    return (start + np.cumsum(changes, axis=-1)) % 2


def independent(spread: float) -> Machine:
    """No run knows of another."""
    return lambda rng, sessions, runs: spread * rng.standard_normal((NUMBERS, sessions, runs))


def resembling(spread: float) -> Machine:
    """A run resembles the one before in its session."""
    return lambda rng, sessions, runs: spread * correlated(rng, (NUMBERS, sessions, runs), 0.8)


def resembling_throughout(spread: float) -> Machine:
    """The last run of a night and the first of the next resemble each other too."""

    def machine(rng: np.random.Generator, sessions: int, runs: int) -> np.ndarray:
        return spread * correlated(rng, (NUMBERS, sessions * runs), 0.8).reshape(NUMBERS, sessions, runs)

    return machine


def by_night(spread: float, correlation: float) -> Machine:
    """Nights differ more than the runs of a night, and a night resembles the one before."""

    def machine(rng: np.random.Generator, sessions: int, runs: int) -> np.ndarray:
        nights = spread * correlated(rng, (NUMBERS, sessions), correlation)
        return nights[..., None] + 0.01 * rng.standard_normal((NUMBERS, sessions, runs))

    return machine


def drifting(spread: float) -> Machine:
    """Each session gets slower by up to 5 % from its first run to its last, as a machine that warms up."""

    def machine(rng: np.random.Generator, sessions: int, runs: int) -> np.ndarray:
        loss = 0.05 * rng.random((1, sessions, 1)) * np.linspace(0, 1, runs)
        return spread * correlated(rng, (NUMBERS, sessions, runs), 0.8) - loss

    return machine


def of_two_speeds(spread: float, switches: float) -> Machine:
    """Two speeds 12 % apart, each for ten runs on average, whatever night it is."""

    def machine(rng: np.random.Generator, sessions: int, runs: int) -> np.ndarray:
        state = sticky(rng, (NUMBERS, sessions * runs), switches).reshape(NUMBERS, sessions, runs)
        return spread * rng.standard_normal((NUMBERS, sessions, runs)) - 0.12 * state

    return machine


MACHINES: dict[str, Machine] = {
    "independent repeats, 1 %": independent(0.01),
    "independent repeats, 5 %": independent(0.05),
    "independent repeats, 8 %": independent(0.08),
    "AR(1) 0.8 within a night, 1 %": resembling(0.01),
    "AR(1) 0.8 within a night, 5 %": resembling(0.05),
    "AR(1) 0.8 within a night, 8 %": resembling(0.08),
    "AR(1) 0.8 through all nights, 5 %": resembling_throughout(0.05),
    "AR(1) 0.8 from night to night, 3 %": by_night(0.03, 0.8),
    "drift of 5 % in a night, AR(1), 3 %": drifting(0.03),
    "two speeds for 10 runs each, 1 %": of_two_speeds(0.01, 0.1),
    "two speeds for 10 runs each, 5 %": of_two_speeds(0.05, 0.1),
    "two speeds for 50 runs each, 1 %": of_two_speeds(0.01, 0.02),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """How a night was judged."""

    alarm: bool
    seen: bool
    """The loss that one number was given was called slower."""
    detectable: float
    held: float
    """Of its intervals, the share that holds 1."""


def without_history(rng: np.random.Generator, machine: Machine) -> Iterator[Callable[[float], Tested]]:
    """Yield for each number how it is compared, given a loss: five repeats on one night, five on another."""
    yield from with_history(rng, machine, earlier=0)


def with_history(
    rng: np.random.Generator, machine: Machine, *, earlier: int = EARLIER
) -> Iterator[Callable[[float], Tested]]:
    """Yield for each number how it is compared, given a loss."""
    for sessions in machine(rng, 1 + earlier + 1, REPEATS):
        base, later, new = [sessions[0]], list(sessions[1:-1]), sessions[-1]

        def compared(loss: float, base=base, later=later, new=new) -> Tested:  # type: ignore[no-untyped-def]
            tested = compare_by_sessions(base, [new + math.log1p(-loss)], before=base, after=later, margin=MARGIN)
            assert tested
            return tested

        yield compared


def in_turns(rng: np.random.Generator, machine: Machine) -> Iterator[Callable[[float], Tested]]:
    """Yield for each number how it is compared, given a loss: A B B A in one session."""
    turns = np.arange(2 * PAIRS) // 2 % 2
    for (runs,) in machine(rng, 1, 2 * PAIRS):
        first, second = runs[::2], runs[1::2]
        differences = np.where(turns[::2] == 0, second - first, first - second)

        def compared(loss: float, differences=differences) -> Tested:  # type: ignore[no-untyped-def]
            effect = effect_of_pairs(differences + math.log1p(-loss))
            return Tested(effect=effect, foreseen=effect, spread=None)  # type: ignore[arg-type]

        yield compared


def as_if_independent(rng: np.random.Generator, machine: Machine) -> bool:
    """Return whether a night raises an alarm when its repeats are taken for independent."""
    sides = machine(rng, 2, REPEATS)
    effects = [effect_of(np.exp(base), np.exp(new), higher_is_better=True) for base, new in sides]
    p_values = np.array([effect.p_value for effect in effects], dtype=float)
    order = np.argsort(p_values)
    is_sure = [False] * NUMBERS
    for rank in range(NUMBERS, 0, -1):
        if p_values[order[rank - 1]] <= 0.05 * rank / NUMBERS:
            for index in order[:rank]:
                is_sure[index] = True
            break
    return any(sure and effect.ratio < 1 / (1 + MARGIN) for sure, effect in zip(is_sure, effects, strict=True))


def judge(numbers: Sequence[Callable[[float], Tested]]) -> Night:
    """Judge a night on which nothing changed, and the same night with a loss in its first number."""
    tested = [compared(0.0) for compared in numbers]
    detectable = detectable_loss(tested[0].foreseen, NUMBERS, MARGIN, ALPHA)
    assert detectable is not None
    effects = [each.effect for each in tested]
    slowed = [numbers[0](detectable).effect, *effects[1:]]
    return Night(
        alarm=Verdict.SLOWER in verdicts(effects),
        seen=verdicts(slowed)[0] is Verdict.SLOWER,
        detectable=detectable,
        held=float(np.mean([effect.low <= 1 <= effect.high for effect in effects])),
    )


def verdicts(effects: Sequence[Effect]) -> list[Verdict]:
    """Judge the numbers of a night together."""
    p_values = [effect.p_value for effect in effects if effect.p_value is not None]
    return [decide(effect, p_value, MARGIN) for effect, p_value in zip(effects, adjusted(p_values), strict=True)]


WAYS = {"no history": without_history, f"{EARLIER} nights": with_history, f"{PAIRS} pairs": in_turns}


@click.command()
@click.option("--nights", default=300, show_default=True, help="Of each kind.")
def main(nights: int) -> None:
    """Print a row per machine and way."""
    table = Table(title=f"{nights} nights of {NUMBERS} numbers each, %")
    for heading in (
        "machine",
        "judged by",
        "false alarms",
        "loss it says it sees",
        "seen",
        "intervals hold",
        "as independent",
    ):
        table.add_column(heading, justify="left" if heading in ("machine", "judged by") else "right")
    for name, machine in MACHINES.items():
        naive = np.random.default_rng(SEED)
        alarms = np.mean([as_if_independent(naive, machine) for _ in range(nights)])
        for way, numbers in WAYS.items():
            rng = np.random.default_rng(SEED)
            found = [judge(list(numbers(rng, machine))) for _ in range(nights)]
            table.add_row(
                name,
                way,
                f"{100 * np.mean([night.alarm for night in found]):.1f}",
                f"{100 * np.median([night.detectable for night in found]):.0f}",
                f"{100 * np.mean([night.seen for night in found]):.0f}",
                f"{100 * np.mean([night.held for night in found]):.0f}",
                f"{100 * alarms:.0f}" if way == "no history" else "",
            )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
