"""The checks for each kind of backend, in order."""

from __future__ import annotations

from mlbench.conformance.answer_checks import ANSWER_CHECKS
from mlbench.conformance.description_checks import DESCRIPTION_CHECKS
from mlbench.conformance.engine_checks import ENGINE_CHECKS, LIFE_CHECKS
from mlbench.conformance.graph_checks import GRAPH_CHECKS
from mlbench.conformance.loadgen_checks import LOADGEN_CHECKS, TOKEN_LOADGEN_CHECKS
from mlbench.conformance.process_checks import PROCESS_CHECKS
from mlbench.conformance.speed_checks import GENERATION_CHECKS, SPEED_CHECKS, TOKEN_CHECKS
from mlbench.conformance.state_checks import STATE_CHECKS
from mlbench.conformance.subject import Check, has_own_engine
from mlbench.conformance.text_checks import TEXT_CHECKS
from mlbench.conformance.text_timing_checks import TEXT_TIMING_CHECKS
from mlbench.contracts.backend import Backend, GraphBackend

_CHECKS_OF_TRAFFIC: tuple[Check, ...] = (
    *PROCESS_CHECKS,
    *LIFE_CHECKS,
    *ENGINE_CHECKS,
    *SPEED_CHECKS,
    *TOKEN_CHECKS,
    *LOADGEN_CHECKS,
    *TOKEN_LOADGEN_CHECKS,
)

CHECKS_OF_ENGINES: tuple[Check, ...] = (*DESCRIPTION_CHECKS, *_CHECKS_OF_TRAFFIC)
"""For any backend. Of batches and prompts it may refuse one."""

CHECKS_OF_GRAPHS: tuple[Check, ...] = (*GRAPH_CHECKS, *STATE_CHECKS, *ANSWER_CHECKS, *GENERATION_CHECKS)
"""For a backend that compiles graphs, besides."""

CHECKS_OF_ANSWERS_IN_TEXT: tuple[Check, ...] = (*TEXT_CHECKS, *TEXT_TIMING_CHECKS)
"""For a backend with an engine of its own, besides, unless it computes nothing."""

CHECKS_OF_TEXT: tuple[Check, ...] = (
    *DESCRIPTION_CHECKS,
    *PROCESS_CHECKS,
    *LIFE_CHECKS,
    *TOKEN_CHECKS,
    *TOKEN_LOADGEN_CHECKS,
    *CHECKS_OF_ANSWERS_IN_TEXT,
)
"""All that apply to an engine for language models, whatever else its backend runs."""

MODULES_OF_KIT = ("mlbench.conformance.isolated", "mlbench.loadgen.drive")
"""The modules that the checks of any plugin need."""


def modules_of_checks(backend: Backend) -> tuple[str, ...]:
    """Return the modules that the checks of a backend import, since importing takes longer than many checks.

    What all backends need comes first: the processes that have imported it are shared.
    """
    graphs = ("torch", "mlbench.conformance.networks") if isinstance(backend, GraphBackend) else ()
    return tuple(dict.fromkeys((*MODULES_OF_KIT, *graphs, *backend.preload)))


def checks_for(backend: Backend) -> tuple[Check, ...]:
    """Return the checks that apply to a backend: what it is, its graphs, its engines, and their answers in text.

    A backend says by what it is which these are: a `GraphBackend` has graphs, one that brings `Backend.engine` is asked
    for batches and for text and may refuse either (`ModelRefusedError`), and `Backend.computes_answers`.
    """
    graphs = CHECKS_OF_GRAPHS if isinstance(backend, GraphBackend) else ()
    text = CHECKS_OF_ANSWERS_IN_TEXT if has_own_engine(backend) else ()
    return (*DESCRIPTION_CHECKS, *graphs, *_CHECKS_OF_TRAFFIC, *text)
