"""The style of all charts, and their conversion to SVG.

A chart is drawn once, by Vega in this process, and stands in the page as SVG: it needs no script, prints sharply, and
is a tenth of the size of the library that would draw it in the browser. Its colours are variables of the page's style
sheet, so that the same drawing is right in light and in dark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

import altair
import vl_convert

from mlbench.reports.plain_text import single_line
from mlbench.reports.table import ReportTable
from mlbench.reports.units import TIMES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = dict[str, Any]
"""A mark's data, and its ``text``: the tooltip. One that passes between functions is a dataclass."""

Scale = Literal["log", "linear"]
"""The scale of an axis of times, under the names that Vega gives them."""

WIDTH, HEIGHT = 340, 230
"""Width in pixels: that of a phone, so that charts need not shrink there."""

INK, SOFT, FAINT, WARN = "var(--ink)", "var(--soft)", "var(--line)", "var(--bad)"

_COLOURS = tuple(f"var(--series-{number})" for number in range(1, 9))
_SHAPES = {
    "circle": "M5,0A5,5,0,1,1,-5,0A5,5,0,1,1,5,0Z",
    "square": "M-4.5,-4.5h9v9h-9Z",
    "triangle-up": "M0,-5L5,4H-5Z",
    "diamond": "M0,-6L5,0L0,6L-5,0Z",
    "triangle-down": "M0,5L5,-4H-5Z",
    "cross": "M-2,-5h4v3h3v4h-3v3h-4v-3h-3v-4h3Z",
    "triangle-left": "M-5,0L4,-5V5Z",
    "triangle-right": "M5,0L-4,-5V5Z",
}
"""Vega's names of shapes, with outlines for the legend."""


_TWO_DAYS_MS = 2 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart, its description in words, and its numbers."""

    title: str
    note: str
    """Description of the chart and how to read it, in a sentence or two."""
    views: Mapping[str, str]
    """SVG drawings by their names, such as ``p99, linear``: the first is shown, others can be chosen."""
    numbers: ReportTable

    @property
    def svg(self) -> str:
        """The drawing that is shown first."""
        return next(iter(self.views.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A mark of a chart, with its place in the units of the axes."""

    series: str = ""
    line: str = ""
    """A part of the series that has a line of its own."""
    x: float
    """Moments are in milliseconds, Vega's unit."""
    x2: float = 0.0
    """End of a horizontal line."""
    y: float = 0.0
    text: str
    """The tooltip."""
    link: str = ""


