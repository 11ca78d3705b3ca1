"""Engine statistics: written by engines, added up over instances, kept in the record, and read by reports.

A record holds them as one JSON object, with the fields below, the names in ``extra``, and ``kind`` for the class:
``batch``, ``generation`` or ``engine``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SETTING = {"is_setting": True}
"""Metadata of a field that is a setting, not a count: for several instances it is kept if they agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatistics:
    """Statistics of any engine, since the last call. None: not counted."""

    batching: str = ""
    """How it batches samples: a value of `EnginePlan.batching`, or its own."""
    batch: int | None = field(default=None, metadata=SETTING)
    """Samples per batch; in generation, slots."""
    workers: int | None = field(default=None, metadata=SETTING)
    samples: int | None = None
    """Number of samples answered."""
    busy_ns: int | None = None
    """Time spent computing, summed over workers."""
    truncated_prompts: int | None = None
    """Samples whose prompt was cut, as by a server whose context is too short. A rule checks it, so an engine that
    knows the number reports it, including 0."""
    late_clients: int | None = None
    """Number of the engine's own clients of a server that could not keep up with it, so that times are not the
    server's. A rule checks it, so an engine that knows the number reports it, including 0."""
    computed_calls: int | None = None
    """Graph calls that were still computed after `Engine.replay_graphs`."""
    instances: int | None = field(default=None, metadata=SETTING)
    """Number of processes with an engine each; None: the engine is the only one."""
    by_instance: Sequence[InstanceStatistics] = ()
    instance_sweep_samples_per_s: Mapping[int, float] = field(default_factory=dict)
    """Speed by number of instances, if the number was chosen by a sweep."""
    sweep_rounds: Mapping[int, int] | None = None
    """Rounds of a sweep that chose each batch size: a single size if the choice is clear. None: no sweep."""
    sweep_made: str | None = field(default=None, metadata=SETTING)
    """UTC time of the earlier sweep whose batch was reused. None: no reuse."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Statistics specific to this engine: JSON values by name. Numbers of several instances are added up; of names that
    begin with ``longest_`` the longest is kept, and texts where they are the same."""

    @property
    def by_size(self) -> Mapping[int, int]:
        """Number of batches, or decode steps, by their number of samples; empty if not counted."""
        return {}

    @property
    def sweep_per_s(self) -> Mapping[int, float]:
        """Speed by batch size in warm-up, in samples or tokens per second; empty where only one was tried."""
        return {}

    @property
    def useful_share(self) -> float | None:
        """Share of the computation spent on samples, not on padding; None if not counted."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatistics:
    """Statistics of one of several instances."""

    processors: Sequence[int] = ()
    """Processors that it was pinned to, by the kernel's numbers; empty if unknown."""
    device: str = ""
    """Its only visible accelerator, as `EnginePlan.devices` names it; empty: the backend chose."""
    ended: str = ""
    """Reason of an early end; empty while it runs."""
    counted: EngineStatistics | None = None
    """Its statistics; None: it ended before it reported any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatistics(EngineStatistics):
    """Statistics of an engine that runs batches."""

    samples: int = 0
    busy_ns: int = 0
    batches_by_size: Mapping[int, int] = field(default_factory=dict)
    padding_samples: int = 0
    """Samples computed only to fill a batch."""
    sweep_samples_per_s: Mapping[int, float] = field(default_factory=dict)

    @property
    def by_size(self) -> Mapping[int, int]:
        """Number of batches by size."""
        return self.batches_by_size

    @property
    def sweep_per_s(self) -> Mapping[int, float]:
        """Samples per second by batch size."""
        return self.sweep_samples_per_s

    @property
    def useful_share(self) -> float | None:
        """Share of rows that belong to samples, not to padding."""
        return _share(self.samples, self.samples + self.padding_samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PhaseCounts:
    """Counts of tokens: useful / computed is the share of work without padding and idle rows."""

    useful_tokens: int = 0
    computed_tokens: int = 0
    """Tokens computed, with padding and idle rows."""
    busy_ns: int = 0

    @property
    def useful_share(self) -> float | None:
        """Share of tokens that belong to samples; None where none was computed."""
        return _share(self.useful_tokens, self.computed_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCounts(_PhaseCounts):
    """Counts of prompt reading; the tokens of prompts are the useful ones."""

    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCounts(_PhaseCounts):
    """Counts of decode steps; each gives a useful token to each running sequence."""

    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCounts:
    """Size of the key-value cache at the end."""

    rows: int = 0
    columns: int = field(default=0, metadata=SETTING)
    growths: int = 0
    """Number of times it was enlarged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyCounts:
    """The part of a test in which samples waited for a slot, so that all slots were in use. The rest is the tail."""

    new_tokens: int = 0
    """Tokens generated in this part."""
    busy_ns: int = 0
    """Duration of its steps; 0: no sample ever waited."""
    whole_ns: int = 0
    """Duration of all steps, with the tail."""

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second, per instance on average; None where no sample waited."""
        return 1e9 * self.new_tokens / self.busy_ns if self.busy_ns else None

    @property
    def tail_share(self) -> float:
        """Share of the time in the tail."""
        return 1 - self.busy_ns / self.whole_ns if self.whole_ns else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStatistics(EngineStatistics):
    """Statistics of an engine that generates tokens; ``busy_ns`` is the time spent in the backend."""

    samples: int = 0
    busy_ns: int = 0
    beams: int = field(default=1, metadata=SETTING)
    prefill_tokens: int = field(default=0, metadata=SETTING)
    """`EnginePlan.prefill_tokens`."""
    failed_samples: int = 0
    new_tokens: int = 0
    """Tokens in answers; with several beams, those of the best."""
    steps_by_size: Mapping[int, int] = field(default_factory=dict)
    prefill: PrefillCounts = PrefillCounts()
    decode: DecodeCounts = DecodeCounts()
    host_ns: int = 0
    """Time in steps outside the backend: choosing, sorting, answering."""
    queue_ns: int = 0
    """Time from arrival to a slot, summed over samples."""
    longest_queue_ns: int = 0
    compute_ns: int = 0
    """Time from a slot to the answer, summed over samples."""
    copied_rows: int = 0
    """Rows of the cache that were copied: beams that forked, sequences moved into free slots."""
    steady: SteadyCounts | None = None
    """Statistics while all slots were in use; None: not counted. Meaningless where samples arrive over time."""
    cache: CacheCounts | None = None
    sweep_tokens_per_s: Mapping[int, float] = field(default_factory=dict)

    @property
    def by_size(self) -> Mapping[int, int]:
        """Number of decode steps by number of sequences."""
        return self.steps_by_size

    @property
    def sweep_per_s(self) -> Mapping[int, float]:
        """Tokens per second by number of slots."""
        return self.sweep_tokens_per_s

    @property
    def steady_tokens_per_s(self) -> float | None:
        """Tokens of answers per second as long as samples waited, of all instances; None if none did."""
        each_per_s = self.steady.tokens_per_s if self.steady else None
        return None if each_per_s is None else (self.instances or 1) * each_per_s

    @property
    def steady_samples_per_s(self) -> float | None:
        """Samples per second at that rate of tokens, for answers of average length."""
        tokens_per_s = self.steady_tokens_per_s
        return tokens_per_s * self.samples / self.new_tokens if tokens_per_s and self.new_tokens else None

    @property
    def useful_share(self) -> float | None:
        """Share of all tokens, of prompts and answers, that belong to samples."""
        phases = self.prefill, self.decode
        return _share(sum(each.useful_tokens for each in phases), sum(each.computed_tokens for each in phases))


def _share(useful: int, computed: int) -> float | None:
    return useful / computed if computed else None
