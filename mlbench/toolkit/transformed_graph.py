"""Graphs whose torch modules a transform changes."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contracts.graph import Graph, TensorSpec
from mlbench.contracts.precision import Precision
from mlbench.contracts.wrapped import WrappedGraph

if TYPE_CHECKING:
    import torch

    from mlbench.contracts.model import Model
    from mlbench.contracts.transform import Transform

    Change = Callable[[torch.nn.Module], None]


class TransformedGraph(WrappedGraph):
    """A graph whose module is changed before a backend gets it."""

    def __init__(
        self, graph: Graph, by: Transform, change: Change, *, state: tuple[TensorSpec, ...] | None = None
    ) -> None:
        """Store what changes the module.

        Args:
            graph: of the untouched model.
            by: the transform.
            change: changes a whole module in place; it may get one that shares parts with another graph's.
            state: of the changed graph; None: as it was.
        """
        super().__init__(graph)
        self._by = by
        self._change = change
        self.state = graph.state if state is None else state

    def module(self) -> torch.nn.Module:
        """Return the changed module."""
        return self._changed(self.wrapped.module())

    def module_at(self, precision: Precision) -> torch.nn.Module:
        """Return the changed module in a precision."""
        return self._changed(self.wrapped.module_at(precision))

    def onnx(self) -> Path:
        """Return the changed module as a file from the cache, exporting it first where it is missing."""
        from mlbench.execution.export.onnx_export import export_onnx

        return export_onnx(self)

    @property
    def code(self) -> frozenset[str]:
        """The modules of the graph and of the transform."""
        return super().code | {type(self._by).__module__}

    @property
    def fingerprint(self) -> str:
        """A hash of the untouched graph's fingerprint and of the transform with its options."""
        return hashlib.sha256(f"{self.wrapped.fingerprint}, {self._by.text}".encode()).hexdigest()

    def _changed(self, module: torch.nn.Module) -> torch.nn.Module:
        self._change(module)
        return module


def change_modules(
    model: Model,
    by: Transform,
    change: Change,
    *,
    says: str,
    state: Callable[[Graph], tuple[TensorSpec, ...]] | None = None,
) -> Model:
    """Return a model with changed parts of its torch modules.

    Args:
        model: the untouched one.
        by: the transform.
        change: is given each part of each module once, also where graphs share it: a linear layer, and the block that
            it belongs to; it changes what it knows in place.
        says: what it changes, in words and numbers, for `Model.changes`.
        state: returns the state of a changed graph; None: as it was.
    """
    change_once = _once_each(change)
    graphs = {
        name: TransformedGraph(graph, by, change_once, state=state(graph) if state else None)
        for name, graph in model.graphs.items()
    }
    return replace(model, graphs=graphs, changes=(*model.changes, says))


def _once_each(change: Change) -> Change:
    """Return a function that changes the parts of a module that it has not changed yet."""
    changed: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

    def change_new_parts(module: torch.nn.Module) -> None:
        import torch

        new = [part for part in module.modules() if part not in changed]
        changed.update(new)
        with torch.no_grad():
            for part in new:
                change(part)

    return change_new_parts
