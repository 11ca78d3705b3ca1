"""Between rooms travel types: how many functions return a dictionary whose keys a reader must guess.

``python tests/test_seams.py`` prints them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = [file for folder in ("mlbench", "plugins") for file in sorted((ROOT / folder).rglob("*.py"))]
MAPPINGS = {"Mapping", "MutableMapping", "dict", "Dict"}
ANYTHING = {"Any", "object", "JsonValue"}
MOST = 56
"""It was 86 when counting began, and may only become less. What remains reads or writes somebody else's JSON and TOML,
fills templates, rebuilds records, or is `Backend.observe`."""


def returns_guessed_keys(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a mapping to values of any kind is in what a function returns."""
    for node in ast.walk(function.returns) if function.returns else ():
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[_, value])):
                if name in MAPPINGS and ast.unparse(value) in ANYTHING:
                    return True
    return False


def found_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each such function in a file's text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and returns_guessed_keys(node):
            yield node.lineno, node.name


def all_found() -> list[str]:
    """Return where they are: ``mlbench/tuning.py:63 plain``."""
    return [f"{file.relative_to(ROOT)}:{line} {name}" for file in SOURCES for line, name in found_in(file.read_text())]


def test_few_functions_return_dictionaries_whose_keys_one_must_guess():
    found = all_found()
    assert len(found) <= MOST, "\n".join(found)


def test_every_form_of_such_a_dictionary_is_counted_and_no_other():
    source = """
def a() -> dict[str, Any]: ...
def b() -> Iterator[Mapping[str, object]]: ...
async def c() -> "int" | dict[Any, JsonValue] | None: ...
def d() -> Mapping[str, int]: ...
def e(values: dict[str, Any]) -> int: ...
def f() -> tuple[Any, dict[str, list[str]]]: ...
"""
    assert [name for _, name in found_in(source)] == ["a", "b", "c"]


if __name__ == "__main__":
    found = all_found()
    print(*found, f"{len(found)} functions", sep="\n")
