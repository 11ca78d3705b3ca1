"""A run's energy, work, and share of the machine's ceilings, in a record."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from mlbench.records.stored import Stored


class EnergyRecord(Stored):
    """Readings of power meters over the performance run, idling included."""

    joules: float
    seconds: float
    source: str
    """Source of the number: ``RAPL``."""
    covers: str
    """Measured parts: ``package-0, package-0 dram``."""
    leaves_out: str = ""
    """Parts of the machine that are not included."""
    parts: dict[str, float] = Field(default_factory=dict)
    """Joules of each separately measured part."""
    readings: int = 2
    """Number of readings, including at begin and end."""
    idle_w: float | None = None
    """Power of the same parts just before, with the engine ready and idle."""
    idle_seconds: float | None = None
    """Duration of that measurement."""
    joules_per_sample: float | None = None
    joules_per_token: float | None = None
    """Null where the workload is not judged by tokens."""


class GraphWorkRecord(Stored):
    """Calls of one graph."""

    graph: str
    calls: int
    shapes: int
    """Number of distinct shapes among the calls."""
    operations: int
    """Operations of all calls, two for each multiply-add."""
    bytes: int
    """Bytes moved by all calls: weights, state, inputs and outputs, each at least once."""


class WorkRecord(Stored):
    """Minimum work of the graph calls of the performance run, padding included."""

    graphs: list[GraphWorkRecord]
    operations_per_sample: float
    bytes_per_sample: float
    samples_per_s: float | None
    """Completed while measuring."""
    useful_share: float | None
    """Share of the computed rows or tokens that belong to samples; the rest is padding."""


class RooflineRecord(Stored):
    """The work done per second, compared with this machine's measured peak."""

    device: str
    """``cpu``, or the accelerator's name."""
    precision: str
    operations_per_s: float
    bytes_per_s: float
    operations_ceiling_per_s: float
    bytes_ceiling_per_s: float
    bound: Literal["compute", "memory"]
    """The ceiling that limits this mix of operations and bytes."""
    share: float
    """Share of that ceiling; above 1 where a cache served accesses that count as memory."""
    measured: AwareDatetime
    """Time of the ceilings' measurement."""
