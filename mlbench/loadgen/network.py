"""The network division's way of driving: LoadGen's query dispatch library (QDL) in the place of its SUT.

Source: MLPerf Inference v4.1 rules, network division; LoadGen 6.0.17, ``ConstructQDL``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlperf_loadgen

from mlbench.errors import describe_error
from mlbench.loadgen.sut import Sut

logger = logging.getLogger(__name__)

NETWORK_SUT = "Network SUT"
"""What the name of a system that is reached over a network contains, by the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What LoadGen's side knows of an engine that is reached over a network."""

    names: Callable[[], Sequence[str]]
    """Asks each node for its unique name, over the network."""
    watch: Callable[[Callable[[str], None]], AbstractContextManager[None]]
    """While it is entered, calls a function with the reason when a node is lost."""


@contextmanager
def dispatch_library(sut: Sut, network: Network, *, holds_queries: bool) -> Iterator[int]:
    """Give LoadGen's handle of a QDL that passes queries to a SUT; a lost node ends the test.

    Args:
        sut: takes the queries.
        network: the nodes.
        holds_queries: what `Sut.lose` does with queries after that.
    """
    handle = mlperf_loadgen.ConstructQDL(partial(_issue, sut), sut.flush, partial(_name, network))
    try:
        with network.watch(partial(sut.lose, holds_queries=holds_queries)):
            yield handle
    finally:
        mlperf_loadgen.DestroyQDL(handle)


def _issue(sut: Sut, queries: Sequence[Any]) -> None:
    sut.issue([each.id for each in queries], [each.index for each in queries])


def _name(network: Network) -> str:
    """Return the name of the whole; an exception would end the process."""
    try:
        return f"{NETWORK_SUT}: {', '.join(network.names())}"
    except Exception as error:  # the test that follows says what is wrong with the nodes
        logger.exception("the nodes' names are not known")
        return f"{NETWORK_SUT}: names unknown ({describe_error(error)})"
