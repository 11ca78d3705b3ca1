"""One module for all workers of a process: its weights are on a device once, however many run it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch

from mlbench.contracts.graph import Graph

_modules: WeakKeyDictionary[Graph, WeakValueDictionary[Hashable, torch.nn.Module]] = WeakKeyDictionary()
_building = RLock()


def share_module(graph: Graph, place: Hashable, build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """Return the graph's module that is in use in this place, where there is one, else a new one.

    Args:
        graph: the same object for all that share.
        place: device, precision and layout: what a module is changed for once it is built.
        build: makes a module, which lives as long as somebody uses it.
    """
    if not isinstance(graph, Hashable):
        return build()
    with _building:
        in_places = _modules.setdefault(graph, WeakValueDictionary())
        module = in_places.get(place)
        if module is None:
            module = in_places[place] = build()
        return module
