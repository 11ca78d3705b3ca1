"""Times of requests from their sending, by the clock of the process that sends them.

LoadGen times a query from its due time. If all samples are one query, and requests wait for a free place, only the time
from the sending is the duration of a request.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from mlbench_endpoint.client.chunking import BETWEEN, PER_TOKEN, Chunking
from mlbench_endpoint.client.messages import Answered
from mlbench_endpoint.sweep.goodput import Goodput, measure_goodput
from mlbench_endpoint.sweep.intervals import rank_interval
from mlbench_endpoint.sweep.load_window import AnsweredColumns, LoadCourse, LoadWindow, course_of, find_steady
from mlbench_endpoint.sweep.service_limits import ServiceLimits

REQUESTS_NAME = "endpoint-requests{}.csv"
"""File in the run folder with a line for each answered request of the measured part."""

_MOST_GAPS = 1 << 24
"""Most times between chunks that are kept; beyond it every second one is dropped, and later ones likewise."""

_SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A quantity of all requests; a record holds it as a JSON object."""

    of: str
    """``first token``, ``per output token``, ``inter-token``, ``answer``, ``answer per token`` or ``prompt``."""
    unit: str
    """``ns`` or ``tokens``."""
    requests: int
    """Number of requests that have it."""
    values: int
    """Number of values: one for each of these requests; of ``inter-token`` one for each gap between two chunks."""
    mean: float
    p50: int
    p90: int
    p95: int
    p99: int
    least: int
    most: int
    intervals: Mapping[str, tuple[int | None, int | None]]
    """Ends of the intervals of the percentiles, at 95 % confidence; gaps count as one for each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFacts:
    """The facts about a load; a record holds them under the names of the fields, without those that are None."""

    from_sending: Sequence[Quantity] = ()
    window: LoadWindow | None = None
    goodput: Goodput | None = None
    unknown: Mapping[str, str] | None = None
    """Quantities that were not measured, with the reason."""
    remarks: Sequence[str] | None = None
    """Sentences about the times of tokens."""
    course: LoadCourse | None = None


_COLUMNS = tuple(each.name for each in fields(AnsweredColumns) if each.name != "places")


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class RequestTimes:
    """The answered requests of a load, the gaps between their chunks, and the times of failures."""

    rows: array[int] = field(default_factory=_column)
    """The values of `AnsweredColumns` for each request, one request after another."""
    gaps_ns: array[int] = field(default_factory=_column)
    gap_requests: array[int] = field(default_factory=_column)
    """The request of each gap, by its place among them."""
    chunking: Chunking = field(default_factory=Chunking)
    failed_ns: array[int] = field(default_factory=_column)
    places: int = 0
    """Those for which all requests wait from the beginning, as with N at once; 0: requests keep coming."""
    _queries: int = 0
    _stride: int = 1
    """One of this many gaps is kept."""

    def begin_query(self, places: int) -> None:
        """Note a query, and for how many places its samples wait; with several queries, requests keep coming."""
        self.places = 0 if self._queries else places
        self._queries += 1

    def add(self, message: Answered, tokens: int, prompt_tokens: int | None = None) -> None:
        """Record an answer, its number of tokens and that of its prompt; None: the server's count."""
        gaps = np.diff(np.array(message.chunk_ns, np.int64))
        kept = gaps[:: self._stride]
        self.gaps_ns.frombytes(kept.tobytes())
        self.gap_requests.frombytes(np.full(len(kept), len(self), np.int64).tobytes())
        self.rows.extend(
            (
                message.asked_ns or message.sent_ns,
                message.sent_ns,
                message.first_ns or message.at_ns,
                message.at_ns,
                (message.prompt_tokens if prompt_tokens is None else prompt_tokens) or 0,
                tokens,
                int(gaps.max()) if len(gaps) else -1,
            )
        )
        self.chunking.add(message, tokens, gaps)
        while len(self.gaps_ns) > _MOST_GAPS:
            self.gaps_ns, self.gap_requests, self._stride = self.gaps_ns[::2], self.gap_requests[::2], 2 * self._stride

    def __len__(self) -> int:
        """Return the number of answered requests."""
        return len(self.rows) // len(_COLUMNS)

    def columns(self) -> AnsweredColumns:
        """Return the answered requests as arrays."""
        table = np.array(self.rows).reshape(-1, len(_COLUMNS)).T.copy()
        return AnsweredColumns(**dict(zip(_COLUMNS, table, strict=True)), places=self.places)

    def facts(self, limits: ServiceLimits) -> LoadFacts:
        """Return the facts about a load: those of its steady part, and its course."""
        if not len(self):
            return LoadFacts()
        found, failed_ns, unknown = self.columns(), np.array(self.failed_ns, np.int64), self.chunking.unknown()
        counts, window = find_steady(found)
        is_known = not ((limits.tpot and PER_TOKEN in unknown) or (limits.itl and BETWEEN in unknown))
        good = None
        if limits and is_known:
            good = measure_goodput(limits, found, counts, window, failed=len(failed_ns))
        return LoadFacts(
            from_sending=[each for each in self._quantities(found, counts) if each and each.of not in unknown],
            window=window,
            goodput=good,
            unknown=unknown or None,
            remarks=tuple(self.chunking.remarks()) or None,
            course=course_of(found, failed_ns),
        )

    def _quantities(self, found: AnsweredColumns, counts: np.ndarray) -> Iterator[Quantity | None]:
        """Yield the quantities of the requests that count, a bool array (requests); None: no request has one."""
        lasted_ns, rest_ns = found.end_ns - found.sent_ns, found.end_ns - found.first_ns
        tokens, several = found.answer_tokens, counts & (found.answer_tokens > 1)
        gaps_ns = np.array(self.gaps_ns)[counts[np.array(self.gap_requests, np.int64)]]
        has_gaps = counts & (found.longest_gap_ns >= 0)
        yield quantity_of("first token", "ns", (found.first_ns - found.sent_ns)[counts])
        yield quantity_of(PER_TOKEN, "ns", rest_ns[several] // (tokens[several] - 1))
        yield quantity_of(BETWEEN, "ns", gaps_ns, int(has_gaps.sum()))
        yield quantity_of("answer", "ns", lasted_ns[counts])
        yield quantity_of("answer per token", "ns", lasted_ns[counts] // np.maximum(tokens[counts], 1))
        yield quantity_of("prompt", "tokens", found.prompt_tokens[counts])
        yield quantity_of("answer", "tokens", tokens[counts])

    def write(self, file: Path) -> None:
        """Write a line for each request, after one with the names; raises OSError."""
        with file.open("w", newline="") as text:
            lines = csv.writer(text)
            lines.writerow(_COLUMNS)
            lines.writerows(np.array(self.rows).reshape(-1, len(_COLUMNS)).tolist())


def quantity_of(of: str, unit: str, values: np.ndarray, requests: int | None = None) -> Quantity | None:
    """Return a quantity, of as many requests as values unless given; None without values."""
    if not len(values):
        return None
    requests = len(values) if requests is None else requests
    ordered = np.sort(values)

    def ends(share: float) -> tuple[int | None, int | None]:
        ranks = (None if rank is None else rank * len(values) // requests for rank in rank_interval(requests, share))
        low, high = (None if rank is None else int(ordered[rank]) for rank in ranks)
        return low, high

    return Quantity(
        of=of,
        unit=unit,
        requests=requests,
        values=len(values),
        mean=round(float(values.mean()), 1),
        **dict(zip(_SHARES, np.quantile(ordered, list(_SHARES.values()), method="inverted_cdf").tolist(), strict=True)),
        least=int(ordered[0]),
        most=int(ordered[-1]),
        intervals={name: ends(share) for name, share in _SHARES.items()},
    )
