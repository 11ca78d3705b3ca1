"""The kit that a plugin author runs against a backend, with `mlbench check` or with pytest.

    class TestMine(GraphBackendConformance):
        @pytest.fixture
        def backend(self):
            return Mine()

`TextEngineConformance` is for engines of language models, and `EngineConformance` for other engines of a backend's own.
Only these classes need pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlbench.conformance.pytest_kit import (
        EngineConformance,
        GraphBackendConformance,
        TextEngineConformance,
    )

__all__ = ["EngineConformance", "GraphBackendConformance", "TextEngineConformance"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from mlbench.conformance import pytest_kit

        return getattr(pytest_kit, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
