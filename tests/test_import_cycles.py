"""No module imports, directly or by way of others, a module that imports it: not for types, nor inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT, ROOT / "plugins", ROOT / "workloads", *(each for each in (ROOT / "examples").iterdir()))


def modules_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the modules of the packages named mlbench... in a folder, with their files."""
    for file in sorted(folder.glob("mlbench*/**/*.py")):
        yield ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"), file


def imports_of(file: Path, modules: Set[str]) -> Iterator[str]:
    """Yield which of the modules a file imports anywhere; of a package that gives a module, the module alone."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from (name for name in (whole if whole in modules else node.module,) if name in modules)


def cycle_in(files: Mapping[str, Path]) -> list[str]:
    """Return the modules of one cycle, the first again at its end; [] where there is none."""
    graph = {name: set(imports_of(file, files.keys())) for name, file in files.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_what_imports_it():
    modules = {name: file for folder in FOLDERS for name, file in modules_in(folder)}
    assert len(modules) > 500
    assert cycle_in(modules) == []


@pytest.mark.parametrize(
    "text",
    [
        "from mlbench_b import thing",
        "import mlbench_b",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mlbench_b import Thing",
        "def late():\n    from mlbench_b import thing",
    ],
    ids=["from", "import", "for types", "inside a function"],
)
def test_a_cycle_is_found_wherever_the_import_is_written(text, tmp_path):
    (tmp_path / "mlbench_a.py").write_text(text)
    (tmp_path / "mlbench_b.py").write_text("from mlbench_c import thing")
    (tmp_path / "mlbench_c.py").write_text("from mlbench_a import thing")
    files = {name: tmp_path / f"{name}.py" for name in ("mlbench_a", "mlbench_b", "mlbench_c")}
    assert set(cycle_in(files)) == set(files)
    (tmp_path / "mlbench_c.py").write_text("")
    assert cycle_in(files) == []