@dataclass(frozen=True)
class Palette:
    """Colour and shape of each series, the same on the whole page, and where its marks lead."""

    series: tuple[str, ...]
    links: Mapping[str, str] = field(default_factory=dict)
    """The address of each combination's details, by its name; marks without one lead nowhere."""

    def colour(self, series: str) -> str:
        """Return a colour of the style sheet."""
        return _COLOURS[self.series.index(series) % len(_COLOURS)]

    def shape(self, series: str) -> str:
        """Return a shape of Vega's; it distinguishes series where colours do not."""
        number = self.series.index(series)
        return tuple(_SHAPES)[(number + number // len(_SHAPES)) % len(_SHAPES)]  # shifts when the colours repeat

    def outline(self, series: str) -> str:
        """Return the shape as an SVG path around the origin."""
        return _SHAPES[self.shape(series)]

    def colour_channel(self) -> altair.Color:
        """Return the colour by the field ``series``, without a legend: the page has one for all charts."""
        import altair

        domain = list(self.series)
        return altair.Color("series:N").scale(domain=domain, range=list(map(self.colour, domain))).legend(None)

    def shape_channel(self) -> altair.Shape:
        """Return the shape by the field ``series``, without a legend."""
        import altair

        domain = list(self.series)
        return altair.Shape("series:N").scale(domain=domain, range=list(map(self.shape, domain))).legend(None)


def points(rows: Sequence[Row | DataclassInstance]) -> altair.Chart:
    """Return a chart over rows."""
    values = [asdict(row) if is_dataclass(row) else row for row in rows]
    return altair.Chart(altair.InlineData(values=values)).encode(altair.Description("text:N"))


def with_links(marks: altair.Chart, rows: Sequence[Any]) -> altair.Chart:
    """Return marks that lead to the address in their field ``link``, where they have one."""
    return marks.encode(altair.Href("link:N")) if any(each.link for each in rows) else marks


def joined(
    marks: Sequence[Mark], x: altair.X, y: altair.Y, palette: Palette, *, opacity: float = 1.0
) -> list[altair.Chart]:
    """Return a line through the marks of each series, and the marks."""
    base = points(marks).encode(x=x, y=y, color=palette.colour_channel(), shape=palette.shape_channel())
    return [base.mark_line(aria=False, point=False, opacity=opacity), with_links(base.mark_point(), marks)]


def svg_of(*layers: Any, height: int = HEIGHT) -> str:
    """Draw layers over each other."""
    chart = altair.layer(*layers).properties(
        width=WIDTH,
        height=height,
        autosize=altair.AutoSizeParams(type="fit", contains="padding"),
        padding=4,
        background="transparent",
    )
    # names of series stand in Vega's expressions, whose grammar knows no control characters
    document = _with_plain_texts(chart.configure(**_CONFIGURATION).to_dict(validate=False))  # a check takes longest
    version = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    drawn = _UNSEEN.sub("", str(vl_convert.vegalite_to_svg(document, vl_version=version)))
    drawn = _PLACES.sub(lambda place: _DIGITS.sub("", place[0]), drawn)
    font = f' font-family="{_CONFIGURATION["font"]}"'
    return drawn.replace(font, "").replace("<svg", f"<svg{font}", 1).replace(_BASE_OF_LINKS, 'href="')


_BASE_OF_LINKS = 'xlink:href="https://vega.github.io/vega-datasets/'
"""Vega puts it before an address on the page."""

_UNSEEN = re.compile(r'<path class="(?:back|fore)ground"[^>]*/>| opacity="1"| pointer-events="none"')
"""A part of a drawing without effect."""

_PLACES = re.compile(r' (?:transform|d|x2|y2)="[^"]*"')
_DIGITS = re.compile(r"(?<=\.\d\d)\d+")
"""More digits of a place than a screen has."""


def _with_plain_texts(value: Any) -> Any:
    """Return a chart's description in which every text is one plain line."""
    if isinstance(value, dict):
        return {name: _with_plain_texts(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_plain_texts(each) for each in value]
    return single_line(value) if isinstance(value, str) else value


_CONFIGURATION: Mapping[str, Any] = {
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domain": False,
        "grid": True,
        "gridColor": FAINT,
        "labelColor": SOFT,
        "labelFontSize": 11,
        "ticks": False,
        "labelPadding": 6,
        "titleColor": SOFT,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "line": {"strokeWidth": 1.5},
    "point": {"filled": True, "size": 42, "opacity": 1},
    "rule": {"strokeWidth": 1.2},
    "text": {"fontSize": 11},
}


def time_axis(values_ns: Sequence[float], title: str, scale: Scale = "log", field: str = "y") -> altair.Y:
    """Return an axis of times, each tick in the unit that suits it; a linear one begins at zero."""
    low, high = min(values_ns) / 1.15 if scale == "log" else 0.0, max(values_ns) * 1.15
    label = " : ".join(f"datum.value >= {step:g} ? format(datum.value / {step:g}, '~g') + ' {u}'" for step, u in TIMES)
    logarithmic = [tick for tick in ticks_between(low, high) if low <= tick <= high] if scale == "log" else []
    ticks: dict[str, Any] = {"values": logarithmic} if logarithmic else {"tickCount": 5}
    found = altair.Y(f"{field}:Q").title(f"{title}, logarithmic" if scale == "log" else title)
    return found.scale(type=scale, domain=[low, high], nice=False).axis(labelExpr=f"{label} : ''", **ticks)


def moment_axis(marks: Sequence[Mark], title: str | None = None) -> altair.X:
    """Return an axis of moments; over less than two days with times instead of dates."""
    moments = [each.x for each in marks]
    is_short = max(moments) - min(moments) < _TWO_DAYS_MS
    axis = altair.X("x:T").title(title).scale(type="utc")
    return axis.axis(tickCount=4, format="%H:%M" if is_short else "%Y-%m-%d", labelOverlap=True)


def ticks_between(low: float, high: float) -> list[float]:
    """Return round values at and around a logarithmic range: 1, 2 and 5 in each decade; only 1 over wide ranges."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < 2 else (1, 3) if decades < 3 else (1,)
    return [step * 10.0**exponent for exponent in range(first, last + 1) for step in steps]


def limit_line(value: float, text: str, *, is_upright: bool = False) -> list[Any]:
    """Return a dashed line at a value, horizontal or upright, with its name."""
    data, place = points([{"at": value, "text": text}]), altair.datum(value)
    line = data.mark_rule(strokeDash=[4, 3], color=WARN, aria=False)
    name = data.mark_text(color=WARN, aria=False, text=text, align="left", dx=4, dy=9 if is_upright else -7)
    if is_upright:
        return [line.encode(x=place), name.encode(x=place, y=altair.value(0))]
    return [line.encode(y=place), name.encode(x=altair.value(0), y=place)]
