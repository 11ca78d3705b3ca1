"""Between rooms travel types: how many functions return a dictionary whose keys a reader must guess.

``python tests/test_seams.py`` prints them.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = [file for folder in ("mlbench", "plugins") for file in sorted((ROOT / folder).rglob("*.py"))]
MAPPINGS = {"Mapping", "MutableMapping", "dict", "Dict"}
ANYTHING = {"Any", "object", "JsonValue"}
MOST = 14
"""It was 86 when counting began, and may only become less. What remains reads or writes somebody else's JSON and TOML,
and what a plugin says of itself."""


def has_guessed_keys(annotation: ast.AST, aliases: Collection[str]) -> bool:
    """Return whether a mapping to values of any kind is in a type, by that name or by one that was given to it."""
    for node in ast.walk(annotation):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[_, value])):
                if name in MAPPINGS and ast.unparse(value) in ANYTHING:
                    return True
            case ast.Name(id=name) if name in aliases:
                return True
    return False


def aliases_in(source: str) -> set[str]:
    """Return names that a file's text gives to such a mapping, or to a type with one in it."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as value):
                found |= {name} if has_guessed_keys(value, found) else set()
    return found


def found_in(source: str, aliases: Collection[str] = ()) -> Iterator[tuple[int, str]]:
    """Yield line and name of each function in a file's text that returns such a mapping."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(returns=ast.AST() as returns) | ast.AsyncFunctionDef(returns=ast.AST() as returns):
                if has_guessed_keys(returns, aliases):
                    yield node.lineno, node.name


def all_found() -> list[str]:
    """Return where they are: ``mlbench/settings/layers.py:63 plain``."""
    texts = {file: file.read_text() for file in SOURCES}
    aliases = set[str]().union(*map(aliases_in, texts.values()))
    return [
        f"{file.relative_to(ROOT)}:{line} {name}"
        for file, text in texts.items()
        for line, name in found_in(text, aliases)
    ]


def test_few_functions_return_dictionaries_whose_keys_one_must_guess():
    found = all_found()
    assert len(found) <= MOST, "\n".join(found)


def test_every_form_of_such_a_dictionary_is_counted_and_no_other():
    source = """
Row = dict[str, Any]
Rows = list[Row]
Sizes = dict[str, int]
def a() -> dict[str, Any]: ...
def b() -> Iterator[Mapping[str, object]]: ...
async def c() -> "int" | dict[Any, JsonValue] | None: ...
def d() -> Mapping[str, int]: ...
def e(values: dict[str, Any]) -> int: ...
def f() -> tuple[Any, dict[str, list[str]]]: ...
def g() -> Rows | None: ...
def h() -> Sizes: ...
"""
    assert [name for _, name in found_in(source, aliases_in(source))] == ["a", "b", "c", "g"]


if __name__ == "__main__":
    found = all_found()
    print(*found, f"{len(found)} functions", sep="\n")
