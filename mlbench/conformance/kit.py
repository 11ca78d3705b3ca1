"""Which checks apply to which backend, in the order they are run."""

from __future__ import annotations

from mlbench.conformance.answer_checks import ANSWER_CHECKS
from mlbench.conformance.description_checks import DESCRIPTION_CHECKS
from mlbench.conformance.engine_checks import ENGINE_CHECKS
from mlbench.conformance.graph_checks import GRAPH_CHECKS
from mlbench.conformance.loadgen_checks import LOADGEN_CHECKS
from mlbench.conformance.process_checks import PROCESS_CHECKS
from mlbench.conformance.speed_checks import GENERATION_CHECKS, SPEED_CHECKS
from mlbench.conformance.state_checks import STATE_CHECKS
from mlbench.conformance.subject import Check
from mlbench.contracts.backend import Backend, GraphBackend

_CHECKS_OF_TRAFFIC: tuple[Check, ...] = (*PROCESS_CHECKS, *ENGINE_CHECKS, *SPEED_CHECKS, *LOADGEN_CHECKS)

CHECKS_OF_ENGINES: tuple[Check, ...] = (*DESCRIPTION_CHECKS, *_CHECKS_OF_TRAFFIC)
"""For any backend."""

CHECKS_OF_GRAPHS: tuple[Check, ...] = (*GRAPH_CHECKS, *STATE_CHECKS, *ANSWER_CHECKS, *GENERATION_CHECKS)
"""For a backend that compiles graphs, besides."""


def checks_for(backend: Backend) -> tuple[Check, ...]:
    """Return the checks that apply to a backend: what it is, its graphs, then its engines."""
    if not isinstance(backend, GraphBackend):
        return CHECKS_OF_ENGINES
    return (*DESCRIPTION_CHECKS, *CHECKS_OF_GRAPHS, *_CHECKS_OF_TRAFFIC)
