"""Chooses the engine for a model on a backend: the backend's own, or the core's over its compiled graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlbench.contracts.backend import Backend, EnginePlan, GraphBackend
from mlbench.contracts.engine import Engine
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.errors import GraphError, PluginError, UsageError
from mlbench.execution.processes.failures import FailureKind, ProcessEndedError


def engine_of(backend: Backend, model: Model, plan: EnginePlan) -> Engine:
    """Return an engine for a model, not yet entered.

    Raises:
        GraphError, UsageError: as `Backend.engine`.
        PluginError: the backend has no engine and compiles no graphs.
        UsageError: it compiles graphs, and the model has none.
    """
    engine = backend.engine(model, plan)
    if engine is not None:
        return engine
    if not model.graphs:
        reason = model.why_no_graphs or "Choose another backend."
        raise UsageError(f"{backend.name} compiles graphs, and {model.name} has none.", hint=reason)
    if not isinstance(backend, GraphBackend):
        raise PluginError(f"backend {backend.name} returned no engine.", hint="Return one, or be a GraphBackend.")
    return graph_engine(backend, model, plan)


def graph_engine(backend: GraphBackend, model: Model, plan: EnginePlan) -> Engine:
    """Return the core's engine over a backend's graphs, not yet entered.

    It batches samples through the model's program, or keeps sequences in flight where that generates. For a backend
    whose `GraphBackend.engine` changes the model first, or wraps the engine.
    """
    # the engines are as much code as the rest of the toolkit, which has this function too
    from mlbench.execution.composed_engine import ComposedEngine
    from mlbench.execution.generation.engine import GenerationEngine

    kind = GenerationEngine if isinstance(model.program, GenerationProgram) else ComposedEngine
    return kind(backend, model, plan)


@contextmanager
def contain_refusals(engine: Engine) -> Iterator[None]:
    """Turn a refusal that an engine of a backend's own raises in this block into `ProcessEndedError`.

    What `Backend.engine` raises says that the request has to be another, which ends all that was asked for. An engine
    that was returned has accepted it: what its methods raise is the failure of this run, and the next one is made. The
    core's engines compile graphs when they are entered: their errors stay, and so does `GraphError`.
    """
    from mlbench.execution.composed_engine import ComposedEngine
    from mlbench.execution.generation.engine import GenerationEngine
    from mlbench.execution.instances.engine import ReplicatedEngine

    try:
        yield
    except GraphError:
        raise
    except (UsageError, PluginError) as error:
        if isinstance(engine, (ComposedEngine, GenerationEngine, ReplicatedEngine)):
            raise
        raise ProcessEndedError(str(error), FailureKind.EXCEPTION) from error
