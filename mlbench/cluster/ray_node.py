"""A node that Ray has placed: what ``mlbench serve`` runs, inside an actor. Imported on the node."""

from __future__ import annotations

import importlib
import os
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlbench.cluster.addresses import Address
from mlbench.cluster.node import Listening, serve_node
from mlbench.cluster.placed_nodes import Placement
from mlbench.cluster.session import NodeConfig
from mlbench.errors import describe_error
from mlbench.execution.processes.failures import ErrorReport, error_to_wire
from mlbench.execution.processes.supervisor import die_with_parent
from mlbench.records.node_record import NodeRecord

_MOST_OPEN = 1 << 20
_NAME_CHARACTERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedNode:
    """The address of a node, or the reason why it cannot serve."""

    address: str = ""
    error: ErrorReport | None = None


class RayNode:
    """An actor: one on each node of a run."""

    def __init__(self, placement: Placement, token: bytes) -> None:
        """Store what to serve, and the secret of its clients."""
        self._placement = placement
        self._token = token
        self._outcomes: queue.SimpleQueue[Address | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="mlbench-node", daemon=True)

    def start(self, processors: int) -> ServedNode:
        """Begin to serve, and return where. ``processors`` is how many Ray was asked for here."""
        if os.environ.get("OMP_NUM_THREADS") == str(processors):
            del os.environ["OMP_NUM_THREADS"]  # Ray's: without Ray, libraries choose by the cores that there are
        die_with_parent()  # Ray's process for this node: Ray itself takes longer to end what it has started
        self._thread.start()
        outcome = self._outcomes.get()
        if isinstance(outcome, Address):
            return ServedNode(address=str(outcome))
        return ServedNode(error=error_to_wire(outcome))

    def wait(self) -> str:
        """Wait until this node serves no more, and return why."""
        self._thread.join()
        return describe_error(found) if isinstance(found := self._outcomes.get(), BaseException) else ""

    def _serve(self) -> None:
        try:
            serve_node(self._config(), self._listening(), self._outcomes.put)
        except BaseException as error:  # told to the one that asked
            self._outcomes.put(error)
        self._outcomes.put(RuntimeError("it serves no more"))

    def _config(self) -> NodeConfig:
        import ray

        name = f"node-{ray.get_runtime_context().get_node_id()[:_NAME_CHARACTERS]}"
        job = self._placement.job
        module, _, function = self._placement.describer.partition(":")
        describe: Callable[[Mapping[str, Any], str], NodeRecord] = getattr(importlib.import_module(module), function)
        return NodeConfig(
            facts=describe(job, name),
            builder=self._placement.builder,
            settings={key: value for key, value in job["settings"].items() if key.startswith("workload.")},
            most_open=_MOST_OPEN,
            has_data=True,
        )

    def _listening(self) -> Listening:
        import ray

        return Listening(address=Address(ray.util.get_node_ip_address(), 0), token=self._token)
