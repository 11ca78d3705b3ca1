"""The nodes that a compliance test is to be answered by: those of the audited run."""

from __future__ import annotations

import dataclasses

from mlbench.cluster.demand import NetworkDemand
from mlbench.errors import UsageError
from mlbench.records.node_record import NetworkRecord
from mlbench.records.run_record import RunRecord
from mlbench.submission.auditing.plan import AuditPlan


def with_nodes(plan: AuditPlan, network: NetworkDemand | None) -> AuditPlan:
    """Return a plan whose tests nodes answer.

    Args:
        plan: of a run.
        network: nodes that answer now; None: this machine does.

    Raises:
        UsageError: the run was not answered by these.
    """
    record = plan.record
    if not record.network:
        if network:
            raise UsageError(
                f"run {record.run_id} was made without a network, and nodes are named.", hint="Leave --network out."
            )
        return plan
    if not network:
        names = ", ".join(each.node.name for each in record.network.nodes)
        raise UsageError(f"run {record.run_id} was answered by nodes {names}.", hint="Name them with --network.")
    _check_same(record, record.network, network)
    return dataclasses.replace(plan, network=network)


def _check_same(record: RunRecord, then: NetworkRecord, now: NetworkDemand) -> None:
    machines_then = {each.node.name: each.node.environment.machine for each in then.nodes}
    machines = {each.name: each.environment.machine for each in now.nodes}
    if machines_then.keys() != machines.keys():
        one, other = (", ".join(sorted(each)) for each in (machines_then, machines))
        raise UsageError(
            f"run {record.run_id} was answered by nodes {one}, and {other} are named.",
            hint="Start them with the same --name.",
        )
    for name, machine in machines.items():
        if machine != machines_then[name]:
            raise UsageError(
                f"node {name} is on another machine than in run {record.run_id}.", hint="Start it where it was."
            )
    if then.connections != now.spec.connections:
        raise UsageError(
            f"run {record.run_id} had {then.connections} connections to a node, but {now.spec.connections} are "
            "requested.",
            hint=f"Use --connections {then.connections}.",
        )
    if then.is_encrypted is not bool(now.spec.certificate):
        had, asked = ("TLS", "none") if then.is_encrypted else ("no TLS", "it")
        raise UsageError(
            f"run {record.run_id} had {had}, but {asked} is requested.",
            hint="Use --certificate as the run did.",
        )
