"""How near the settings that ``mlbench tune`` finds in Offline are to the best of all combinations, and in what time.

Makes a run that fills the caches, searches, runs every combination once, then measures the three best of these and the
found ones again in turns: the best of many single runs is a lucky one. Real runs, of tier smoke without an accuracy
test; use a quiet machine.

Usage: python benchmarks/tune_offline.py RESULTS WORKLOAD... [--backend onnxruntime] [--set KEY=VALUE]...
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from pathlib import Path

from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.records.run_record import RunRecord
from mlbench.requests import ResolvedRequest
from mlbench.rules.tiers import Tier
from mlbench.runner import run_benchmark
from mlbench.search.settings_search import KnobValues, SettingsTrial
from mlbench.tuner.find_settings import find_settings
from mlbench.tuner.settings_plan import SettingsPlan, plan_settings
from mlbench.tuner.tune_plan import TuneRequest

BEST, AGAIN = 3, 3


def run(request: ResolvedRequest, plugins: Plugins) -> RunRecord:
    return run_benchmark(request, plugins, lambda progress: None)


def rate(plan: SettingsPlan, settings: KnobValues, plugins: Plugins) -> float:
    """Return samples or tokens per second with some settings; 0 where an engine refuses them."""
    try:
        record = run(plan.run_of(SettingsTrial(settings=settings, is_full=True), plugins), plugins)
    except UsageError:
        return 0.0
    return (record.result.value or 0.0) if record.result else 0.0


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
    best = sorted(grid, key=rates.__getitem__, reverse=True)[:BEST]
    repeated: list[KnobValues] = [*best, plan.start, outcome.best.settings]
    again: dict[KnobValues, list[float]] = {settings: [] for settings in repeated}
    for _ in range(AGAIN):
        for settings, found in again.items():
            found.append(rate(plan, settings, plugins))
    tuned = statistics.mean(again[outcome.best.settings])
    most = max(statistics.mean(again[settings]) for settings in best)
    today = statistics.mean(again[plan.start])
    print(
        f"{workload} {backend}: tuned {tuned:,.5g}, best of {len(grid)} combinations {most:,.5g}: {tuned / most:.3f}; "
        f"today {today:,.5g}: {tuned / today:.3f} of it; {search_s:.0f} s of {grid_s:.0f} s: {search_s / grid_s:.2f}"
    )
    print(f"  found {dict(outcome.best.settings)}")
    winner = max(best, key=lambda each: statistics.mean(again[each]))
    print(f"  best  {dict(winner)}", flush=True)


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
