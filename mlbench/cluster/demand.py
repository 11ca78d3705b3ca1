"""The nodes that a run is asked to use, once they have said what they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from mlbench.cluster.dialing import ask_facts
from mlbench.contracts.backend import EnginePlan, Probe
from mlbench.contracts.precision import Precision
from mlbench.contracts.scenario import Scenario
from mlbench.errors import UsageError
from mlbench.records.job_spec import NetworkSpec
from mlbench.records.node_record import NodeRecord
from mlbench.rules.entry_demand import Division, EntryDemand
from mlbench.rules.official import WorkloadRules
from mlbench.rules.round_parts import Category

_SHARED: Mapping[str, Callable[[NodeRecord], Any]] = {
    "workload": lambda node: node.workload,
    "backend": lambda node: node.backend,
    "profile": lambda node: node.profile,
    "weights": lambda node: node.weights,
    "precisions": lambda node: ", ".join(node.precisions),
    "settings": lambda node: node.settings,
}
"""Facts that all nodes of a run must share, in addition to the versions of libraries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDemand:
    """Nodes that can answer the same run."""

    spec: NetworkSpec
    nodes: tuple[NodeRecord, ...]

    @classmethod
    def of_spec(cls, spec: NetworkSpec) -> Self:
        """Ask the nodes what they are.

        Raises:
            UsageError: one does not answer, is no node, or refuses this client; or they differ.
        """
        if not spec.connections >= 1:
            raise UsageError(f"{spec.connections} connections to a node.", hint="Expected at least 1.")
        nodes = tuple(ask_facts(spec))
        check_alike(spec.nodes, nodes)
        return cls(spec=spec, nodes=nodes)

    @property
    def probe(self) -> Probe:
        """Return the precisions that their backend offers."""
        first = self.nodes[0]
        return Probe(
            is_available=True,
            precisions=tuple(Precision(each) for each in first.precisions),
            versions=first.versions,
        )

    def check_served(self, workload: str, backend: str, profile: str, weights: str) -> None:
        """Raise `UsageError` if a request differs from the nodes' workload or its settings."""
        asked = {"workload": workload, "backend": backend, "profile": profile, "weights": weights}
        for what, value in asked.items():
            if (served := _SHARED[what](self.nodes[0])) != value:
                raise UsageError(
                    f"the nodes serve {what} {served}, but {value} is requested.",
                    hint="Request what they serve, or restart them.",
                )


def entry_over_network(entry: EntryDemand, rules: WorkloadRules) -> EntryDemand:
    """Return the entry of a run over a network: by default in the network division.

    Raises:
        UsageError: it is for edge systems.
    """
    if entry.category is Category.EDGE:
        raise UsageError("--network is given with --category edge.", hint="Only datacenter systems have nodes.")
    if not rules.variants:  # a workload of its own, which has no entry
        return entry
    division = Division.NETWORK if entry.division is Division.CLOSED else entry.division
    return replace(entry, division=division, category=Category.DATACENTER)


def check_network(network: NetworkDemand | None, entry: EntryDemand, scenario: Scenario, plan: EnginePlan) -> None:
    """Raise `UsageError` where division and nodes do not fit, or nodes cannot do what is asked."""
    if network is None:
        if entry.division is Division.NETWORK:
            raise UsageError(
                "a run for the network division sends its samples to nodes, and none is named.",
                hint="Name them with --network HOST:PORT, or use --division closed or open.",
            )
        return
    if entry.division is Division.CLOSED and not entry.is_default:
        raise UsageError(
            "a run whose samples travel over a network is not for the closed division.",
            hint="Use --division network or open.",
        )
    if plan.instances != 1:
        raise UsageError(
            f"execution.instances is {plan.instances}, and nodes have one engine each.",
            hint="Start `mlbench serve` once for each device instead.",
        )
    if plan.devices:
        raise UsageError(
            f"execution.devices is {plan.devices}, and nodes choose their own.",
            hint="Set CUDA_VISIBLE_DEVICES where `mlbench serve` is started.",
        )
    if scenario.waits_for_answers:
        raise UsageError(
            f"{scenario.name} is not a scenario of datacenter systems, and only these have a network division.",
            hint="Leave --scenario out to run those that have one.",
        )


def check_alike(addresses: Sequence[str], nodes: Sequence[NodeRecord]) -> None:
    """Raise `UsageError` where nodes have one name, or differ in what all nodes of a run have in common."""
    first, *others = nodes
    names = [node.name for node in nodes]
    for place, node in enumerate(nodes):
        if node.name in names[:place]:
            before = addresses[names.index(node.name)]
            raise UsageError(
                f"nodes {before} and {addresses[place]} are both named {node.name}.",
                hint="Name each address once, and start each node with its own --name.",
            )
    for address, node in zip(addresses[1:], others, strict=True):
        for what, fact in _SHARED.items():
            _check_same(what, addresses[0], fact(first), address, fact(node))
        for library in sorted({*first.versions, *node.versions}):
            one, other = first.versions.get(library, "none"), node.versions.get(library, "none")
            _check_same(library, addresses[0], one, address, other)


def _check_same(what: str, address: str, value: Any, other_address: str, other: Any) -> None:
    if value != other:
        raise UsageError(
            f"{what} differs between nodes: {value} on {address}, and {other} on {other_address}.",
            hint="All nodes of a run must be alike.",
        )
