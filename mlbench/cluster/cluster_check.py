"""Whether a run may ask for the nodes of a cluster."""

from __future__ import annotations

from mlbench.cluster.addresses import Address
from mlbench.cluster.ray_process import AUTO, LOCAL
from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.scenario import Scenario
from mlbench.errors import UnavailableError, UsageError
from mlbench.system.installed import version_of


def check_cluster(plan: EnginePlan, scenario: Scenario, *, has_network: bool) -> None:
    """Check what a plan asks of a cluster, as far as that can be known without speaking to it.

    Raises:
        UsageError: nodes do not go together with something else, or the cluster's address is none.
        UnavailableError: Ray is not installed here.
    """
    asked = f"execution.nodes is {plan.nodes}"
    if not plan.nodes:
        if plan.cluster != AUTO:
            raise UsageError(f"execution.cluster is {plan.cluster}, and {asked}.", hint="Set execution.nodes too.")
        return
    if has_network:
        raise UsageError(f"{asked}, and --network names other nodes.", hint="Leave one of the two out.")
    if plan.instances == "auto":
        raise UsageError(
            f"{asked}, and execution.instances is auto, which is for one machine.",
            hint="Give the number of instances on each node.",
        )
    if plan.devices:
        raise UsageError(
            f"{asked}, and execution.devices is {plan.devices}: each node has the devices that Ray gives it.",
            hint="Leave execution.devices out.",
        )
    if plan.batching == "inline":
        raise UsageError(
            f"{asked} in {scenario.name}, where one thread asks and answers (execution.batching is inline).",
            hint="Leave execution.nodes at 0 here, or choose another scenario.",
        )
    if plan.cluster not in (AUTO, LOCAL):
        Address.parse(plan.cluster)
    if version_of("ray") is None:
        raise UnavailableError(f"{asked}, and ray is not installed.", hint="pip install 'mlbench-inference[cluster]'")
