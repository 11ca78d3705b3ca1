"""How many lines of tests each room of mlbench has for a line of its code, and three counts of its weight.

    python benchmarks/lines.py

A test module in ``tests/<room>/`` belongs to that room. One that lies elsewhere belongs to the rooms that it imports
from: its lines are divided equally among them. All lines of a file count, as `wc -l` counts them, and each line once.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from statistics import quantiles

import click

CHECKOUT = Path(__file__).parents[1]
PACKAGE, TESTS = CHECKOUT / "mlbench", CHECKOUT / "tests"
WITHOUT_ROOM = "(modules beside the rooms)"


def code_lines() -> Counter[str]:
    """Return lines of code by room; modules that lie beside the rooms count as one more."""
    lines: Counter[str] = Counter()
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE)
        lines[place.parts[0] if len(place.parts) > 1 else WITHOUT_ROOM] += count(file)
    return lines


def test_lines(rooms: set[str]) -> Counter[str]:
    """Return lines of tests by room; those of modules that concern no room are left out."""
    lines: Counter[str] = Counter()
    for file in TESTS.rglob("*.py"):
        own = file.relative_to(TESTS).parts[0]
        shared = {own} if own in rooms else imported_rooms(file) & rooms
        for room in shared:
            lines[room] += round(count(file) / len(shared))
    return lines


def imported_rooms(file: Path) -> set[str]:
    """Return the rooms that a module imports from, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    inside = {name.split(".")[1] for name in names if name.startswith("mlbench.")}
    return {WITHOUT_ROOM if (PACKAGE / f"{name}.py").is_file() else name for name in inside}


def open_parameters(tree: ast.AST) -> int:
    """Return how many parameters are mappings of text to anything, which a frozen type may replace."""
    every = (node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    given = (each.annotation for args in every for each in (*args.posonlyargs, *args.args, *args.kwonlyargs))
    texts = (ast.unparse(each).removesuffix(" | None") for each in given if each)
    return sum(text in {"Mapping[str, Any]", "dict[str, Any]"} for text in texts)


def broad_handlers(tree: ast.AST) -> int:
    """Return how many handlers catch every error."""
    caught = (node.type for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type)
    names = ({each.id for each in ast.walk(kind) if isinstance(each, ast.Name)} for kind in caught)
    return sum(not found.isdisjoint({"Exception", "BaseException"}) for found in names)


def count(file: Path) -> int:
    """Return the lines of a file."""
    return len(file.read_text(encoding="utf-8").splitlines())


@click.command()
def main() -> None:
    """Print lines of code, lines of tests and their ratio, a line per room; then what mlbench/ weighs otherwise."""
    code = code_lines()
    tests = test_lines(set(code))
    click.echo(f"{'room':<28}{'code':>8}{'tests':>8}{'ratio':>8}")
    for room in sorted(code, key=lambda room: tests[room] / code[room]):
        click.echo(f"{room:<28}{code[room]:>8,}{tests[room]:>8,}{tests[room] / code[room]:>8.2f}")
    files = list(PACKAGE.rglob("*.py"))
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    handlers = sum(map(broad_handlers, trees))
    longest = quantiles(map(count, files), n=20)[-1]
    click.echo(f"lines of code: {sum(code.values()):,}; of a module, 95th percentile: {longest:.0f}")
    click.echo(f"parameters `Mapping[str, Any]` or `dict[str, Any]`: {sum(map(open_parameters, trees))}")
    click.echo(f"handlers of every error: {handlers}, {1000 * handlers / sum(code.values()):.2f} per thousand lines")


if __name__ == "__main__":
    main()
