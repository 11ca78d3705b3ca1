"""Processor time of a run's samples, counted apart from its test."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mlbench.records.stored import Stored

Positive = Annotated[float, Field(gt=0)]

REFERENCE_NS = 2_000_000
"""Processor time of the reference work on the processor that `ProcessorTimeRecord.relative_ns` is scaled to."""

FEW = 2
"""Number of samples that are counted of a slow model; of others it is more."""


class SideBySideRecord(Stored):
    """Processor time of a run's engine and of another run's, which computed alternately for some milliseconds each.

    Neighbours and the clock affect both alike, so their ratio repeats several times more closely than each alone.
    """

    run_id: Annotated[str, Field(min_length=1)]
    """The other run."""
    own_ns: Positive
    """Processor time per sample or token of this run's engine."""
    other_ns: Positive
    """The same of the other's, in the same seconds."""
    rounds: Annotated[int, Field(gt=0)]
    """How often each of the two had its turn."""

    @property
    def ratio(self) -> float:
        """Processor time of this run, divided by that of the other."""
        return self.own_ns / self.other_ns


class ProcessorTimeRecord(Stored):
    """User and system time of an engine on one processor, a few samples at a time, interleaved with reference work.

    With one thread nothing waits busily for another, so that time is work. The reference work is always the same, and
    takes longer where the processor's clock is lower or neighbours use the same core and caches.
    """

    ns: Positive
    """Processor time per sample, or per output token of a language model, as the kernel counted it."""
    unit: Literal["sample", "token"]
    covers: Literal["all", "host"]
    """``all``: the processor computes the graphs; ``host``: an accelerator does, and this is the host's share."""
    reference: Literal["checksums", "scrypt"] = "checksums"
    """Kind of the reference work. Runs with different kinds are not compared."""
    reference_ns: Positive
    """Processor time of the reference work, in the same seconds."""
    relative_ns: Positive
    """Processor time per sample or token, in proportion, on a processor that does the reference work in `REFERENCE_NS`.
    Runs are compared by it."""
    samples: Annotated[int, Field(gt=0)]
    """Number of different samples, computed together."""
    rounds: Annotated[int, Field(gt=0)]
    """How often the samples were computed, and after them the reference work."""
    side_by_side: SideBySideRecord | None = None
    """Both runs' engines together, in the record of the second run of an interleaved pair."""
