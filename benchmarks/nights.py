"""How often a night fails without cause, and whether it fails when there is one.

    python benchmarks/nights.py
    python benchmarks/nights.py --nights 2000

Makes up nights of a suite of eight numbers, five repeats each, on machines whose noise is known: independent repeats,
normal or with heavy tails, repeats that resemble the one before, a drift within each session, single runs that are far
slower, two speeds that last for several runs. Nothing changes, so every number called slower is a false alarm. Then one
number of the eight loses what the comparison itself says it would notice, and is to be noticed in four of five nights;
and 5 and 10 %, to show how often these are. The interval of each number is to hold the true ratio, 1, in 95 of 100.

Ways to judge a night: without earlier nights; with twenty of them, against a baseline made before; in turns with the
baseline, ten pairs a night; and with twenty nights, where what is slower or suspected is then measured in turns
(`mlbench regress --confirm`). The last column is how the nights would have fared with repeats taken for
independent (Welch's test, corrected after Benjamini and Hochberg at 5 %), as many tools do.

Two speeds that last for many nights look like a loss that came to stay, if only one of them was ever seen. A machine's
show in all numbers at once, so such nights are suspected only. Where each number has speeds of its own, they are
recognised once some have come back; those that stay for twenty or fifty nights cannot be told from a loss by any
history, and the rows are here to show it.

Seeded: the same numbers every time. Some ten minutes of one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from mlbench.comparison.effect import detectable_loss, effect_of
from mlbench.comparison.tested import Tested, compare_by_sessions, compare_pairs
from mlbench.comparison.verdicts import ALPHA, MARGIN, Decision, Number, SpeedVerdict, judge_together

NUMBERS = 8
REPEATS = 5
EARLIER = 20
PAIRS = 10
LOSSES = 0.05, 0.1
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


def of_two_speeds(
    spread: float, switches: float, *, per: tuple[int, ...] = (NUMBERS,), gap: tuple[float, float] = (0.12, 0.12)
) -> Machine:
    """Two speeds, each for so many runs on average, whatever night it is.

    Args:
        spread: of runs at one speed.
        switches: how likely the speed changes from a run to the next.
        per: (NUMBERS,) if each number goes back and forth by itself, (1,) if the machine does.
        gap: by how much the slower is slower, from the first number to the last.
    """

    def machine(rng: np.random.Generator, sessions: int, runs: int) -> np.ndarray:
        state = sticky(rng, (*per, sessions * runs), switches).reshape(*per, sessions, runs)
        losses = np.linspace(*gap, NUMBERS)[:, None, None]
        speeds: np.ndarray = spread * rng.standard_normal((NUMBERS, sessions, runs)) - losses * state
        return speeds

    return machine


def with_hiccups(spread: float, often: float = 0.05, loss: float = 0.3) -> Machine:
    """Now and then a run is far slower than the others, for no reason that lasts."""

    def machine(rng: np.random.Generator, sessions: int, runs: int) -> np.ndarray:
        shape = (NUMBERS, sessions, runs)
        return spread * rng.standard_normal(shape) + math.log1p(-loss) * (rng.random(shape) < often)

    return machine


def heavy_tailed(spread: float) -> Machine:
    """Student's t with three degrees of freedom: far-off runs are common, on both sides."""
    return lambda rng, sessions, runs: spread * rng.standard_t(3, (NUMBERS, sessions, runs))


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
    "one run in twenty slower by 30 %, 1 %": with_hiccups(0.01),
    "one run in twenty slower by 30 %, 5 %": with_hiccups(0.05),
    "independent repeats, t(3), 1 %": heavy_tailed(0.01),
    "independent repeats, t(3), 5 %": heavy_tailed(0.05),
    "each its two speeds, 10 runs each, 1 %": of_two_speeds(0.01, 0.1),
    "each its two speeds, 10 runs each, 5 %": of_two_speeds(0.05, 0.1),
    "each its two speeds, 50 runs each, 1 %": of_two_speeds(0.01, 0.02),
    "each its two speeds, 50 runs each, 5 %": of_two_speeds(0.05, 0.02),
    "each its two speeds, 50 runs each, 8 %": of_two_speeds(0.08, 0.02),
    "each its two speeds, 100 runs each, 1 %": of_two_speeds(0.01, 0.01),
    "each its two speeds, 250 runs each, 1 %": of_two_speeds(0.01, 0.004),
    "machine of two speeds, 50 runs each, 1 %": of_two_speeds(0.01, 0.02, per=(1,)),
    "machine of two speeds, 50 runs each, 5 %": of_two_speeds(0.05, 0.02, per=(1,)),
    "machine of two speeds, 50 runs each, 8 %": of_two_speeds(0.08, 0.02, per=(1,)),
    "the same, numbers slower by 4 to 20 %, 1 %": of_two_speeds(0.01, 0.02, per=(1,), gap=(0.04, 0.2)),
    "the same, numbers slower by 4 to 20 %, 5 %": of_two_speeds(0.05, 0.02, per=(1,), gap=(0.04, 0.2)),
    "machine of two speeds, 250 runs each, 1 %": of_two_speeds(0.01, 0.004, per=(1,)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """How a night was judged."""

    alarm: bool
    """A number was called slower, though nothing changed."""
    suspected: bool
    """Likewise suspected, and none was called slower."""
    seen: bool
    """The loss that one number was given was called slower, or suspected."""
    power: tuple[bool, ...]
    """Whether that was so of a loss of each share in `LOSSES`."""
    detectable: float
    held: float
    """Of its intervals, the share that holds 1."""


Numbers = Sequence[Callable[[float], Tested]]
"""How each number of a night is compared, given a loss."""


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
            return compare_pairs(differences + math.log1p(-loss))

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


def judge(numbers: Numbers, again: Numbers = ()) -> list[Night]:
    """Judge a night on which nothing changed, and the same night with a loss in its first number.

    Args:
        numbers: of the night.
        again: measured in turns; where given, the night is returned once more, with what is slower or suspected judged
            by these.
    """
    tested = [compared(0.0) for compared in numbers]
    decisions = decide_night(tested)
    loss = detectable_loss(decisions[0].tested.foreseen, NUMBERS, MARGIN, ALPHA)
    assert loss is not None
    losses = (loss, *LOSSES)
    slowed = [decide_night([numbers[0](each), *tested[1:]]) for each in losses]
    nights = []
    for its in [(), again] if again else [()]:
        quiet = confirmed(decisions, its, 0.0)
        seen = [confirmed(night, its, each)[0] in WORSE for night, each in zip(slowed, losses, strict=True)]
        night = Night(
            alarm=SpeedVerdict.SLOWER in quiet,
            suspected=SpeedVerdict.SUSPECTED in quiet and SpeedVerdict.SLOWER not in quiet,
            seen=seen[0],
            power=tuple(seen[1:]),
            detectable=loss,
            held=float(np.mean([each.tested.effect.low <= 1 <= each.tested.effect.high for each in decisions])),
        )
        nights.append(night)
    return nights


def decide_night(tested: Sequence[Tested]) -> list[Decision]:
    """Judge the numbers of a night together, each a cell of its own."""
    return judge_together([Number(cell=(f"{index}",), tested=each) for index, each in enumerate(tested)], MARGIN)


def confirmed(decisions: Sequence[Decision], again: Numbers, loss: float) -> list[SpeedVerdict]:
    """Return the verdicts of a night whose first number has a loss, confirmed in turns where that is possible."""
    found = [each.verdict for each in decisions]
    worse = [index for index, verdict in enumerate(found) if verdict in WORSE]
    if again and worse:
        in_turns_again = decide_night([again[index](loss if index == 0 else 0.0) for index in worse])
        for index, decision in zip(worse, in_turns_again, strict=True):
            found[index] = decision.verdict
    return found


WORSE = (SpeedVerdict.SLOWER, SpeedVerdict.SUSPECTED)
WAYS = ("no history", f"{EARLIER} nights", f"{EARLIER} nights, then turns", f"{PAIRS} pairs")


def nights_of(machine: Machine, nights: int) -> Iterator[tuple[str, list[Night]]]:
    """Yield so many nights of a machine for each way to judge them."""
    alone, known, anew, pairs = (np.random.default_rng(seed) for seed in (SEED, SEED, SEED + 1, SEED))
    yield WAYS[0], [judge(list(without_history(alone, machine)))[0] for _ in range(nights)]
    found = [judge(list(with_history(known, machine)), list(in_turns(anew, machine))) for _ in range(nights)]
    yield WAYS[1], [by_history for by_history, _ in found]
    yield WAYS[2], [by_turns for _, by_turns in found]
    yield WAYS[3], [judge(list(in_turns(pairs, machine)))[0] for _ in range(nights)]


@click.command()
@click.option("--nights", default=300, show_default=True, help="Of each kind.")
@click.option("--machine", "chosen", default="", help="Only machines whose names hold this.")
def main(nights: int, chosen: str) -> None:
    """Print a row per machine and way."""
    table = Table(title=f"{nights} nights of {NUMBERS} numbers each, %")
    shares = [f"seen of {loss:.0%}" for loss in LOSSES]
    headings = (
        *("false alarms", "suspected", "loss it says it sees", "seen", *shares, "intervals hold", "as independent"),
    )
    for heading in ("machine", "judged by", *headings):
        table.add_column(heading, justify="left" if heading in ("machine", "judged by") else "right")
    for name, machine in MACHINES.items():
        if chosen not in name:
            continue
        naive = np.random.default_rng(SEED)
        alarms = np.mean([as_if_independent(naive, machine) for _ in range(nights)])
        for way, found in nights_of(machine, nights):
            table.add_row(
                name,
                way,
                f"{100 * np.mean([night.alarm for night in found]):.1f}",
                f"{100 * np.mean([night.suspected for night in found]):.1f}",
                f"{100 * np.median([night.detectable for night in found]):.0f}",
                f"{100 * np.mean([night.seen for night in found]):.0f}",
                *(f"{100 * share:.0f}" for share in np.mean([night.power for night in found], axis=0)),
                f"{100 * np.mean([night.held for night in found]):.0f}",
                f"{100 * alarms:.0f}" if way == "no history" else "",
            )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
