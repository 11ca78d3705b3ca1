"""The expected cost of several runs, in a line."""

from __future__ import annotations

from collections.abc import Iterator

from mlbench.records.expected_cost import Basis, ExpectedCost, ExpectedTime
from mlbench.reports.units import plural, rough_time

_WORDS = {Basis.SAME: "about", Basis.SIMILAR: "roughly", Basis.ELSEWHERE: "perhaps", Basis.NOTHING: "more than"}


def spell_time(time: ExpectedTime) -> str:
    """Return a duration with a word for its certainty: ``about 14 min``, ``more than 2 min``."""
    return f"{_WORDS[time.basis]} {rough_time(time.seconds)}"


def preflight(cost: ExpectedCost, *, done: int, lanes: int = 1) -> str:
    """Return the cost of the planned runs on a number of lanes, and the basis of the estimate."""
    if not cost.runs:
        return f"All {done} runs are stored already; --fresh repeats them."
    parts = [f"{plural(cost.runs, 'run')} to make" + (f", {done} are stored" if done else "")]
    parts += [f"on {lanes} lanes, {spell_time(cost.time.spread(lanes))}" if lanes > 1 else spell_time(cost.time)]
    if cost.disk_bytes:
        parts.append(f"about {cost.disk_bytes / 1e6:,.1f} MB of disk")
    if cost.peak_memory_bytes:
        parts.append(f"up to {cost.peak_memory_bytes / 2**30:.1f} GiB of memory in earlier runs")
    return f"{'; '.join(parts)} ({', '.join(_bases(cost))})."


def _bases(cost: ExpectedCost) -> Iterator[str]:
    if same := cost.runs - cost.similar_runs - cost.elsewhere_runs - cost.unknown_runs:
        yield f"{same} known from earlier runs" if same < cost.runs else "known from earlier runs"
    if cost.similar_runs:
        yield f"{cost.similar_runs} guessed from other runs of their tier"
    for runs, basis in (
        (cost.elsewhere_runs, "estimated from other runs on a 2-core machine"),
        (cost.unknown_runs, "so only the tier's measuring time is counted"),
    ):
        if runs:
            which = "no run" if runs == cost.runs else f"for {runs} no run"
            yield f"{which} of this tier was made here yet, {basis}"
