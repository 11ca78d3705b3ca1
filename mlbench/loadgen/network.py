"""An engine on other machines: how LoadGen drives it, and what ends a test that has lost one.

In the network division that is LoadGen's query dispatch library (QDL), in the place of its SUT.

Source: MLPerf Inference v4.1 rules, network division; LoadGen 6.0.17, ``ConstructQDL``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlperf_loadgen

from mlbench.errors import describe_error
from mlbench.loadgen.sut import Sut

logger = logging.getLogger(__name__)

NETWORK_SUT = "Network SUT"
"""Part of the name of a system over a network, by the rules."""


def name_of_nodes(names: Sequence[str]) -> str:
    """Return the name of the system that nodes of these names are, as LoadGen logs it."""
    return f"{NETWORK_SUT}: {', '.join(names)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Facts of LoadGen's side about an engine over a network."""

    watch: Callable[[Callable[[str], None]], AbstractContextManager[None]]
    """While it is entered, calls a function with the reason when a node is lost."""
    names: Callable[[], Sequence[str]] | None = None
    """Asks each node for its unique name, over the network; None: this is not the network division, and LoadGen drives
    as it does without nodes."""
    threads: Callable[[], Collection[int]] = tuple
    """The numbers of those that give answers and last until the engine is left: they report to LoadGen themselves."""


@contextmanager
def dispatch_library(sut: Sut, names: Callable[[], Sequence[str]]) -> Iterator[int]:
    """Give LoadGen's handle of a QDL that passes queries to a SUT; ``names`` are the nodes'."""
    handle = mlperf_loadgen.ConstructQDL(partial(_issue, sut), sut.flush, partial(_name, names))
    try:
        yield handle
    finally:
        mlperf_loadgen.DestroyQDL(handle)


def _issue(sut: Sut, queries: Sequence[Any]) -> None:
    sut.issue([each.id for each in queries], [each.index for each in queries])


def _name(names: Callable[[], Sequence[str]]) -> str:
    """Return the name of the whole; an exception would end the process."""
    try:
        return name_of_nodes(names())
    except Exception as error:  # the test that follows says what is wrong with the nodes
        logger.exception("the nodes' names are not known")
        return f"{NETWORK_SUT}: names unknown ({describe_error(error)})"
