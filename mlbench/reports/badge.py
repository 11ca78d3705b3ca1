"""The result of a conformance check, as a picture for a README."""

from __future__ import annotations

from html import escape

_HEIGHT = 20
_LETTER = 7  # wide, about, in Verdana of 11 pixels
_GOOD, _BAD, _LABEL = "#2da44e", "#cf222e", "#57606a"


def badge(label: str, message: str, *, is_good: bool) -> str:
    """Return an SVG of two fields: the checked backend and the result."""
    left, right = (_LETTER * len(text) + 10 for text in (label, message))
    title = escape(f"{label}: {message}")
    fields = ((0, left, _LABEL, label), (left, right, _GOOD if is_good else _BAD, message))
    drawn = "".join(
        f'<rect x="{x}" width="{width}" height="{_HEIGHT}" fill="{colour}"/>'
        f'<text x="{x + width / 2:g}" y="14" fill="#fff" text-anchor="middle">{escape(text)}</text>'
        for x, width, colour, text in fields
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img" '
        f'aria-label="{title}" font-family="Verdana,sans-serif" font-size="11"><title>{title}</title>{drawn}</svg>\n'
    )
