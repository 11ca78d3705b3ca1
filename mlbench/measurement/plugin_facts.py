"""Facts that plugins report about a measured run: if that fails, the reason is kept, and the result is not lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.statistics import EngineStatistics
from mlbench.errors import describe_error
from mlbench.execution.plain_values import plain_entries
from mlbench.system.documents import first_problem
from mlbench.wire.engine_statistics import statistics_from_json, statistics_to_json
from mlbench.wire.runtime_facts import runtime_from_json, runtime_to_json

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")
_Section = TypeVar("_Section", bound=BaseModel)


class PluginFacts:
    """Collects optional facts; `missing` has the reasons for missing ones."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}

    def entries(self, name: str, question: Callable[[], object]) -> dict[str, Any]:
        """Return the entries of a mapping that can be stored; the others are named in `missing`."""
        nothing: object = {}
        found, reason = plain_entries(self.answer(name, question, otherwise=nothing))
        if reason:
            self._miss(name, f"not all can be stored: {reason}")
        return found

    def statistics(self, question: Callable[[], EngineStatistics]) -> EngineStatistics:
        """Return an engine's statistics, as far as they can be stored; the rest is named in `missing`."""
        return statistics_from_json(self.entries("engine", lambda: statistics_to_json(question())))

    def runtime(self, question: Callable[[], RuntimeFacts]) -> RuntimeFacts:
        """Return what a backend says of its runtime, as far as it can be stored; the rest is named in `missing`."""
        return runtime_from_json(self.entries("runtime", lambda: runtime_to_json(question())))

    def section(self, name: str, question: Callable[[], _Section | None], reason: Callable[[], str]) -> _Section | None:
        """Return a part of the record, or None: ``reason`` says why where there is no answer."""
        found = self.answer(name, question, otherwise=None)
        if found is None:
            self.missing.setdefault(name, reason())
        return found

    def answer(self, name: str, question: Callable[[], _Answer], *, otherwise: _Answer) -> _Answer:
        """Return a call's result, or ``otherwise`` if it raises."""
        try:
            return question()
        except ValidationError as error:
            self._miss(name, f"it cannot be stored: {first_problem(error, whole=name)}")
        except Exception as error:  # a plugin's code, and what it counted may be anything
            logger.exception("%s is not available", name)
            self._miss(name, describe_error(error))
        return otherwise

    def _miss(self, name: str, reason: str) -> None:
        self.missing[name] = f"{self.missing[name]}; {reason}" if name in self.missing else reason
