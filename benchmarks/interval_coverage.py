"""How often the interval of a step in `mlbench history` holds the true ratio, if sessions are independent.

Welch's interval and the bootstrap promise 95 times in 100. What `mlbench compare` and `regress` promise on nights that
are not independent is counted by `nights.py`.

    python benchmarks/interval_coverage.py

Draws two sets of repeats whose logarithms follow a distribution, the second a twentieth faster, compares them, and
counts. Seeded: the same numbers every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from mlbench.comparison.effect import effect_of

TRUE_RATIO = 1.05
SPREAD = 0.02
"""Of the logarithms: two in a hundred, as repeats on a quiet machine differ."""

SHAPES: Mapping[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, count: rng.standard_normal(count),
    "exponential": lambda rng, count: rng.exponential(size=count),
    "Student's t, 3 degrees": lambda rng, count: rng.standard_t(3, count),
}


def held(shape: str, repeats: int, draws: int) -> int:
    """Return in how many draws the interval holds the true ratio."""
    rng, draw = np.random.default_rng(1), SHAPES[shape]
    found = 0
    for _ in range(draws):
        base, new = (np.exp(SPREAD * draw(rng, repeats)) for _ in range(2))
        effect = effect_of(base.tolist(), (new * TRUE_RATIO).tolist(), higher_is_better=True)
        found += effect.low <= TRUE_RATIO <= effect.high
    return found


@click.command()
@click.option("--draws", default=2000, show_default=True)
def main(draws: int) -> None:
    """Print the share of intervals that hold the true ratio, in percent."""
    table = Table(title=f"intervals that hold the true ratio, % of {draws} draws")
    table.add_column("repeats", justify="right")
    for shape in SHAPES:
        table.add_column(shape, justify="right")
    for repeats in (3, 5, 9):
        shares = (100 * held(shape, repeats, draws) / draws for shape in SHAPES)
        table.add_row(str(repeats), *(f"{share:.1f}" for share in shares))
    chance = 100 * math.sqrt(0.95 * 0.05 / draws)
    Console(width=100).print(table, f"By chance {chance:.1f} more or less.")


if __name__ == "__main__":
    main()
