"""The kit that a plugin author runs against a backend, with `mlbench check` or with pytest.

    class TestMine(GraphBackendConformance):
        @pytest.fixture
        def backend(self):
            return Mine()

`TextEngineConformance` is for engines of language models, and `EngineConformance` for other engines of a backend's own.
Only these classes need pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlbench.contracts.lazy_names import lazy_names

if TYPE_CHECKING:
    from mlbench.conformance.pytest_kit import (
        EngineConformance,
        GraphBackendConformance,
        TextEngineConformance,
    )

__all__ = ["EngineConformance", "GraphBackendConformance", "TextEngineConformance"]

__getattr__ = lazy_names(globals())
