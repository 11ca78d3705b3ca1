"""A run's process for Ray: ``python -P -m mlbench.cluster.ray_process <descriptor>``.

Ray's threads and its ends are not those of the process that measures: Ray ends a process whose cluster is gone. It has
placed, and watches, the nodes of one run; when the run's process closes the socket, or dies, they are given back.

======================  =============================  ===========================================================
from the run            ``place``                      the fields of a `Placement`
to the run              ``placed``                     addresses, token (hexadecimal), ray
to the run              ``refused``                    an error, the fields of an `ErrorReport`
to the run              ``lost``                       number of the node, reason
======================  =============================  ===========================================================
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mlbench.cluster.addresses import Address
from mlbench.cluster.placed_nodes import Placement
from mlbench.errors import UsageError, describe_error, one_line
from mlbench.execution.instances.messages import Line
from mlbench.execution.instances.refusals import send_refusal
from mlbench.execution.processes.failures import ProcessEndedError, error_from_wire
from mlbench.execution.processes.started_process import take_socket
from mlbench.system.guards import convert_errors, undo_on_error

AUTO, LOCAL = "auto", "local"

_ANSWERS_WITHIN_S = 5.0
_HEAD_GONE_S = 5
"""Longest absence of Ray's head before Ray ends this process."""
_FREE_WITHIN_S = 30.0
_PULSE_S = 0.5
_MOST_REASON = 300


def main() -> int:
    """Place nodes, watch them, and give them back."""
    line = Line(take_socket())
    asked = line.receive()
    if asked is None:
        return 0
    placement = Placement(**asked.facts)
    _set_environment(placement.cluster)
    try:
        nodes = _Nodes(placement)
    except Exception as error:  # reported to the run, which decides what it means
        send_refusal(line, error)
        return 1
    line.send("placed", addresses=nodes.addresses, token=nodes.token.hex(), ray=nodes.version)
    try:
        nodes.watch(line)
    finally:
        nodes.give_back()
    return 0


