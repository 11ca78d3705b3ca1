"""The backend under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from mlbench.conformance.known_answers import TokenLists, scoring_model
from mlbench.conformance.known_generation import Prompts, generating_model
from mlbench.contracts.backend import Backend, Batching, EnginePlan, GraphBackend
from mlbench.contracts.engine import Engine, Samples
from mlbench.contracts.graph import Executable, Graph, Precision
from mlbench.contracts.model import BatchProgram
from mlbench.errors import ConformanceError, UsageError
from mlbench.execution.engine_choice import engine_of

BATCH = 4
"""Samples per batch in the checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A backend with its options filled in, at one precision."""

    backend: Backend
    precision: Precision
    patience_s: float = 20.0
    """How long samples may wait without any answer."""
    timeout_s: float = 60.0
    """For each graph that a check compiles, and for the rest of it."""
    on_compiled: Callable[[], None] = lambda: None
    """Called for each compiled graph and each engine."""
    on_stuck: Callable[[str], None] = lambda reason: None
    """Called with the reason when LoadGen will not return: only ending the process ends the check."""

    @property
    def plugin(self) -> Backend:
        """The backend."""
        return self.backend

    def compile(self, graph: Graph) -> Executable:
        """Compile a graph at the subject's precision."""
        if not isinstance(self.backend, GraphBackend):
            raise TypeError(f"{self.backend.name} compiles no graphs")
        executable = self.backend.compile(graph, self.precision)
        self.on_compiled()
        return executable

    @contextmanager
    def engine(
        self,
        batching: Batching,
        *,
        batch: int | Literal["auto"] = BATCH,
        max_wait_us: int = 2000,
        program: BatchProgram | None = None,
    ) -> Iterator[tuple[Engine, TokenLists]]:
        """Give an engine that is warm, and its dataset with every sample loaded."""
        dataset = TokenLists()
        everything = range(dataset.count)
        dataset.load(everything)
        plan = EnginePlan(precision=self.precision, batching=batching, batch=batch, max_wait_us=max_wait_us)
        with engine_of(self.backend, scoring_model(program), plan) as engine:
            self.on_compiled()
            if program is None:  # another one may fail on purpose
                engine.warm_up(Samples(everything, everything, dataset))
            yield engine, dataset

    @contextmanager
    def generating_engine(self) -> Iterator[tuple[Engine, Prompts] | None]:
        """Give an engine for generation that is warm, and its prompts; None where the backend takes no such model."""
        dataset = Prompts()
        try:
            made = engine_of(self.backend, generating_model(), EnginePlan(precision=self.precision, batch=BATCH))
        except UsageError:
            yield None
            return
        with made as engine:
            self.on_compiled()
            engine.warm_up(Samples(range(dataset.count), range(dataset.count), dataset))
            yield engine, dataset


Check = Callable[[Subject], None]
"""Returns if the subject fulfils the check's docstring; otherwise raises `ConformanceError`."""


def demand(is_kept: bool, message: str, advice: str) -> None:
    """Raise `ConformanceError` unless a condition holds."""
    if not is_kept:
        raise ConformanceError(message, hint=advice)


def demand_of(check: Callable[..., None]) -> str:
    """Return a check's requirement: the first line of its docstring."""
    return (check.__doc__ or "").strip().splitlines()[0]
