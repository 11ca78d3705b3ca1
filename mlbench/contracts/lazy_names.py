"""Public names of a package that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any


def lazy_names(package: dict[str, Any]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, given its `globals()`: a public name is imported when it is first used.

    The package imports its names for type checkers, below ``if TYPE_CHECKING``; that says where each is.
    """

    @cache
    def module_of() -> Mapping[str, str | None]:
        import ast

        tree = ast.parse(package["__spec__"].loader.get_source(package["__name__"]))
        imports = (each for block in tree.body if isinstance(block, ast.If) for each in block.body)
        return {alias.name: each.module for each in imports if isinstance(each, ast.ImportFrom) for alias in each.names}

    def imported(name: str) -> Any:
        module = module_of().get(name) if name in package["__all__"] else None
        if module is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        package[name] = found = getattr(import_module(module), name)
        return found

    return imported
