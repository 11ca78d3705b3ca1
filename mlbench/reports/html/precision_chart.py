"""A chart of speed over loss: a point for each precision and transform, the untouched model as the origin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair

from mlbench.contracts.precision import Precision
from mlbench.reports.html.drawing import Figure, Mark, Palette, limit_line, points, svg_of, with_links
from mlbench.reports.precision_table import first_loss
from mlbench.reports.summary import Combination
from mlbench.reports.table import table


def precision_figure(combinations: Sequence[Combination], palette: Palette) -> Figure | None:
    """Return the speed-up of each precision and transform over its loss; None if no backend ran several.

    Args:
        combinations: of one workload in one scenario whose result is a throughput. A backend without runs of one kind
            of the untouched model in fp32, or with runs of several kinds, takes no part.
        palette: with their series.
    """
    marks = list(_marks(combinations, palette))
    if all(mark.x == 0 and mark.y == 1 for mark in marks):
        return None
    x = altair.X("x:Q").title("loss in the first score, %").axis(tickCount=5)
    y = altair.Y("y:Q").title("speed-up").scale(zero=False).axis(tickCount=5)
    dots = points(marks).encode(x=x, y=y, color=palette.colour_channel(), shape=palette.shape_channel()).mark_point()
    return Figure(
        title="Speed over loss",
        note="Each precision and transform against its backend's untouched model in fp32, which is where the lines "
        "cross: medians of valid runs. Higher is faster, further left is better.",
        views={"": svg_of(*limit_line(1, ""), *limit_line(0, "", is_upright=True), with_links(dots, marks))},
        numbers=table(
            "Speed-up and loss",
            ["series", "speed-up#", "loss#"],
            [[mark.series, f"{mark.y:.2f}", f"{mark.x:.2f} %"] for mark in marks],
        ),
    )


def _marks(combinations: Sequence[Combination], palette: Palette) -> Iterator[Mark]:
    for backend in dict.fromkeys(each.newest.backend for each in combinations):
        ours = [each for each in combinations if each.newest.backend == backend and each.median]
        bases = [each for each in ours if each.newest.precision_and_transform == Precision.FP32]
        for each in ours if len(bases) == 1 else ():
            score, loss = first_loss(each.counted, bases[0].counted)
            if loss is not None and each.median and bases[0].median:
                ratio, link = each.median / bases[0].median, palette.links.get(each.name, "")
                text = f"{each.series}: {ratio:.2f} times as fast, loss of {loss:.2f} % in {score}"
                yield Mark(series=each.series, x=loss, y=ratio, text=text, link=link)
