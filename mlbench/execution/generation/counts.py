"""Statistics of a generation engine, for the record."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlbench.contracts.statistics import DecodeCounts, GenerationStatistics, PrefillCounts, SteadyCounts


@dataclass(slots=True)
class GenerationCounts:
    """Sums since the last call. Useful over computed tokens is the share of work without padding and idle rows."""

    answered: int = 0
    failed: int = 0
    new_tokens: int = 0
    """Tokens of answers; with several beams, those of the best."""
    queue_ns: int = 0
    """From arrival to a slot, summed over samples."""
    longest_queue_ns: int = 0
    compute_ns: int = 0
    """From a slot to the answer, summed over samples."""
    prefill_calls: int = 0
    prefill_useful: int = 0
    """Tokens of prompts."""
    prefill_computed: int = 0
    """The same with padding."""
    prefill_ns: int = 0
    decode_steps: int = 0
    decode_useful: int = 0
    """Rows of running sequences, summed over steps; each takes a token."""
    decode_computed: int = 0
    """The same with idle rows."""
    decode_ns: int = 0
    host_ns: int = 0
    """Time of busy steps outside the backend: choosing, sorting, answering."""
    copied_rows: int = 0
    """Copied rows of the cache: beams that forked, sequences moved into free slots."""
    steps_by_size: dict[int, int] = field(default_factory=dict)
    """Number of decode steps by number of sequences."""
    steady_ns: int = 0
    """Time of steps until no request waited for a slot; 0: none ever did."""
    steady_useful: int = 0
    """`decode_useful` at that moment."""

    @property
    def calls_ns(self) -> int:
        """The time spent in the backend."""
        return self.prefill_ns + self.decode_ns

    @property
    def steps_ns(self) -> int:
        """The time of all steps."""
        return self.calls_ns + self.host_ns

    def note_waiting(self) -> None:
        """Note that requests still wait for a slot, after a step."""
        self.steady_ns, self.steady_useful = self.steps_ns, self.decode_useful

    def _steady(self) -> SteadyCounts | None:
        """Return the steady part, with its share of the tokens: not every row of a beam search is one of an answer."""
        if not self.decode_useful:
            return None
        tokens = round(self.new_tokens * self.steady_useful / self.decode_useful)
        return SteadyCounts(new_tokens=tokens, busy_ns=self.steady_ns, whole_ns=self.steps_ns)

    def statistics(self) -> GenerationStatistics:
        """Return all as the record takes it."""
        return GenerationStatistics(
            samples=self.answered,
            failed_samples=self.failed,
            new_tokens=self.new_tokens,
            steps_by_size=dict(sorted(self.steps_by_size.items())),
            prefill=PrefillCounts(
                calls=self.prefill_calls,
                useful_tokens=self.prefill_useful,
                computed_tokens=self.prefill_computed,
                busy_ns=self.prefill_ns,
            ),
            decode=DecodeCounts(
                steps=self.decode_steps,
                useful_tokens=self.decode_useful,
                computed_tokens=self.decode_computed,
                busy_ns=self.decode_ns,
            ),
            busy_ns=self.calls_ns,
            host_ns=self.host_ns,
            queue_ns=self.queue_ns,
            longest_queue_ns=self.longest_queue_ns,
            compute_ns=self.compute_ns,
            copied_rows=self.copied_rows,
            steady=self._steady(),
        )