def _set_environment(cluster: str) -> None:
    """Set environment variables that Ray reads at import: they turn off its usage reports."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_gcs_rpc_server_reconnect_timeout_s"] = str(_HEAD_GONE_S)
    if cluster == LOCAL:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # its way to listen on loopback alone


class _Nodes:
    """The nodes of a run, as Ray has them."""

    def __init__(self, asked: Placement) -> None:
        """Connect, and start an actor on each of so many nodes.

        Raises:
            MlbenchError: there is no such cluster, it has too few nodes or none free, or a node cannot serve.
        """
        import ray

        self._ray = ray
        self.version: str = ray.__version__
        _connect(ray, asked.cluster)
        with undo_on_error(self.give_back):
            self._place(asked)

    def _place(self, asked: Placement) -> None:
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        from mlbench.cluster.ray_node import RayNode

        self.token = secrets.token_bytes()
        bundle = _share_of_node(self._ray.nodes(), asked.count)
        group = placement_group([bundle] * asked.count, strategy="STRICT_SPREAD")
        if not group.wait(_FREE_WITHIN_S):
            raise UsageError(
                f"execution.nodes is {asked.count}, and so many nodes of the cluster were not free for "
                f"{_FREE_WITHIN_S:g} s.",
                hint="See `ray status` for what uses them.",
            )
        actor = self._ray.remote(RayNode)
        self._actors = [
            actor.options(
                num_cpus=bundle["CPU"],
                num_gpus=bundle.get("GPU", 0),
                max_concurrency=2,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, number),
            ).remote(asked, self.token)
            for number in range(asked.count)
        ]
        self.addresses = [self._started(each.start.remote(bundle["CPU"])) for each in self._actors]

    def _started(self, answer: Any) -> str:
        with convert_errors(_not_started):
            found = self._ray.get(answer)
        if found.error is not None:
            refusal = error_from_wire(found.error)
            if isinstance(refusal, ProcessEndedError):
                raise refusal
            raise type(refusal)(f"a node of the cluster: {refusal.message}", hint=refusal.hint)
        address: str = found.address
        return address

    def watch(self, line: Line) -> None:
        """Report nodes that Ray has lost to the run, until the run closes the socket."""
        closed = threading.Event()
        threading.Thread(target=_wait_for_end, args=(line, closed), daemon=True).start()
        numbers = {each.wait.remote(): number for number, each in enumerate(self._actors)}
        while not closed.is_set():
            ended, _ = self._ray.wait(list(numbers), timeout=_PULSE_S) if numbers else closed.wait() or ([], [])
            for each in ended:
                line.send("lost", number=numbers.pop(each), reason=self._why_ended(each))

    def _why_ended(self, ended: Any) -> str:
        try:
            return one_line(self._ray.get(ended))[:_MOST_REASON]
        except Exception as error:  # Ray's, of many kinds
            return _reason(error)

    def give_back(self) -> None:
        """Leave the cluster: Ray ends what it started for this process."""
        self._ray.shutdown()


def _not_started(error: Exception) -> UsageError:
    return UsageError(
        f"a node of the cluster cannot start mlbench: {_reason(error)}.",
        hint="Install the same mlbench and Ray on all of them.",
    )


def _wait_for_end(line: Line, closed: threading.Event) -> None:
    while line.receive() is not None:
        pass
    closed.set()


def _connect(ray: Any, cluster: str) -> None:
    options = {"include_dashboard": False} if cluster == LOCAL else {}
    if cluster not in (AUTO, LOCAL):
        _check_answers(cluster)

    def refuse(error: Exception) -> UsageError:
        what = {AUTO: "this machine is in no Ray cluster", LOCAL: "Ray does not start on this machine"}.get(
            cluster, f"no Ray cluster can be used at {cluster}"
        )
        return UsageError(f"{what}: {_reason(error)}.", hint="Set execution.cluster to HOST:PORT of its head.")

    with convert_errors(refuse):
        ray.init(address=cluster, logging_level=logging.WARNING, **options)


def _check_answers(cluster: str) -> None:
    """Raise `UsageError` where nothing listens at an address: Ray would try for long, and end this process."""
    address = Address.parse(cluster)
    try:
        socket.create_connection((address.host, address.port), _ANSWERS_WITHIN_S).close()
    except OSError as error:
        raise UsageError(
            f"no Ray cluster answers at {cluster}: {error.strerror or describe_error(error)}.",
            hint="Set execution.cluster to HOST:PORT of its head, as `ray start --head` prints it.",
        ) from None


def _share_of_node(nodes: Sequence[Mapping[str, Any]], count: int) -> dict[str, float]:
    """Return the resources requested of each node: all processors and accelerators, so that it has no other work.

    Of nodes that differ, what so many of them have: first those with most accelerators, then with most processors.

    Raises:
        UsageError: the cluster has fewer nodes.
    """
    having = [each["Resources"] for each in nodes if each["Alive"] and each["Resources"].get("CPU", 0) >= 1]
    if count > len(having):
        raise UsageError(
            f"execution.nodes is {count}, and the cluster has {len(having)} with processors for work.",
            hint="Start Ray on more machines, or ask for fewer nodes.",
        )
    having.sort(key=lambda each: (each.get("GPU", 0), each["CPU"]), reverse=True)
    taken = having[:count]
    shared = {"CPU": int(min(each["CPU"] for each in taken)), "GPU": int(min(each.get("GPU", 0) for each in taken))}
    return {name: number for name, number in shared.items() if number}


def _reason(error: Exception) -> str:
    """Return the first sentence of what Ray says, in one line."""
    return one_line(str(error).strip() or describe_error(error)).partition(". ")[0].rstrip(". ")[:_MOST_REASON]


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # a thread of this process may wait for the run
