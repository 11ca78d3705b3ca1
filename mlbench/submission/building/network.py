"""Text of an entry's README about a run over a network: its nodes, and the commands that start them."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator

from mlbench.records.environment import Environment
from mlbench.records.run_record import RunRecord

_NS_PER_US = 1000
_SOURCES = "`code/mlbench/mlbench/cluster` and `code/mlbench/mlbench/loadgen/network.py`"
"""Where a tree has the query dispatch library."""


def options_of_nodes(record: RunRecord) -> list[str]:
    """Return how a command names the nodes of a run; none for a run without a network."""
    if not (network := record.network):
        return []
    named = [word for each in network.nodes for word in ("--network", each.address)]
    return [*named, "--connections", str(network.connections), *_certificate(record)]


def serve_commands(record: RunRecord) -> str:
    """Return the command that starts each node, a line each, with what was set there."""
    lines = []
    for each in record.network.nodes if record.network else ():
        node = each.node
        words = ["mlbench", "serve", node.workload, "--backend", node.backend, "--profile", node.profile]
        words += ["--weights", node.weights, "--listen", each.address, "--name", node.name, *_certificate(record)]
        for key, value in sorted(node.settings.items()):
            words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
        lines.append(f"{shlex.join(words)}\n")
    return "".join(lines)


def network_lines(record: RunRecord) -> Iterator[str]:
    """Yield the lines about the machines of a run over a network: LoadGen's and the nodes."""
    if not (network := record.network):
        return
    protocol = "TCP with TLS" if network.is_encrypted else "TCP"
    yield from ("## Network", "")
    yield f"Samples travel over {protocol}, {network.connections} connections to each node. The sources of the query"
    yield from (f"dispatch library are in {_SOURCES}.", "")
    yield f"- LoadGen: {_machine(record.environment)}"
    for each in network.nodes:
        round_trip_us = each.round_trip_ns / _NS_PER_US
        yield (
            f"- node `{each.node.name}` at {each.address}: {_machine(each.node.environment)}; "
            f"round trip {round_trip_us:.0f} us, {each.samples} samples"
        )
    yield ""


def _certificate(record: RunRecord) -> list[str]:
    return ["--certificate", "FILE"] if record.network and record.network.is_encrypted else []


def _machine(environment: Environment) -> str:
    counted = Counter(each.name for each in environment.accelerators)
    accelerators = ", ".join(f"{count}x {name}" for name, count in sorted(counted.items())) or "no accelerator"
    return f"{environment.cpu.model}, {accelerators}, {environment.os}, {environment.kernel}"
