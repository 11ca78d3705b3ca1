"""The statistics take plain numbers, of any benchmark."""

import ast
import re
from pathlib import Path

import pytest

import mlbench.comparison
from mlbench.comparison import compare_values
from mlbench.comparison.spread import Source

ROOT = Path(__file__).parents[2]
OF_NUMBERS = ("effect", "spread", "states", "tested", "verdicts", "steps", "sessions", "readings")


def test_the_example_of_the_page_prints_what_the_page_says(capsys):
    page = (ROOT / "docs/python.md").read_text()
    section = page.partition("## Statistics on your own numbers")[2].partition("\n## ")[0]
    code, printed = (re.search(rf"```{kind}\n(.*?)```", section, flags=re.DOTALL)[1] for kind in ("python", "text"))
    exec(code, {})  # our own page
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_the_statistics_know_nothing_of_runs(name):
    text = (ROOT / f"mlbench/comparison/{name}.py").read_text()
    imported = [node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    of_numbers = {f"mlbench.comparison.{each}" for each in OF_NUMBERS} | {"mlbench.errors"}
    assert {each for each in imported if each.startswith("mlbench")} <= of_numbers
    assert f"`{name}`" in mlbench.comparison.__doc__


def test_the_package_names_what_it_gives():
    for name in mlbench.comparison.__all__:
        assert callable(getattr(mlbench.comparison, name))


def test_half_the_time_is_twice_as_fast_and_half_the_rate_half_as_fast():
    base, new = [[10.0, 10.0], [10.0, 10.0]], [[5.0, 5.0]]
    of_time = compare_values(base, new, higher_is_better=False, margin=0.05)
    of_rate = compare_values(base, new, higher_is_better=True, margin=0.05)
    assert (of_time.effect.ratio, of_rate.effect.ratio) == pytest.approx((2, 0.5))
    assert of_time.spread.source is Source.ASSUMED


def test_one_number_on_one_side_shows_no_noise():
    assert compare_values([[10.0]], [[5.0]], higher_is_better=False, margin=0.05) is None
