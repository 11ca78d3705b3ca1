"""The mutants of benchmarks/mutants.toml: each changes a line that is there."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MUTANTS = runpy.run_path(str(ROOT / "benchmarks/mutants.py"))["read_mutants"]()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.meaning)
def test_the_line_stands_once_in_its_file_and_its_tests_are_there(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.line) == 1
    assert all((ROOT / path).exists() for path in mutant.tests)
    assert mutant.mutant != mutant.line
