"""The backend under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from mlbench.conformance.known_answers import TokenLists, scoring_model
from mlbench.conformance.known_generation import Prompts, generating_model
from mlbench.conformance.text_model import KitPrompts, text_model
from mlbench.contracts.backend import Backend, Batching, EnginePlan, GraphBackend
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.contracts.graph import Executable, Graph
from mlbench.contracts.model import BatchProgram, Model
from mlbench.contracts.precision import Precision
from mlbench.errors import ConformanceError, DataError, GraphError, MlbenchError, StorageError, UsageError
from mlbench.execution.engine_choice import engine_of

BATCH = 4
"""Samples per batch in the checks."""

_WARM_UP_PROMPTS = 4
"""Few: each is answered by what may be a slow server, and each check warms an engine up."""


class ModelKind(StrEnum):
    """What a backend may be given to run. It may refuse a kind, and then refuses it each time."""

    BATCHES = "batches of samples"
    PROMPTS = "prompts of a language model"
    STATE = "graphs with state"


class ModelRefusedError(MlbenchError):
    """A backend will not run a kind of model, and says why: `Backend.engine` or ``compile`` raised it by itself."""

    def __init__(self, kind: ModelKind, error: MlbenchError) -> None:
        super().__init__(error.message, hint=error.hint)
        self.kind = kind


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
    on_taken: Callable[[ModelKind], None] = lambda kind: None
    """Called with the kind of model that the backend made an engine or an executable for."""

    @property
    def plugin(self) -> Backend:
        """The backend."""
        return self.backend

    def compile(self, graph: Graph) -> Executable:
        """Compile a graph at the subject's precision.

        Raises:
            ModelRefusedError: the backend takes no graphs with state.
        """
        if not isinstance(self.backend, GraphBackend):
            raise TypeError(f"{self.backend.name} compiles no graphs")
        if not graph.state:
            executable = self.backend.compile(graph, self.precision)
        else:
            with _refusal(ModelKind.STATE):
                executable = self.backend.compile(graph, self.precision)
            self.on_taken(ModelKind.STATE)
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
        dataset: TokenLists | None = None,
    ) -> Iterator[tuple[Engine, TokenLists]]:
        """Give an engine that is warm, and its dataset with every sample loaded.

        Raises:
            ModelRefusedError: the backend takes no batches, and compiles no graphs.
        """
        dataset = dataset or TokenLists()
        everything = range(dataset.count)
        dataset.load(everything)
        plan = EnginePlan(precision=self.precision, batching=batching, batch=batch, max_wait_us=max_wait_us)
        if isinstance(self.backend, GraphBackend):
            made = engine_of(self.backend, scoring_model(program), plan)
        else:
            with _refusal(ModelKind.BATCHES):
                made = engine_of(self.backend, scoring_model(program), plan)
            self.on_taken(ModelKind.BATCHES)
        with made as engine:
            self.on_compiled()
            if program is None:  # another one may fail on purpose
                engine.warm_up(Samples(everything, everything, dataset))
            yield engine, dataset

    @contextmanager
    def any_engine(self, batching: Batching, *, batch: int = BATCH) -> Iterator[tuple[Engine, Dataset]]:
        """Give an engine for batches or, where the backend refuses them, for prompts: for what all engines have.

        Raises:
            ModelRefusedError: it refuses both.
        """
        if self._takes_batches():
            with self.engine(batching, batch=batch) as made:
                yield made
        else:
            with self.generating_engine() as made_for_prompts:
                yield made_for_prompts

    @contextmanager
    def generating_engine(self) -> Iterator[tuple[Engine, Dataset]]:
        """Give an engine for generation that is warm, and its prompts.

        A backend that compiles graphs, or computes nothing, gets `known_generation`, any other `text_model`.

        Raises:
            ModelRefusedError: the backend takes no language models.
        """
        is_small = isinstance(self.backend, GraphBackend) or not self.backend.computes_answers
        model, dataset = (generating_model(), Prompts()) if is_small else (text_model(), KitPrompts())
        with self._generating(model, dataset) as made:
            yield made

    @contextmanager
    def text_engine(self, prompts: KitPrompts | None = None) -> Iterator[tuple[Engine, KitPrompts]]:
        """Give an engine for the kit's language model that is warm, and its prompts; raises as `generating_engine`."""
        dataset = prompts or KitPrompts()
        with self._generating(text_model(), dataset) as (engine, _):
            yield engine, dataset

    @contextmanager
    def _generating(self, model: Model, dataset: Dataset) -> Iterator[tuple[Engine, Dataset]]:
        plan = EnginePlan(precision=self.precision, batch=BATCH)
        with ExitStack() as stack:
            with _refusal(ModelKind.PROMPTS):
                engine = engine_of(self.backend, model, plan)
                if isinstance(self.backend, GraphBackend):  # it compiles when it is entered
                    stack.enter_context(engine)
            self.on_taken(ModelKind.PROMPTS)
            if not isinstance(self.backend, GraphBackend):
                stack.enter_context(engine)
            self.on_compiled()
            some = range(min(dataset.count, _WARM_UP_PROMPTS))
            engine.warm_up(Samples(some, some, dataset))
            yield engine, dataset

    def _takes_batches(self) -> bool:
        if isinstance(self.backend, GraphBackend):
            return True
        try:
            with _refusal(ModelKind.BATCHES):
                engine_of(self.backend, scoring_model(), EnginePlan(precision=self.precision))
        except ModelRefusedError:
            return False
        return True


def has_own_engine(backend: Backend) -> bool:
    """Return whether a backend brings an engine of its own that computes: then it is given the language model's files.

    What it refuses, `Backend.engine` says by `UsageError`.
    """
    is_own = not isinstance(backend, GraphBackend) or type(backend).engine is not GraphBackend.engine
    return is_own and backend.computes_answers


@contextmanager
def _refusal(kind: ModelKind) -> Iterator[None]:
    """Turn what a backend raises to refuse a kind of model into `ModelRefusedError`.

    That is a `UsageError` or `GraphError` of its own. One with another error behind it is a runtime that failed.
    """
    try:
        yield
    except (DataError, StorageError):
        raise
    except (UsageError, GraphError) as error:
        if error.__cause__ is not None:
            raise
        raise ModelRefusedError(kind, error) from None


Check = Callable[[Subject], None]
"""Returns if the subject fulfils the check's docstring; otherwise raises `ConformanceError`."""


def demand(is_kept: bool, message: str, advice: str) -> None:
    """Raise `ConformanceError` unless a condition holds."""
    if not is_kept:
        raise ConformanceError(message, hint=advice)


class UnansweredError(ConformanceError):
    """An engine answered nothing at all within the kit's patience, and gave nothing up."""


def demand_answer(is_given: bool, message: str, advice: str, *, is_silent: bool) -> None:
    """Raise `ConformanceError` unless an answer was given; `UnansweredError` where the engine answered nothing else."""
    if is_silent and not is_given:
        raise UnansweredError(message, hint=advice)
    demand(is_given, message, advice)


def demand_of(check: Callable[..., None]) -> str:
    """Return a check's requirement: the first line of its docstring."""
    return (check.__doc__ or "").strip().splitlines()[0]
