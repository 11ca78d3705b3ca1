"""Runs on a terminal: in a line, and side by side."""

import io

import pytest
from rich.console import Console

from mlbench.reports.console import one_line, table

FID = {"score": "FID_SCORE", "name": "range", "reference": 23.24, "lower": 23.01, "upper": 23.95, "required": True}


def printed(records):
    console = Console(width=160, file=io.StringIO())
    console.print(table(records))
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("score", "is_met", "shown"),
    [(23.5, True, "FID_SCORE 23.50 in 23.01..23.95"), (24.1, False, "FID_SCORE 24.10 MISSES 23.01..23.95")],
)
def test_a_target_with_two_ends_shows_both(a_run, score, is_met, shown):
    targets = [FID | {"value": score, "is_met": is_met}]
    accuracy = {"scores": {"FID_SCORE": score}, "targets": targets, "line": "", "is_met": is_met}
    assert f" {shown}  [" in one_line(a_run(accuracy=accuracy))


def test_a_target_with_one_end_shows_it(a_run):
    assert " acc 98.39 >= 97.40  [" in one_line(a_run())


def test_an_imported_run_is_marked_and_others_have_no_column_for_it(a_run, imported):
    text = printed([a_run(), a_run(imported=imported)])
    assert "origin" in text
    assert text.count("imported") == 1
    assert "origin" not in printed([a_run()])
