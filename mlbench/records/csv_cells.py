"""Texts as CSV cells that a spreadsheet does not take for formulas."""

from __future__ import annotations

import re

FORMULA = r"^[=+\-@\t\r]"
"""A regular expression for texts that a spreadsheet takes for formulas."""


def csv_text(text: str) -> str:
    """Return a text with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if re.match(FORMULA, text) else text
