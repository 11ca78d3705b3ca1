"""Runs at the same time as a run on one of several lanes."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from mlbench.records.stored import Count, Stored


class NeighbourRecord(Stored):
    """A run of the same command that went on while this one was measured."""

    lane: Count
    run_id: str
    workload: str
    backend: str
    scenario: str


class BesideRecord(Stored):
    """The lane that a run had, and what ran on the others while it was measured."""

    lane: Count
    """Its number, from 1."""
    lanes: Count
    """Number of lanes of the command."""
    processors: list[Count]
    """The lane's processors by Linux's numbers; no other lane has one of them, or of their physical cores."""
    device: str = ""
    """The lane's GPU or slice, by nvidia-smi's number or UUID; empty: it has none."""
    runs: list[NeighbourRecord]
    """Runs on other lanes while its performance test went on, or at any time where there was none."""
    shared: list[str]
    """Resources that its lane shares with theirs: ``last-level cache``, ``memory of NUMA node 0``."""
    strayed: list[Count] = Field(default_factory=list)
    """Processors of no part of the lane that a process of the run could use all the same."""

    @property
    def note(self) -> str:
        """Return a short note on runs at the same time; empty without any."""
        count = len(self.runs)
        return f"{count} other run{'s' if count > 1 else ''} of its command" if count else ""


def describe_lane(beside: BesideRecord | None) -> str:
    """Return what part of its machine a run had: all, or one of so many lanes."""
    if not beside:
        return "the whole machine"
    device = ", a slice of a GPU" if beside.device.startswith("MIG-") else ", a GPU" if beside.device else ""
    count = len(beside.processors)
    return f"one of {beside.lanes} lanes, {count} processor{'s' if count > 1 else ''}{device}"


def count_neighboured(besides: Sequence[BesideRecord | None]) -> str:
    """Return how many runs were measured at the same time as others of their command, in words; empty for none."""
    counts = [len(each.runs) for each in besides if each and each.runs]
    if not counts:
        return ""
    most = f"up to {max(counts)} others" if max(counts) > 1 else "another"
    return f"{len(counts)} of {len(besides)} runs were measured beside {most} of their command"
