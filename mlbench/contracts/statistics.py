"""What an engine counted: engines write it, instances are added up, a record keeps it, and reports read it.

A record holds it as one JSON object with the names of the fields below, those of ``extra`` beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SETTING = {"is_setting": True}
"""Metadata of a field that was chosen, and not counted: of several instances it is kept where they agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatistics:
    """What any engine may count, since it was last asked. None: it does not count that."""

    batching: str = ""
    """How it puts samples together: a value of `EnginePlan.batching`, or a word of its own."""
    batch: int | None = field(default=None, metadata=SETTING)
    """Samples per batch; in generation, slots."""
    workers: int | None = field(default=None, metadata=SETTING)
    samples: int | None = None
    """Answered."""
    busy_ns: int | None = None
    """Spent computing, summed over workers."""
    truncated_prompts: int | None = None
    """Samples whose prompt was not read to its end, as by a server whose context is too short. It means the same in all
    engines and is held against a rule: an engine that can tell reports it, 0 too."""
    computed_calls: int | None = None
    """After `Engine.replay_graphs`: graph calls that had to be computed all the same."""
    instances: int | None = field(default=None, metadata=SETTING)
    """Processes with an engine each; None: the engine is the only one."""
    by_instance: Sequence[InstanceStatistics] = ()
    instance_sweep_samples_per_s: Mapping[int, float] = field(default_factory=dict)
    """What each number of instances reached where it was chosen by trying."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What only this engine counts: JSON values by name. Numbers of several instances are added up; of names that begin
    with ``longest_`` the longest is kept, and texts where they are the same."""

    @property
    def by_size(self) -> Mapping[int, int]:
        """How many batches, or decode steps, ran so many samples; empty where nobody counts them."""
        return {}

    @property
    def sweep_per_s(self) -> Mapping[int, float]:
        """What each batch size reached in warm-up, in samples or tokens; empty where only one was tried."""
        return {}

    @property
    def useful_share(self) -> float | None:
        """How much of what was computed belongs to samples; None where nobody counts that."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatistics:
    """What one of several instances counted."""

    processors: Sequence[int] = ()
    """It kept to these, by the kernel's numbers; empty where they are not known."""
    ended: str = ""
    """How it came to its end before it was to; empty while it serves."""
    counted: EngineStatistics | None = None
    """None: it had ended before it could say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatistics(EngineStatistics):
    """What an engine counts that runs samples in batches."""

    samples: int = 0
    busy_ns: int = 0
    batches_by_size: Mapping[int, int] = field(default_factory=dict)
    padding_samples: int = 0
    """Computed only to fill a batch."""
    sweep_samples_per_s: Mapping[int, float] = field(default_factory=dict)

    @property
    def by_size(self) -> Mapping[int, int]:
        """How many batches ran so many samples."""
        return self.batches_by_size

    @property
    def sweep_per_s(self) -> Mapping[int, float]:
        """Samples per second by batch size."""
        return self.sweep_samples_per_s

    @property
    def useful_share(self) -> float | None:
        """The part of the rows that belongs to samples."""
        return _share(self.samples, self.samples + self.padding_samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PhaseCounts:
    """Useful tokens over computed ones is what padding and idle rows leave of the work."""

    useful_tokens: int = 0
    computed_tokens: int = 0
    """The same with padding and idle rows."""
    busy_ns: int = 0

    @property
    def useful_share(self) -> float | None:
        """The part of the tokens that belongs to samples; None where none was computed."""
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
class GenerationStatistics(EngineStatistics):
    """What an engine counts that generates tokens; ``busy_ns`` is the time spent in the backend."""

    samples: int = 0
    busy_ns: int = 0
    beams: int = field(default=1, metadata=SETTING)
    prefill_tokens: int = field(default=0, metadata=SETTING)
    """`EnginePlan.prefill_tokens`."""
    failed_samples: int = 0
    new_tokens: int = 0
    """Of the answers; with several beams, those of the best."""
    steps_by_size: Mapping[int, int] = field(default_factory=dict)
    prefill: PrefillCounts = PrefillCounts()
    decode: DecodeCounts = DecodeCounts()
    host_ns: int = 0
    """Of busy steps, all that passed outside the backend: choosing, sorting, answering."""
    queue_ns: int = 0
    """From arrival to a slot, summed over samples."""
    longest_queue_ns: int = 0
    compute_ns: int = 0
    """From a slot to the answer, summed over samples."""
    copied_rows: int = 0
    """Of the cache: beams that forked, sequences moved into holes."""
    cache: CacheCounts | None = None
    sweep_tokens_per_s: Mapping[int, float] = field(default_factory=dict)

    @property
    def by_size(self) -> Mapping[int, int]:
        """How many decode steps ran so many sequences."""
        return self.steps_by_size

    @property
    def sweep_per_s(self) -> Mapping[int, float]:
        """Tokens per second by number of slots."""
        return self.sweep_tokens_per_s

    @property
    def useful_share(self) -> float | None:
        """The part of all tokens, of prompts and of answers, that belongs to samples."""
        phases = self.prefill, self.decode
        return _share(sum(each.useful_tokens for each in phases), sum(each.computed_tokens for each in phases))


def _share(useful: int, computed: int) -> float | None:
    return useful / computed if computed else None
