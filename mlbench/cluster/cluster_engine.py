"""The engine of a run on the nodes of a Ray cluster: samples travel as numbers, since each node has the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlbench.cluster.addresses import Address
from mlbench.cluster.demand import check_alike
from mlbench.cluster.dialing import Dialer, ask_node
from mlbench.cluster.nodes_engine import FoundNodes, NodesEngine
from mlbench.cluster.placed_nodes import PlacedNodes, Placement
from mlbench.cluster.remote_node import RemoteNode
from mlbench.cluster.sample_form import Form
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Samples
from mlbench.contracts.model import Model
from mlbench.records.job_spec import JobSpec
from mlbench.records.node_record import ClusterRecord


class ClusterEngine(NodesEngine):
    """Answers through nodes that Ray places and watches. Have samples loaded through `library`."""

    here = "this machine"

    def __init__(self, job: JobSpec, model: Model, dataset: Dataset, placement: Placement) -> None:
        """Store what is asked of the nodes; ``model`` and ``dataset`` are this side's own."""
        super().__init__(job, model, dataset)
        self._placement = placement
        self._placed: PlacedNodes | None = None

    def record(self) -> ClusterRecord:
        """Return the nodes, with what went there before the last look at the statistics."""
        assert self._placed
        return ClusterRecord(
            address=self._placement.cluster, ray_version=self._placed.ray_version, nodes=self.reached_nodes()
        )

    def _find_nodes(self) -> FoundNodes:
        self._placed = PlacedNodes(self._placement, self._lose_placed)
        dialer = Dialer(token=self._placed.token, tls=None)
        addresses = [Address.parse(text) for text in self._placed.addresses]
        facts = [ask_node(address, dialer) for address in addresses]
        check_alike(self._placed.addresses, facts)
        return FoundNodes(nodes=list(map(NumberedNode, addresses, facts)), dialer=dialer, connections=1)

    def _lose_placed(self, number: int | None, reason: str) -> None:
        if number is None:
            self._lose_all(reason)
        elif number < len(self.nodes):
            self._lose(self.nodes[number], reason)

    def _leave(self, patience_s: float) -> None:
        super()._leave(patience_s)
        if self._placed:
            self._placed.close()


class NumberedNode(RemoteNode):
    """A node that is sent the numbers of samples."""

    def _content(self, samples: Samples) -> tuple[Mapping[str, Form], Sequence[np.ndarray]]:
        return {}, ()
