"""The engine of a client: samples travel to nodes with their data, and answers come back.

Nothing is done here that the rules forbid on the client: a message has samples of one query, as the dataset holds
them; no batch is made, nothing is padded, converted, or kept. A sample waits here only while every node has all that it
takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlbench.cluster.addresses import Address
from mlbench.cluster.dialing import Dialer, ask_facts
from mlbench.cluster.nodes_engine import FoundNodes, NodesEngine
from mlbench.cluster.remote_node import RemoteNode
from mlbench.cluster.sample_form import samples_to_wire
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Reply, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.execution.batching import passes
from mlbench.execution.variations import Variation, VariedDataset
from mlbench.records.job_spec import JobSpec
from mlbench.records.node_record import NetworkRecord


class NetworkEngine(NodesEngine):
    """Sends samples with their data to nodes that were started by themselves."""

    def __init__(self, job: JobSpec, model: Model, dataset: Dataset) -> None:
        """Store what is asked of the nodes; ``model`` and ``dataset`` are this side's own."""
        super().__init__(job, model, dataset)
        assert job.network
        self._spec = job.network
        self.library = dataset  # what is sent is loaded here

    def _find_nodes(self) -> FoundNodes:
        facts = ask_facts(self._spec)
        return FoundNodes(
            nodes=[RemoteNode(Address.parse(text), each) for text, each in zip(self._spec.nodes, facts, strict=True)],
            dialer=Dialer.of_spec(self._spec),
            connections=self._spec.connections,
        )

    def warm_up(self, samples: Samples) -> None:
        """Warm all nodes up at the same time.

        Raises:
            ProcessEndedError: a node was lost; other errors as the engine raises.
        """
        forms, arrays = samples_to_wire(samples.data())
        self._note_capacities(self._ask("warm_up", arrays, **forms))

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Send samples, those of one query apart from all others, of a language model those of one pass."""
        if not isinstance(self._program, GenerationProgram):
            self._shared().put(samples, reply, is_apart=True)
            return
        for each in passes(samples.indices):
            self._shared().put(samples[each.start : each.stop], reply, is_apart=True)

    def vary(self, variations: Mapping[int, Variation]) -> Dataset:
        """Return samples made of loaded ones, which are here."""
        return VariedDataset(self.library, variations)

    def record(self) -> NetworkRecord:
        """Return the record of the nodes, with traffic up to the last statistics."""
        return NetworkRecord(
            connections=self._spec.connections,
            is_encrypted=bool(self._spec.certificate),
            nodes=self.reached_nodes(),
        )
