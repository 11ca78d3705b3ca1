"""Facts of a cluster's node; called on the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlbench.discovery import Plugins
from mlbench.errors import UnavailableError
from mlbench.records.environment import observe_environment
from mlbench.records.node_record import NodeRecord
from mlbench.version import __version__


def describe_node(job: Mapping[str, Any], name: str) -> NodeRecord:
    """Return the facts of this machine, for a job (the fields of a `JobSpec`).

    Raises:
        UnavailableError: the job's backend cannot run here.
    """
    probe = Plugins.discover().probe(job["backend"])
    if not probe.is_available:
        raise UnavailableError(f"backend {job['backend']} cannot run there: {probe.reason}.", hint=probe.install)
    return NodeRecord(
        name=name,
        mlbench_version=__version__,
        precisions=[str(each) for each in probe.precisions],
        versions=dict(probe.versions),
        settings={},
        environment=observe_environment(),
        **{each: job[each] for each in ("workload", "backend", "profile", "weights")},
    )
