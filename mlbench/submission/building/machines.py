"""The machines that runs were made on, compared with each other and with the description of their system.

What answers the samples is the system: the nodes of a run that has some, otherwise the machine that LoadGen was on.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence

from mlbench.errors import UsageError
from mlbench.records.environment import Environment
from mlbench.records.node_record import ReachedNodeRecord
from mlbench.records.run_record import RunRecord, read
from mlbench.submission.building.stored import StoredRun
from mlbench.submission.building.system import System

_LOCAL_NAME = "localhost"


def check_records(system: System, records: Sequence[RunRecord]) -> None:
    """Raise `UsageError` where runs are not of one system, or not of the described one."""
    first, *others = records
    for record in others:
        _check_same(first, record)
    for record in records:
        _check_separate(record)
        _check_described(system, record)


def check_test(run: StoredRun, test: str) -> None:
    """Raise `UsageError` where a compliance test of a run was made on other machines or nodes than the run."""
    record, made = run.record, read(run.tests[test].parent)
    if _names(made) != _names(record):
        raise UsageError(
            f"{test} of run {record.run_id} was answered by {_names(made)}, and the run by {_names(record)}.",
            hint="Make the test again on those of the run.",
        )
    if _machines(made) != _machines(record):
        raise UsageError(
            f"{test} of run {record.run_id} was made on other machines than the run.",
            hint="Make the test again on those of the run.",
        )


def _check_same(first: RunRecord, record: RunRecord) -> None:
    if _machines(record) != _machines(first) and _count_machines(record) == _count_machines(first):
        raise UsageError(
            f"runs {first.run_id} and {record.run_id} were made on different machines.",
            hint="A system is the same machines: name the runs of one.",
        )
    for said, find in _SAME.items():
        if find(record) != find(first):
            raise UsageError(
                f"runs {first.run_id} and {record.run_id} were {said.format(find(first), find(record))}.",
                hint="A system has one of it: name the runs of one.",
            )


def _check_separate(record: RunRecord) -> None:
    """Raise where the system is the machine that LoadGen was on, as far as addresses tell.

    Source: the rules on the network division, which want LoadGen on a physically separate system.
    """
    for each in record.network.nodes if record.network else ():
        if _is_loopback(_host(each)):
            raise UsageError(
                f"node {each.node.name} of run {record.run_id} answered at {each.address}, on LoadGen's own machine.",
                hint="The rules require LoadGen on a separate machine.",
            )


def _check_described(system: System, record: RunRecord) -> None:
    found = [
        ("number_of_nodes", str(_count_machines(record)), f"run {record.run_id}"),
        *((name, value, by) for by, environment in _answering(record) for name, value in _facts(environment).items()),
    ]
    for name, value, by in found:
        if _plain(str(system.fields[name])) != _plain(value):
            raise UsageError(
                f"{name} of the system is {system.fields[name]!r}, and {by} was made with {value!r}.",
                hint="Describe the machine of the runs: `mlbench system describe` there.",
            )


def _facts(environment: Environment) -> Mapping[str, str]:
    """Return the fields of a description that an environment tells."""
    accelerators = environment.accelerators
    is_counted = accelerators or not environment.accelerator_problem
    return {
        "host_processor_model_name": environment.cpu.model,
        **({"accelerators_per_node": str(len(accelerators))} if is_counted else {}),
        **({"accelerator_model_name": ", ".join(sorted({each.name for each in accelerators}))} if accelerators else {}),
    }


def _answering(record: RunRecord) -> Iterator[tuple[str, Environment]]:
    """Yield each machine that answered samples, and how to call it."""
    for each in record.nodes:
        yield f"node {each.node.name} of run {record.run_id}", each.node.environment
    if not record.nodes:
        yield f"run {record.run_id}", record.environment


def _machines(record: RunRecord) -> Sequence[str]:
    """Return LoadGen's machine, and those of the nodes in any order."""
    return record.environment.machine, *sorted(each.node.environment.machine for each in record.nodes)


def _count_machines(record: RunRecord) -> int:
    """Return how many machines answered: nodes at one host are several devices of a machine."""
    if record.network:
        return len({_host(each) for each in record.network.nodes})
    return len(record.cluster.nodes) if record.cluster else 1


def _names(record: RunRecord) -> str:
    """Return the names of the nodes that a run reached over a network."""
    named = ", ".join(sorted(each.node.name for each in record.network.nodes)) if record.network else ""
    return f"nodes {named}" if named else "LoadGen's own machine"


def _network(record: RunRecord) -> str:
    """Return how a run reached its nodes: the description of a system says it once."""
    if not (network := record.network):
        return "no network"
    return f"{network.connections} connections to a node {'with' if network.is_encrypted else 'without'} TLS"


_SAME: Mapping[str, Callable[[RunRecord], object]] = {
    "made on {} and {} nodes": _count_machines,
    "answered by {} and by {}": _names,
    "made over {} and over {}": _network,
}
"""What is said of two runs that differ in something that a system has once, and how to find it."""


def _host(node: ReachedNodeRecord) -> str:
    return node.address.rpartition(":")[0].strip("[]").lower()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == _LOCAL_NAME


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
