"""The engine of a run on the nodes of a Ray cluster: samples travel as numbers, since each node has the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from mlbench.cluster.addresses import Address
from mlbench.cluster.demand import check_alike
from mlbench.cluster.dialing import Dialer, ask_node
from mlbench.cluster.nodes_engine import FoundNodes, NodesEngine
from mlbench.cluster.placed_nodes import PlacedNodes, Placement
from mlbench.cluster.remote_node import RemoteNode
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Reply, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.execution.instances.messages import numbers
from mlbench.execution.instances.sample_store import SampleStore
from mlbench.execution.instances.sorted_samples import put_sorted
from mlbench.execution.variations import Variation
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
        self._lengths: dict[int, int] = {}
        self._is_language = isinstance(model.program, GenerationProgram)
        self._is_sorted = self._is_language or job.settings.get("execution.batching") == "bucketed"
        self.library = SampleStore(dataset, self._load, self._unload)
        """The dataset as the nodes have it: what is loaded is loaded on all of them."""

    def warm_up(self, samples: Samples) -> None:
        """Warm all nodes up at the same time.

        Raises:
            ProcessEndedError: a node was lost; other errors as the engine raises.
        """
        self._note_capacities(self._ask("warm_up", [numbers(samples.indices)]))

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Queue samples, those with like lengths together where the plan wants that, as instances do."""
        if self._is_sorted:
            put_sorted(self._shared(), samples, reply, self._lengths, by_pass=self._is_language)
        else:
            self._shared().put(samples, reply)

    def vary(self, variations: Mapping[int, Variation]) -> Dataset:
        """Have samples made of loaded ones, on all nodes, until this is called again; return where they are."""
        self._ask("vary", variations={str(index): asdict(each) for index, each in variations.items()})
        return self.library

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

    def _leave(self) -> None:
        super()._leave()
        if self._placed:
            self._placed.close()

    def _load(self, indices: Sequence[int]) -> None:
        for _, message in self._ask("load", [numbers(indices)], wants_lengths=self._is_sorted):
            if message.arrays:
                self._lengths.update(zip(indices, message.arrays[0].tolist(), strict=True))

    def _unload(self, indices: Sequence[int]) -> None:
        for node in self.nodes:
            node.send("unload", [numbers(indices)])


class NumberedNode(RemoteNode):
    """A node that is sent the numbers of samples."""

    def _send_samples(self, samples: Samples, test: int, is_flushed: bool) -> None:
        keys = numbers(samples.ids), numbers(samples.indices)
        self._send_in_turn(keys, test=test, is_flushed=is_flushed)
