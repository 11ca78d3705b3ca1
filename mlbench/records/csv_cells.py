"""Texts as cells of a CSV file that a spreadsheet takes for texts."""

from __future__ import annotations

import re

FORMULA = r"^[=+\-@\t\r]"
"""How a text begins that a spreadsheet takes for a formula; a regular expression."""


def csv_text(text: str) -> str:
    """Return a text with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if re.match(FORMULA, text) else text
