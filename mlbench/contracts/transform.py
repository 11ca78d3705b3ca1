"""A transform: changes a workload's network before a backend gets it (pruning, quantisation of weights, caching)."""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from mlbench.contracts.workload import NoOptions

if TYPE_CHECKING:
    import numpy as np

    from mlbench.contracts.model import Model


class Calibration:
    """Inputs of the official calibration list; the only data that a transform may look at."""

    def __init__(self, model: Model) -> None:
        """Take the lists of a workload's own model."""
        self._graphs = model.graphs

    def inputs(self, graph: str) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the inputs of a graph, a call at a time; nothing where the workload has no list for it."""
        return self._graphs[graph].calibration()


class Transform(ABC):
    """Makes another model of a workload's. ``NAME:VALUE:VALUE`` asks for it, with its options in their order."""

    name: str
    title: str = ""
    """One line for `mlbench list`."""
    options: Any = NoOptions()
    """A frozen dataclass with default values; its fields are numbers, booleans, or words of a list."""
    changes_answers: bool = True
    """False: answers stay those of the untouched model, which the conformance kit checks."""
    is_closed: bool = False
    """Whether the closed division allows it: quantisation after training, on the calibration list alone. Such a
    transform keeps the program and the state of graphs. A run with any other is made for the open division."""
    writes_files: bool = False
    """Whether it writes the folder that native engines load, and returns it as `Model.files` with `Model.stores`,
    without graphs and with the reason in `Model.why_no_graphs`. Only a backend with `Backend.loads_files` runs it."""
    checked_on: str = "bert"
    """A workload that it takes; the conformance kit tries it on the mini profile."""

    @abstractmethod
    def apply(self, model: Model, calibration: Calibration) -> Model:
        """Return the changed model; the given one stays as it is. Called in each process of a run that has the model.

        The graphs keep their names, and their inputs and outputs; others may be added, and those left out that a new
        program does not call. A changed graph has a fingerprint of its own, and `Model.changes` has one more line of
        words and numbers: ``2 of 28 layers left out: 25 and 26``. Weights are not read here, but when a backend asks a
        graph for its module. `mlbench.toolkit.change_modules` does all this for changes of torch modules.

        Raises `UsageError` for a model that it does not take, or an option that does not fit it.
        """

    def with_options(self, options: Any) -> Self:
        """Return this transform with other options; they are of the same dataclass as `options`."""
        configured = copy.copy(self)
        configured.options = options
        return configured

    @property
    def text(self) -> str:
        """Return what asks for it, with the value of every option: ``prune-layers:0.25``."""
        values = (getattr(self.options, field.name) for field in dataclasses.fields(self.options))
        return ":".join([self.name, *map(str, values)])
