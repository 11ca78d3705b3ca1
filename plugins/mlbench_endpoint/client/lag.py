"""How late the process of the client was, and how much of a processor it took.

It cannot measure a server that it cannot keep up with. A task in its event loop is due every few milliseconds while
requests run. Whatever keeps it from running in time also keeps the bytes of a server from being read in time: other
requests in the same loop, or other processes.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mlbench_endpoint.client.messages import ClientPulse

_PERIOD_NS = 10_000_000
_PULSES_PER_REPORT = 25
_RESOLUTION_NS = 1_000_000
"""Event loops wake up to so much late by themselves: their timers count milliseconds."""

_MOST_FREE = 0.5
"""Share of the requests of N at once that may find a free place."""

_MOST_LAGS = 1 << 20
_MOST_AT_ONCE = 1000
_LEAST_NS = 2_000_000
_SHARE = 0.1
"""Largest share of the time to the first token that the client's lag may have, of the median or of the tail."""


@dataclass(slots=True)
class ClientLag:
    """Lags of the client during a load, and its processor time."""

    lags_ns: array[int] = field(default_factory=lambda: array("q"))
    reports_ns: array[int] = field(default_factory=lambda: array("q"))
    """From the arrival of a first token to its report to LoadGen, which is in another process."""
    busy_ns: int = 0
    wall_ns: int = 0

    def add(self, pulse: ClientPulse) -> None:
        """Add what the client's process reported."""
        self.busy_ns += pulse.busy_ns
        self.wall_ns += pulse.wall_ns
        if len(self.lags_ns) < _MOST_LAGS:
            self.lags_ns.extend(pulse.lags_ns)

    def add_report(self, way_ns: int) -> None:
        """Add the way of a first token to LoadGen."""
        if len(self.reports_ns) < _MOST_LAGS:
            self.reports_ns.append(way_ns)

    def facts(self) -> Mapping[str, float]:
        """Return the record's form: times in ns; empty if nothing was measured."""
        import numpy as np  # not in the client's process, whose start a run waits for

        found: dict[str, float] = {}
        for name, values in (("lag", self.lags_ns), ("report", self.reports_ns)):
            if len(values):
                middle, high = np.percentile(np.array(values), (50, 99), method="inverted_cdf")
                found[f"longest_median_{name}_ns"], found[f"longest_p99_{name}_ns"] = int(middle), int(high)
        if self.wall_ns:
            found["processor_share"] = round(self.busy_ns / self.wall_ns, 3)
        return found


def explain_lateness(facts: Mapping[str, float], ttft_ns: float) -> str:
    """Return why times are the client's and not the server's; empty if they are the server's.

    Args:
        facts: of `ClientLag.facts`.
        ttft_ns: the median time to the first token.
    """
    limit_ns = max(_LEAST_NS, _SHARE * ttft_ns)
    late_ns = max(facts.get("longest_median_lag_ns", 0), facts.get("longest_median_report_ns", 0))
    if late_ns <= limit_ns:
        return ""
    share = facts.get("processor_share", 0.0)
    return (
        f"client late: its median lag is {late_ns / 1e6:.3g} ms, more than {limit_ns / 1e6:.3g} ms, and it took "
        f"{share:.0%} of a processor, so the times are not the server's: send less, or leave it more of the machine"
    )


def explain_free_places(window: Mapping[str, float | None]) -> str:
    """Return why fewer requests than asked for were at once; empty if enough came in time.

    Args:
        window: a `LoadWindow` as in a record.
    """
    if (share := window.get("found_free_place") or 0.0) <= _MOST_FREE:
        return ""
    return (
        f"client late: {share:.0%} of the requests found a free place, since they were made more slowly than they were "
        "answered, so fewer were at once than asked for: lower the concurrency, or send smaller images or prompts"
    )


def explain_late_tail(facts: Mapping[str, float], ttft_ns: float) -> str:
    """Return why the highest percentiles may be the client's; empty if they are the server's.

    Args:
        facts: of `ClientLag.facts`.
        ttft_ns: the 99th percentile time to the first token.
    """
    late_ns = max(facts.get("longest_p99_lag_ns", 0), facts.get("longest_p99_report_ns", 0))
    if late_ns <= max(_LEAST_NS, _SHARE * ttft_ns):
        return ""
    return f"the client was {late_ns / 1e6:.3g} ms late at the 99th percentile, so the highest times may be its own"


def lags_since(due_ns: int, now_ns: int) -> list[int]:
    """Return the lags of all that was due at regular times until now, of which the first was due at ``due_ns``.

    So a long lag counts as often as bytes that arrived during it would have met it.
    """
    lag_ns = max(0, now_ns - due_ns - _RESOLUTION_NS)
    return list(range(lag_ns, -1, -_PERIOD_NS)[:_MOST_AT_ONCE])


async def watch_lag(is_busy: Callable[[], bool], report: Callable[[ClientPulse], None]) -> None:
    """Report lags of the running event loop, for as long as requests run, until cancelled."""
    lags_ns: list[int] = []
    wall_ns, busy_ns = time.monotonic_ns(), time.process_time_ns()
    while True:
        due_ns = time.monotonic_ns() + _PERIOD_NS
        await asyncio.sleep(_PERIOD_NS / 1e9)
        if is_busy():
            lags_ns += lags_since(due_ns, time.monotonic_ns())
            if len(lags_ns) < _PULSES_PER_REPORT:
                continue
        now_ns, spent_ns = time.monotonic_ns(), time.process_time_ns()
        if lags_ns:
            report(ClientPulse(lags_ns=lags_ns, busy_ns=spent_ns - busy_ns, wall_ns=now_ns - wall_ns))
        lags_ns, wall_ns, busy_ns = [], now_ns, spent_ns
