"""A scenario: defines how samples arrive and which result is reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from mlbench.contracts.load_pattern import LOAD_PATTERNS, Arrivals, LoadPattern

MOST_REPEATS = 10_000
"""Largest number of repeats of a run. A hundred give a narrow interval; more than this is probably a typo."""

MOST_LANES = 1024
"""Largest number of runs that one command makes at the same time."""

LONGEST_TAG = 200
"""Most characters in a tag."""


def is_tag(text: str) -> bool:
    """Return whether a text can be a tag; an empty one stands for none."""
    return len(text) <= LONGEST_TAG and text.isprintable()


Count = Annotated[int, Ge(0), Lt(2**63)]
Positive = Annotated[float, Gt(0), Lt(float("inf"))]
Limit = Annotated[float, Ge(0), Le(1e9)]
"""A limit of a latency, in milliseconds."""
Seconds = Annotated[float, Gt(0), Le(1e9)]
"""Longest timeout; larger values overflow the clock."""

ComparedBy = Literal["result", "latency"]
"""The metric by which runs of a scenario are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way of sending samples. The four official ones are data like this, and a plugin can register another.

    Source of the keys: MLPerf Inference v4.1, submission checker and rules, "Scenarios".
    """

    name: str
    title: str
    """One line for `mlbench list`."""
    loadgen: str
    """The LoadGen scenario that generates the traffic: SingleStream, MultiStream, Server or Offline. Its rules
    apply."""
    result_key: str
    """The key of LoadGen's detail log that is the result."""
    result_unit: str
    """``ns`` (lower is better), or ``samples/s`` (higher is better)."""
    percentile: float | None
    """Percentile of the latency that is judged or reported, as a fraction. None for LoadGen's Offline only: all samples
    are one query, so their latencies are meaningless."""
    early_stopping: bool
    """Whether the early stopping rule applies."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Default settings of this scenario, by key: ``{"execution.batching": "dynamic"}``."""
    token_result_key: str = ""
    """The detail log's key of the result where tokens are measured; empty: the rules'."""
    rules: str = ""
    """The official scenario whose rules apply, where it is not LoadGen's: ``Interactive``, which LoadGen knows as
    Server. A round that does not have it defines no such run."""
    is_beyond_rules: bool = False
    """Whether it may run, when named, although a workload's rules do not define it. It needs another name than the
    official ones, so that no such run is conformant."""
    compared_by: ComparedBy | None = None
    """The value that `mlbench compare` compares: the result, or the latency at ``percentile`` (where tokens are judged,
    TTFT and TPOT). None: the latency where LoadGen sends a rate, since the rate is a setting and not a result;
    elsewhere the result."""

    @property
    def official(self) -> str:
        """Return the name of the official scenario whose rules apply."""
        return self.rules or self.loadgen

    @property
    def higher_is_better(self) -> bool:
        """Return whether a larger result is a better one."""
        return self.result_unit != "ns"

    @property
    def pattern(self) -> LoadPattern:
        """Return LoadGen's pattern of sending queries.

        Raises:
            KeyError: ``loadgen`` is not one of the four.
        """
        return LOAD_PATTERNS[self.loadgen]

    @property
    def sends_rate(self) -> bool:
        """Return whether queries arrive at a requested rate."""
        return self.pattern.arrivals is Arrivals.AT_A_RATE

    @property
    def sends_all_at_once(self) -> bool:
        """Return whether all samples are one query."""
        return self.pattern.arrivals is Arrivals.ALL_AT_ONCE

    @property
    def waits_for_answers(self) -> bool:
        """Return whether a query is sent when the previous one is answered."""
        return self.pattern.arrivals is Arrivals.ONE_BY_ONE

    @property
    def has_query_size(self) -> bool:
        """Return whether ``load.samples_per_query`` sets the samples of a query."""
        return "samples_per_query" in self.pattern.settings

    def query_size(self, load: LoadSettings) -> int:
        """Return the samples per query where LoadGen waits for the answer; 1 elsewhere."""
        return load.samples_per_query if self.has_query_size else 1

    @property
    def has_estimate(self) -> bool:
        """Return whether the result is LoadGen's early-stopping estimate of the percentile."""
        return self.result_key.startswith("early_stopping_latency_")

    @property
    def is_compared_by_latency(self) -> bool:
        """Return whether runs are compared by latency instead of their result."""
        return self.compared_by == "latency" or (self.compared_by is None and self.sends_rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Settings of LoadGen for a run. Settings named ``load.<field>`` fill it."""

    min_duration_ms: Count = 0
    """Minimum duration in milliseconds; 0: the tier's."""
    min_query_count: Count = 0
    """Minimum number of queries (Offline: samples); 0: the tier's."""
    performance_sample_count: Count = 0
    """Number of samples kept loaded; 0: the dataset's number."""
    target_qps: Annotated[float, Ge(0), Le(1e9)] = 0.0
    """Arrivals per second in Server, the expected rate in Offline; 0: from a short measurement before the run."""
    server_load: Positive | Literal["auto"] = "auto"
    """Share of the measured one-at-a-time rate that Server sends when ``target_qps`` is 0. ``auto``: a rate that the
    engine sustained in a short test, at most 60 % of its throughput in large batches."""
    expected_latency_ns: Count = 0
    """Expected duration of a query in SingleStream and MultiStream, in nanoseconds; 0: from a short measurement before
    the run."""
    samples_per_query: Annotated[int, Ge(1), Le(1_000_000)] = 8
    """Samples in a query of MultiStream. The rules fix it at 8."""
    coalesce_queries: bool | Literal["auto"] = "auto"
    """In Server: pass all overdue queries to the engine in one call. ``auto``: from 20,000 arrivals per second on,
    where a call for each takes longer than Python has; below, one call for each, as without this setting."""
    latency_limit_ms: Limit = 0.0
    """In Server, where the latency of queries is judged: a stricter limit than the rules', in milliseconds; 0:
    theirs."""
    ttft_limit_ms: Limit = 0.0
    """In Server, where tokens are judged: a stricter limit of the time to the first token than the rules', in
    milliseconds; 0: theirs."""
    tpot_limit_ms: Limit = 0.0
    """The same for the time per output token."""
    end_at_late_share: Annotated[float, Ge(0), Le(1)] = 0.0
    """In Server: end the performance test, and make the run INVALID, once more than this share of all its queries were
    late; 0: never. ``mlbench tune`` uses it to end runs that cannot become valid."""
    reply_checks: Count = 256
    """Approximate number of replies of a performance run that are kept and compared with the accuracy run's."""
    stall_timeout_s: Seconds = 120.0
    """Longest time without an answer while samples are open: the run then ends as INVALID and names them. If all are
    answered and LoadGen does not return, it ends as a hang ten seconds later."""
    stage_timeout_s: Seconds = 3600.0
    """Longest time without progress in a stage before or after measuring (loading, compiling, warm-up, scoring): the
    run then ends as a hang. On a busy machine the limit is processor time: a stage that is on a processor a tenth of
    the time or more may use this much processor time, within four times as long. A warm-up that uses no processor ends
    sooner: after five times ``stall_timeout_s``."""
    memory_limit_gib: Annotated[float, Ge(0), Le(1e9)] = 0.0
    """Memory limit of a run's process: above it the run ends as out of memory. 0: 95 % of the memory that is free when
    it starts."""
