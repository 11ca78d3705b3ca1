"""Whether the code says things once: hardly a run of its lines stands somewhere else again.

``python tests/test_copies.py`` lists the copied lines of each folder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("mlbench", "plugins", "workloads", "examples")
RUN = 6
"""So many equal lines one after another are a copy; imports, comments and lone brackets do not count."""
LARGEST_SHARE = 0.02


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that count, each with its number from 1."""
    is_import = False
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if is_import or line.startswith(("from ", "import ")):
            is_import = ")" not in line and (is_import or "(" in line)
        elif line[:1] != "#" and any(character.isalnum() for character in line):
            yield number, line


def copied_lines(texts: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """Return which lines of each text stand in a run that stands somewhere again, counted from 0."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, lines in texts.items():
        for start in range(len(lines) - RUN + 1):
            places[tuple(lines[start : start + RUN])].append((name, start))
    copied: dict[str, set[int]] = defaultdict(set)
    for same in places.values():
        for name, start in same if len(same) > 1 else ():
            copied[name].update(range(start, start + RUN))
    return {name: sorted(lines) for name, lines in copied.items()}


def lines_of(folder: str) -> dict[str, list[tuple[int, str]]]:
    """Return the counted lines of a folder's files."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return {str(file.relative_to(ROOT)): list(code_lines(file.read_text(encoding="utf-8"))) for file in files}


def copies(folder: str) -> tuple[dict[str, list[int]], int]:
    """Return the numbers of the copied lines by file, and how many lines the folder has."""
    numbered = lines_of(folder)
    copied = copied_lines({name: [line for _, line in lines] for name, lines in numbered.items()})
    numbers = {name: [numbered[name][index][0] for index in indices] for name, indices in copied.items()}
    return numbers, sum(map(len, numbered.values()))


@pytest.mark.parametrize("folder", FOLDERS)
def test_hardly_a_line_is_copied(folder):
    copied, lines = copies(folder)
    assert sum(map(len, copied.values())) < LARGEST_SHARE * lines, copied


def test_a_run_of_equal_lines_is_found_in_one_file_and_in_two():
    run = [f"step_{number}()" for number in range(RUN)]
    assert copied_lines({"a": [*run, "other()", *run]}) == {"a": [*range(RUN), *range(RUN + 1, 2 * RUN + 1)]}
    assert copied_lines({"a": ["first()", *run], "b": run}) == {"a": list(range(1, RUN + 1)), "b": list(range(RUN))}
    assert copied_lines({"a": run[1:], "b": run[1:]}) == {}


def test_imports_comments_and_brackets_do_not_count():
    text = "from a import (\n    b,\n    c,\n)\nimport d\n# said\nx = f(\n    1,\n)\n\ny = 2\n"
    assert [line for _, line in code_lines(text)] == ["x = f(", "1,", "y = 2"]


if __name__ == "__main__":
    for folder in FOLDERS:
        copied, lines = copies(folder)
        count = sum(map(len, copied.values()))
        print(f"{folder}: {count} of {lines:,} lines copied, {count / lines:.2%}")
        for name, numbers in sorted(copied.items()):
            print(f"  {name}: {len(numbers)} lines between {numbers[0]} and {numbers[-1]}")
