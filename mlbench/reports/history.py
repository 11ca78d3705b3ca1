"""Histories as tables with a line of blocks, and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence

from mlbench.comparison.history import History, Level, Step
from mlbench.comparison.kinds import KINDS, SPEED
from mlbench.reports.comparison import interval_of
from mlbench.reports.table import table
from mlbench.reports.text_table import WIDTH, TextTable, print_line, wrapped_table
from mlbench.reports.units import plural, quantity

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDEST = 100


def history_heading(history: History) -> str:
    """Return the title of a history: its runs, their number and their variation."""
    first, last = (f"{point.created:%Y-%m-%d}" for point in (history.points[0], history.points[-1]))
    aside = f", {history.set_aside} failed or INVALID" if history.set_aside else ""
    runs, points, sessions = sum(point.runs for point in history.points), len(history.points), history.sessions
    tags = f" of {plural(len({point.tag for point in history.points}), 'tag')}" if points > sessions else ""
    among = "" if runs == sessions else f"{tags} in {plural(sessions, 'session')}"
    spread = f"{history.spread:.1%} from session to session" if sessions > 1 else "one session shows no spread"
    return f"{history.name}: {history.measure}, {plural(runs, 'run')}{among}{aside}, {first} to {last}, {spread}"


def is_shown(history: History) -> bool:
    """Return whether a history is shown: that of a speed, or of memory and the like where its level changed."""
    return history.kind == SPEED.name or bool(history.steps)


def sparkline(history: History) -> str:
    """Return a block per point, scaled to the largest value, with a bar at each step.

    Of more than a hundred points each block is the mean of several.
    """
    width = max(1, math.ceil(len(history.points) / _WIDEST))
    values = [math.log(point.value) for point in history.points]
    steps = {step.index // width for step in history.steps}
    groups = [values[start : start + width] for start in range(0, len(values), width)]
    means = [math.fsum(group) / len(group) for group in groups]
    low, high = min(means), max(means)
    heights = [round((mean - low) / (high - low) * (len(_BLOCKS) - 1)) if high > low else 0 for mean in means]
    return "".join(("│" if place in steps else "") + _BLOCKS[height] for place, height in enumerate(heights))


def history_table(history: History) -> TextTable:
    """Return a row per level: its start, number of runs and value, and the verdict on the step to it."""
    steps = zip(history.levels, (None, *history.steps), strict=True)
    change = "change#" if KINDS[history.kind].is_amount else "speed#"
    headings = ("since", "runs#", "level#", change, "interval#", "step", "first run")
    shown = table("", headings, [_row(history, *each) for each in steps])
    return wrapped_table(shown, box=None, pad_edge=False)


def history_notes(history: History) -> Iterator[str]:
    """Yield the reason why steps were not searched, and other changes at each step."""
    if history.reason:
        yield f"Steps were not searched: {history.reason}."
    for step in history.steps:
        for difference in step.differences:
            yield f"{history.points[step.index].created:%Y-%m-%d %H:%M}: {difference}."


def histories_json(histories: Sequence[History]) -> str:
    """Return a JSON array with an object per history, its levels included."""
    content = [
        dataclasses.asdict(history) | {"levels": [dataclasses.asdict(level) for level in history.levels]}
        for history in histories
    ]
    return json.dumps(content, indent=2, default=str)


def print_histories(histories: Sequence[History], width: int | None = None) -> None:
    """Print histories to standard output, in a given width."""
    from rich.console import Console

    console = Console(width=width or WIDTH)
    told = [each for each in histories if is_shown(each)]
    for history in told:
        print_line(console, history_heading(history), style="bold")
        print_line(console, sparkline(history))
        console.print(history_table(history))
        for note in history_notes(history):
            print_line(console, f"  {note}")
        console.print()
    kinds = [each.kind for each in histories if not is_shown(each)]
    if kinds:
        counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds))
        print_line(console, f"Not shown, since their level did not change: {counts}; --json has them.")


def _row(history: History, level: Level, step: Step | None) -> tuple[str, ...]:
    first = history.points[level.first]
    since, runs = (
        f"{first.created:%Y-%m-%d %H:%M}",
        str(sum(point.runs for point in history.points[level.first : level.last + 1])),
    )
    height = quantity(level.value, history.unit)
    if step is None:
        return (since, runs, height, "", "", "", first.run_id)
    change = (f"x {step.effect.ratio:.3f}", interval_of(step.effect))
    return (since, runs, height, *change, str(step.verdict), first.run_id)
