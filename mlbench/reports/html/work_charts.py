"""Charts of engine statistics and accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair

from mlbench.contracts.statistics import EngineStatistics, GenerationStatistics
from mlbench.records.run_record import RunRecord, TargetRecord
from mlbench.reports.console import spell_target
from mlbench.reports.html.drawing import SOFT, Figure, Mark, Palette, Row, joined, points, svg_of
from mlbench.reports.summary import Combination
from mlbench.reports.table import TableCell, table
from mlbench.reports.units import duration, percent, quantity, three_digits


def _generates(combination: Combination) -> bool:
    return isinstance(combination.newest.engine, GenerationStatistics)


def _counted_alike(combinations: Sequence[Combination]) -> Mapping[str, EngineStatistics]:
    """Return the statistics of each series that counts in the first one's unit, samples or tokens."""
    return {each.series: each.newest.engine for each in combinations if _generates(each) == _generates(combinations[0])}


def sweep_figure(combinations: Sequence[Combination], palette: Palette) -> Figure | None:
    """Return the speed of each batch size in warm-up; None if no engine tried several."""
    swept = [each for each in combinations if len(each.newest.engine.sweep_per_s) > 1]
    if not swept:
        return None
    found, unit = _counted_alike(swept), "tokens/s" if _generates(swept[0]) else "samples/s"
    marks = [
        Mark(series=series, x=size, y=rate, text=f"{series}: batch {size}, {quantity(rate, unit)}")
        for series, engine in found.items()
        for size, rate in sorted(engine.sweep_per_s.items())
    ]
    chosen = points([mark for mark in marks if mark.x == found[mark.series].batch])
    sizes = sorted({size for engine in found.values() for size in engine.sweep_per_s})
    x = altair.X("x:Q").scale(type="log", base=2, nice=False, padding=12).title("batch size").axis(values=sizes)
    y = altair.Y("y:Q").title(unit).scale(zero=True).axis(tickCount=5, format=",~f")
    ring = chosen.encode(x=x, y=y, color=palette.colour_channel(), shape=palette.shape_channel())
    ring = ring.mark_point(size=150, filled=False, strokeWidth=1.5, aria=False)
    return Figure(
        title="Batch size",
        note="Speed of each batch size during warm-up. A ring marks the chosen one.",
        views={"": svg_of(*joined(marks, x, y, palette), ring)},
        numbers=table(
            f"{unit} by batch size, in warm-up",
            ["series", *(f"{size}#" for size in sizes)],
            [
                [series, *(three_digits(by[size]) if size in by else "-" for size in sizes)]
                for series, by in ((series, engine.sweep_per_s) for series, engine in found.items())
            ],
        ),
    )


def occupancy_figure(combinations: Sequence[Combination], palette: Palette, scenario: str) -> Figure | None:
    """Return the sizes of batches in a scenario; None if all were about the same size."""
    counting = [each for each in combinations if each.newest.engine.by_size]
    if not counting:
        return None
    counts_steps = _generates(counting[0])
    # a full batch answers more samples than one of a single sample
    what = "decode steps" if counts_steps else "samples"
    found = {
        series: _shares(engine.by_size, is_weighted=not counts_steps)
        for series, engine in _counted_alike(counting).items()
    }
    bins = sorted({first for shares in found.values() for first in shares})
    if len(bins) < 2:
        return None
    names = {first: _bin_name(first) for first in bins}
    rows: list[Row] = [
        {"series": series, "bin": names[first], "share": share, "text": f"{series}: {names[first]}, {percent(share)}"}
        for series, shares in found.items()
        for first, share in shares.items()
    ]
    bars = points(rows).encode(
        x=altair.X("bin:N")
        .title("in flight together" if counts_steps else "samples in a batch")
        .scale(domain=[names[first] for first in bins], paddingInner=0.25)
        .axis(labelAngle=0, grid=False),
        xOffset=altair.XOffset("series:N").scale(domain=list(found)),
        y=altair.Y("share:Q").title(f"share of {what}").axis(format="%", tickCount=5),
        color=palette.colour_channel(),
    )
    title = f"{scenario}: how full batches were"
    return Figure(
        title=title,
        note=f"Share of {what} by the size of their batch, including the accuracy test.",
        views={"": svg_of(bars.mark_bar())},
        numbers=table(
            f"{title}: share of {what}",
            ["series", *(f"{names[first]}#" for first in bins)],
            [[series, *(percent(shares.get(first, 0.0)) for first in bins)] for series, shares in found.items()],
        ),
    )


