"""The cores and NUMA nodes of processors, and their division into groups."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

from mlbench.system.processor import usable_threads

SYSTEM = Path("/sys/devices/system/cpu")
"""Linux's description of the processors."""

_Thing = TypeVar("_Thing")


class Core(NamedTuple):
    """A physical core, as far as this process may use it."""

    node: int
    """NUMA node."""
    processors: tuple[int, ...]
    """Linux's numbers of its hardware threads."""


def physical_cores() -> list[Core]:
    """Return the cores that this process may use, those of a node together; of a quota, only as many as it allows.

    A processor that Linux does not describe counts as a core of its own, on node 0.
    """
    places = sorted((_node(number), _siblings(number), number) for number in os.sched_getaffinity(0))
    cores = sorted(
        Core(node, tuple(number for *_, number in together))
        for (node, _), together in groupby(places, key=lambda place: place[:2])
    )
    return cores[: usable_threads()]


def core_groups(cores: Sequence[Core], count: int) -> list[Sequence[Core]]:
    """Return the cores in ``count`` groups of nearly equal size that span as few nodes as possible.

    Args:
        cores: at least ``count``.
        count: with fewer groups than nodes a group has whole nodes; else none has cores of two.
    """
    nodes = [list(cores) for _, cores in groupby(sorted(cores), key=lambda core: core.node)]
    if count < len(nodes):
        return [[core for node in part for core in node] for part in parts_of(nodes, count)]
    shares = [1] * len(nodes)
    for _ in range(count - len(nodes)):
        roomiest = max(range(len(nodes)), key=lambda place: len(nodes[place]) / (shares[place] + 1))
        shares[roomiest] += 1
    return [part for node, share in zip(nodes, shares, strict=True) for part in parts_of(node, share)]


def parts_of(things: Sequence[_Thing], count: int) -> Iterator[Sequence[_Thing]]:
    """Yield so many parts of things, in their order, whose sizes differ by one at most."""
    for number in range(count):
        yield things[number * len(things) // count : (number + 1) * len(things) // count]


def parse_processors(text: str) -> frozenset[int]:
    """Return the processors of a list as the kernel writes it: ``0-3,8``.

    Raises:
        ValueError: it is no such list.
    """
    ranges = [[int(number) for number in part.split("-")] for part in text.strip().split(",")]
    return frozenset(number for first, *last in ranges for number in range(first, (last or [first])[0] + 1))


def _node(processor: int) -> int:
    found = [folder.name for folder in (SYSTEM / f"cpu{processor}").glob("node[0-9]*")]
    return int(found[0].removeprefix("node")) if found else 0


def _siblings(processor: int) -> str:
    """Return a key that is equal for all processors of a core, and unique to it."""
    try:
        return (SYSTEM / f"cpu{processor}" / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:
        return str(processor)
