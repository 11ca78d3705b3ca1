"""A model's file: what it declares, and what makes a graph of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from mlbench_own_model.declarations import DeclaredModel
from mlbench_own_model.signature import Signature

if TYPE_CHECKING:
    from mlbench import Executable, Graph
    from mlbench.toolkit import Calibrate


class ModelFile(DeclaredModel, ABC):
    """A user's model; its weights are read where a graph asks for them."""

    @abstractmethod
    def graph(self, signature: Signature, calibrate: Calibrate) -> Graph:
        """Return the model as a graph of these shapes."""

    @abstractmethod
    def noisy_graph(self, signature: Signature, share: float) -> Graph:
        """Return the graph with each weight changed by up to this share of itself, at random but always alike."""

    @abstractmethod
    def compile_reference(self, graph: Graph) -> Executable:
        """Return a function that computes a graph of the file operator by operator, without an optimiser.

        Raises:
            UnavailableError: its runtime is not installed.
            GraphError: it cannot run the graph.
        """
