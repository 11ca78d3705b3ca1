"""How near the settings that ``mlbench tune`` finds in Offline are to the best of all combinations, and in what time.

Makes a run that fills the caches, searches, runs every combination once, then chooses the best by measuring the six
highest again, in turns: the best of many single runs is a lucky one. What it prints are new runs of the best, the found
and today's settings, in turns, with the range over these turns. Real runs, of tier smoke without an accuracy test; use
a quiet machine.

Usage: python benchmarks/tune_offline.py RESULTS WORKLOAD... [--backend onnxruntime] [--set KEY=VALUE]...
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.planning.requests import ResolvedRequest
from mlbench.records.run_record import RunRecord
from mlbench.rules.tiers import Tier
from mlbench.running.runner import run_benchmark
from mlbench.tuner.find_settings import find_settings
from mlbench.tuner.search.settings_search import KnobValues, SettingsTrial
from mlbench.tuner.settings_plan import SettingsPlan, plan_settings
from mlbench.tuner.tune_plan import TuneRequest

HIGHEST, CHOOSING, AGAIN = 6, 2, 4
"""How many of the grid are measured again, how often to choose the best, and how often this and what is compared."""


def run(request: ResolvedRequest, plugins: Plugins) -> RunRecord:
    return run_benchmark(request, plugins, lambda progress: None)


def rate(plan: SettingsPlan, settings: KnobValues, plugins: Plugins) -> float:
    """Return samples or tokens per second with some settings; 0 where an engine refuses them."""
    try:
        record = run(plan.run_of(SettingsTrial(settings=settings, is_full=True), plugins), plugins)
    except UsageError:
        return 0.0
    return (record.result.value or 0.0) if record.result else 0.0


def rates_in_turns(
    plan: SettingsPlan, compared: Collection[KnobValues], repeats: int, plugins: Plugins
) -> dict[KnobValues, list[float]]:
    """Return the rates of each settings, one of each turn."""
    turns = [{settings: rate(plan, settings, plugins) for settings in compared} for _ in range(repeats)]
    return {settings: [each[settings] for each in turns] for settings in compared}


def part(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return how many times as high some rates are as others, with the range over their turns."""
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return f"{statistics.mean(ours) / statistics.mean(theirs):.3f} ({min(ratios):.2f} to {max(ratios):.2f})"


def compare(workload: str, backend: str, overrides: dict[str, str], results: Path) -> None:
    plugins = Plugins.discover()
    request = TuneRequest(
        workload=workload,
        backend=backend,
        scenario="Offline",
        tier=Tier.SMOKE,
        wants_accuracy=False,
        power="none",
        overrides=overrides,
        results=results,
    )
    plan = plan_settings(request, plugins)
    rate(plan, plan.start, plugins)
    began_s = time.monotonic()
    outcome = find_settings(plan, plugins, lambda asked, what, seconds: run(asked, plugins), fresh=True)
    search_s = time.monotonic() - began_s
    assert outcome.best
    keys = [knob.key for knob in plan.knobs]
    grid = [
        KnobValues(dict(zip(keys, each, strict=True))) for each in itertools.product(*(k.values for k in plan.knobs))
    ]
    began_s = time.monotonic()
    rates = {settings: rate(plan, settings, plugins) for settings in grid}
    grid_s = time.monotonic() - began_s
    highest = sorted(grid, key=rates.__getitem__, reverse=True)[:HIGHEST]
    chosen = rates_in_turns(plan, highest, CHOOSING, plugins)
    best = max(highest, key=lambda each: sum(chosen[each]))
    found, today = outcome.best.settings, plan.start
    again = rates_in_turns(plan, {best, found, today}, AGAIN, plugins)
    print(
        f"{workload} {backend}: found {statistics.mean(again[found]):,.5g}, {part(again[found], again[best])} of the "
        f"best of {len(grid)} combinations, {part(again[found], again[today])} of today's; "
        f"{search_s:.0f} s of {grid_s:.0f} s: {search_s / grid_s:.2f}"
    )
    print(f"  found {dict(found)}")
    print(f"  best  {dict(best)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("workloads", nargs="+")
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    overrides = dict(each.split("=", 1) for each in given.overrides)
    for workload in given.workloads:
        compare(workload, given.backend, overrides, given.results)


if __name__ == "__main__":
    main()
