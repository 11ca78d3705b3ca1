"""Engine statistics: written by engines, added up over instances, kept in the record, and read by reports.

A record holds it as one JSON object with the names of the fields below, those of ``extra`` beside them, and ``kind``,
which says the class: ``batch``, ``generation`` or ``engine``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SETTING = {"is_setting": True}
"""Metadata of a field that is a setting, not a count: over several instances it is kept where they agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatistics:
    """Statistics of any engine, since the last call. None: not counted."""

    batching: str = ""
    """How it batches samples: a value of `EnginePlan.batching`, or its own."""
    batch: int | None = field(default=None, metadata=SETTING)
    """Samples per batch; in generation, slots."""
    workers: int | None = field(default=None, metadata=SETTING)
    samples: int | None = None
    """Answered."""
    busy_ns: int | None = None
    """Spent computing, summed over workers."""
    truncated_prompts: int | None = None
    """Samples whose prompt was not read to its end, as by a server whose context is too short. It means the same in all
    engines and is checked by a rule: an engine that knows it reports it, including 0."""
    computed_calls: int | None = None
    """After `Engine.replay_graphs`: graph calls that had to be computed all the same."""
    instances: int | None = field(default=None, metadata=SETTING)
    """Processes with an engine each; None: the engine is the only one."""
    by_instance: Sequence[InstanceStatistics] = ()
    instance_sweep_samples_per_s: Mapping[int, float] = field(default_factory=dict)
    """Speed by number of instances, if the number was chosen by a sweep."""
    sweep_rounds: Mapping[int, int] | None = None
    """How many rounds of a sweep over batch sizes chose each: one size alone, if the choice is sure. None: no sweep."""
    sweep_made: str | None = field(default=None, metadata=SETTING)
    """When the batch was chosen, in UTC, by a sweep of an earlier run under the same conditions. None: not so."""
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
        """Share of the computation that belongs to samples; None if not counted."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatistics:
    """Statistics of one of several instances."""

    processors: Sequence[int] = ()
    """The processors it was pinned to, by the kernel's numbers; empty if unknown."""
    device: str = ""
    """The accelerator that it saw alone, as `EnginePlan.devices` names it; empty: the backend chose."""
    ended: str = ""
    """How it ended early; empty while it runs."""
    counted: EngineStatistics | None = None
    """None: it ended before it reported any."""


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
        """The share of rows that belong to samples."""
        return _share(self.samples, self.samples + self.padding_samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PhaseCounts:
    """Useful over computed tokens is the share of work without padding and idle rows."""

    useful_tokens: int = 0
    computed_tokens: int = 0
    """The same with padding and idle rows."""
    busy_ns: int = 0

    @property
    def useful_share(self) -> float | None:
        """The share of tokens that belong to samples; None where none was computed."""
        return _share(self.useful_tokens, self.computed_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCounts(_PhaseCounts):
    """Prompts that were read; their tokens are the useful ones."""

    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCounts(_PhaseCounts):
    """Steps; each gives a useful token to each sequence that runs."""

    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCounts:
    """The key-value cache at the end."""

    rows: int = 0
    columns: int = field(default=0, metadata=SETTING)
    growths: int = 0
    """How often it had to be made larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyCounts:
    """The part of a test in which samples waited for a slot, so that all slots were in use. Its rest is the tail."""

    new_tokens: int = 0
    """Tokens of answers made in it."""
    busy_ns: int = 0
    """How long its steps took; 0: no sample ever waited."""
    whole_ns: int = 0
    """How long all steps took, those of the tail included."""

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second, of several instances that of each on average; None where no sample waited."""
        return 1e9 * self.new_tokens / self.busy_ns if self.busy_ns else None

    @property
    def tail_share(self) -> float:
        """The share of the time that was the tail."""
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
    """Tokens of answers; with several beams, those of the best."""
    steps_by_size: Mapping[int, int] = field(default_factory=dict)
    prefill: PrefillCounts = PrefillCounts()
    decode: DecodeCounts = DecodeCounts()
    host_ns: int = 0
    """Time of busy steps outside the backend: choosing, sorting, answering."""
    queue_ns: int = 0
    """From arrival to a slot, summed over samples."""
    longest_queue_ns: int = 0
    compute_ns: int = 0
    """From a slot to the answer, summed over samples."""
    copied_rows: int = 0
    """Copied rows of the cache: beams that forked, sequences moved into free slots."""
    steady: SteadyCounts | None = None
    """None: not counted. Where samples arrive over time, it says nothing."""
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
        """The same in samples, of as many tokens as an answer has on average."""
        tokens_per_s = self.steady_tokens_per_s
        return tokens_per_s * self.samples / self.new_tokens if tokens_per_s and self.new_tokens else None

    @property
    def useful_share(self) -> float | None:
        """The share of all tokens, of prompts and of answers, that belong to samples."""
        phases = self.prefill, self.decode
        return _share(sum(each.useful_tokens for each in phases), sum(each.computed_tokens for each in phases))


def _share(useful: int, computed: int) -> float | None:
    return useful / computed if computed else None
