"""A node of the network division, as it describes itself: sent to the client, and kept in the record."""

from __future__ import annotations

from pydantic import Field, JsonValue

from mlbench.records.machine.environment import Environment
from mlbench.records.stored import Count, Stored


class NodeRecord(Stored):
    """What a node serves, and what it is."""

    name: str = Field(pattern=r"^[\w.:+-]+$", max_length=80)
    """Unique among the nodes of a run."""
    mlbench_version: str
    workload: str
    backend: str
    profile: str
    weights: str
    precisions: list[str]
    """What its backend offers, best first."""
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
    """How it was lost; empty: it answered to the end."""
    samples: Count
    """What it answered in the performance test."""
    elapsed_ns: Count
    """How long that was, from before the test until after it."""
    occupied_ns: Count
    """While it had one sample or more."""
    in_flight_ns: Count
    """From sending to the answer, summed over samples."""
    device: str | None = None
    """What its engine ran on, as its backend names it; null: it does not say, or the node was lost."""


class ClusterRecord(Stored):
    """The nodes of a Ray cluster that answered a run's samples, each with the data itself."""

    address: str
    """How the cluster was asked for: ``HOST:PORT``, ``auto`` or ``local``."""
    ray_version: str
    nodes: list[ReachedNodeRecord]


class NetworkRecord(Stored):
    """How a run reached the nodes that answered its samples."""

    connections: Count
    """To each node, for samples."""
    is_encrypted: bool
    """Whether by TLS."""
    nodes: list[ReachedNodeRecord]
