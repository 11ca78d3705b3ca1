"""Statistics of a generation engine, for the record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from mlbench.contracts.statistics import DecodeCounts, GenerationStatistics, PrefillCounts, SteadyCounts


@dataclass(slots=True)
class PhaseCounts:
    """Calls of a graph. Useful over computed tokens is the share of work without padding and idle rows."""

    calls: int = 0
    useful_tokens: int = 0
    computed_tokens: int = 0
    busy_ns: int = 0

    def note(self, useful: int, computed: int, lasted_ns: int) -> None:
        """Add a call."""
        self.calls += 1
        self.useful_tokens += useful
        self.computed_tokens += computed
        self.busy_ns += lasted_ns


@dataclass(slots=True)
class GenerationCounts:
    """Sums since the last call."""

    answered: int = 0
    failed: int = 0
    new_tokens: int = 0
    """Tokens of answers; with several beams, those of the best."""
    queue_ns: int = 0
    """From arrival to a slot, summed over samples."""
    longest_queue_ns: int = 0
    compute_ns: int = 0
    """From a slot to the answer, summed over samples."""
    prefill: PhaseCounts = field(default_factory=PhaseCounts)
    """The tokens of prompts are the useful ones, the others are padding."""
    decode: PhaseCounts = field(default_factory=PhaseCounts)
    """Each running sequence takes a token in each of its rows; the others are idle."""
    host_ns: int = 0
    """Time of busy steps outside the backend: choosing, sorting, answering."""
    copied_rows: int = 0
    """Copied rows of the cache: beams that forked, sequences moved into free slots."""
    steps_by_size: dict[int, int] = field(default_factory=dict)
    """Number of decode steps by number of sequences."""
    steady_ns: int = 0
    """Time of steps until no request waited for a slot; 0: none ever did."""
    steady_useful: int = 0
    """Useful tokens of `decode` at that moment."""

    @property
    def calls_ns(self) -> int:
        """The time spent in the backend."""
        return self.prefill.busy_ns + self.decode.busy_ns

    @property
    def steps_ns(self) -> int:
        """The time of all steps."""
        return self.calls_ns + self.host_ns

    def note_waiting(self) -> None:
        """Note that requests still wait for a slot, after a step."""
        self.steady_ns, self.steady_useful = self.steps_ns, self.decode.useful_tokens

    def _steady(self) -> SteadyCounts | None:
        """Return the steady part, with its share of the tokens: not every row of a beam search is one of an answer."""
        if not self.decode.useful_tokens:
            return None
        tokens = round(self.new_tokens * self.steady_useful / self.decode.useful_tokens)
        return SteadyCounts(new_tokens=tokens, busy_ns=self.steady_ns, whole_ns=self.steps_ns)

    def statistics(self) -> GenerationStatistics:
        """Return all as the record takes it."""
        decode = asdict(self.decode)
        return GenerationStatistics(
            samples=self.answered,
            failed_samples=self.failed,
            new_tokens=self.new_tokens,
            steps_by_size=dict(sorted(self.steps_by_size.items())),
            prefill=PrefillCounts(**asdict(self.prefill)),
            decode=DecodeCounts(steps=decode.pop("calls"), **decode),
            busy_ns=self.calls_ns,
            host_ns=self.host_ns,
            queue_ns=self.queue_ns,
            longest_queue_ns=self.longest_queue_ns,
            compute_ns=self.compute_ns,
            copied_rows=self.copied_rows,
            steady=self._steady(),
        )