def _shares(counts: Mapping[int, int], *, is_weighted: bool) -> Mapping[int, float]:
    """Return shares by the first size of each power of two: 1, 2, 3 to 4, 5 to 8; by samples, or by steps."""
    sums: dict[int, float] = {}
    for size, count in counts.items():
        first = 2 ** ((size - 1).bit_length() - 1) + 1 if size > 1 else 1
        sums[first] = sums.get(first, 0.0) + count * (size if is_weighted else 1)
    whole = sum(sums.values())
    return {first: part / whole for first, part in sums.items()} if whole else {}


def _bin_name(first: int) -> str:
    """Return the sizes of a bin by its first: ``1``, ``2``, ``3-4``, ``5-8``."""
    return str(first) if first < 3 else f"{first}\N{EN DASH}{2 * (first - 1)}"


def accuracy_figure(combinations: Sequence[Combination], palette: Palette) -> Figure | None:
    """Return required scores in percent of their references, with the targets; None without scores."""
    held = [(each, target) for each in combinations for target in _required(each.newest) if target.reference]
    rows: list[Row] = [
        {
            "series": each.series,
            "score": _target_name(target),
            "share": 100 * target.value / target.reference,
            "text": f"{each.series}, {each.scenario}: {target.score} {target.value:.3f}",
        }
        for each, target in held
        if target.value is not None
    ]
    if not rows:
        return None
    limits = {_target_name(target): target for _, target in held}
    marks: list[Row] = [
        {"score": name, "share": 100 * value / target.reference, "text": f"{name} target {value:.3f}"}
        for name, target in limits.items()
        for value in (target.lower, target.upper)
        if value is not None
    ]
    places = [row["share"] for row in (*rows, *marks)]
    low, high = min(*places, 99.0), max(*places, 100.0)
    space = 0.06 * (high - low)
    share = (
        altair.X("share:Q")
        .title("% of the reference's score; | target")
        .scale(domain=[low - space, high + space], nice=False)
        .axis(tickCount=5)
    )
    names = list(limits)
    score = altair.Y("score:N").title(None).scale(domain=names).axis(grid=False, labelLimit=130)
    ticks = points(marks).mark_tick(color=SOFT, thickness=2, size=28).encode(x=share, y=score)
    offset = altair.YOffset("series:N").scale(domain=list(palette.series))
    dots = (
        points(rows)
        .encode(x=share, y=score, yOffset=offset, color=palette.colour_channel(), shape=palette.shape_channel())
        .mark_point()
    )
    return Figure(
        title="Accuracy",
        note="Required scores, a point per scenario, with the target as a mark. A point left of its mark misses the "
        "target (right of it if lower is better).",
        views={"": svg_of(ticks, dots, height=90 + 45 * len(names))},
        numbers=table(
            "Scores and targets",
            ["series", "scenario", "score", "reached#", "target#", "reference#", "verdict"],
            [
                [
                    each.series,
                    each.scenario,
                    _target_name(target),
                    *_format_target(target),
                    f"{target.reference:,.3f}",
                    TableCell("met", tone="good") if target.is_met else TableCell("missed", tone="bad"),
                ]
                for each, target in held
            ],
        ),
    )


def _required(record: RunRecord) -> Sequence[TargetRecord]:
    return [target for target in record.accuracy.targets if target.required] if record.accuracy else []


def _target_name(target: TargetRecord) -> str:
    return f"{target.score} @{target.name}" if target.name else target.score


def _format_target(target: TargetRecord) -> tuple[str, str]:
    reached, window = spell_target(target, 3)
    if target.lower is None:
        return reached, f"at most {window}"
    return reached, f"at least {window}" if target.upper is None else window.replace("..", " to ")


def useful_share(record: RunRecord) -> str:
    """Return the share of the computation that is useful, not padding or idle slots; empty if not counted."""
    engine = record.engine
    if not isinstance(engine, GenerationStatistics):
        return "" if engine.useful_share is None else percent(engine.useful_share)
    phases = {"prefill": engine.prefill.useful_share, "decode": engine.decode.useful_share}
    return ", ".join(f"{name} {percent(share)}" for name, share in phases.items() if share is not None)


def mean_batch(record: RunRecord) -> str:
    """Return samples per batch, or sequences per decode step; empty where not counted."""
    counts = record.engine.by_size
    return three_digits(sum(size * count for size, count in counts.items()) / sum(counts.values())) if counts else ""


def waiting(record: RunRecord) -> str:
    """Return the mean time that a sample waited for a slot; empty if the engine has no slots."""
    engine = record.engine
    if not isinstance(engine, GenerationStatistics) or not engine.samples:
        return ""
    return duration(engine.queue_ns / engine.samples)
