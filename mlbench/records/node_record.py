"""A node of the network division, as it describes itself: sent to the client, and kept in the record."""

from __future__ import annotations

from pydantic import Field, JsonValue

from mlbench.records.environment import Environment
from mlbench.records.stored import Count, Stored


class NodeRecord(Stored):
    """The job and machine of a node."""

    name: str = Field(pattern=r"^[\w.:+-]+$", max_length=80)
    """Unique among the nodes of a run."""
    mlbench_version: str
    workload: str
    backend: str
    profile: str
    weights: str
    precisions: list[str]
    """Precisions of its backend, best first."""
    versions: dict[str, str]
    """Versions of the libraries that its backend says affect speed or results."""
    settings: dict[str, JsonValue]
    """Set on the node itself; they replace the client's."""
    environment: Environment


class ReachedNodeRecord(Stored):
    """A node that answered a run's samples."""

    address: str
    round_trip_ns: Count
    """The shortest of a few, on the idle connection."""
    node: NodeRecord
    ended: str
    """Reason of its loss; empty: it answered to the end."""
    samples: Count
    """Number of samples that it answered in the performance test."""
    elapsed_ns: Count
    """Duration of the observation, from before the test until after it."""
    occupied_ns: Count
    """While it had one sample or more."""
    in_flight_ns: Count
    """Time from sending to the answer, summed over samples."""
    device: str | None = None
    """Device of its engine, as its backend names it; null: it does not report it, or the node was lost."""


class ClusterRecord(Stored):
    """The nodes of a Ray cluster that answered a run's samples, each with the data itself."""

    address: str
    """The requested cluster: ``HOST:PORT``, ``auto`` or ``local``."""
    ray_version: str
    nodes: list[ReachedNodeRecord]


class NetworkRecord(Stored):
    """The network of a run to the nodes that answered its samples."""

    connections: Count
    """To each node, for samples."""
    is_encrypted: bool
    """Whether by TLS."""
    nodes: list[ReachedNodeRecord]
