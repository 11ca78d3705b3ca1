"""The mutants of benchmarks/mutants.toml: each changes a line that is there."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUTANTS = runpy.run_path(str(ROOT / "benchmarks/mutants.py"))["read_mutants"]()


def test_each_line_stands_once_in_its_file_and_its_tests_are_there():
    assert MUTANTS
    assert [each.meaning for each in MUTANTS if (ROOT / each.file).read_text().count(each.line) != 1] == []
    assert [each.meaning for each in MUTANTS if not all((ROOT / path).exists() for path in each.tests)] == []
    assert [each.meaning for each in MUTANTS if each.mutant == each.line] == []
