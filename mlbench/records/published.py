"""Published results of MLPerf Inference by round, and the rank of a run among those of its own."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.errors import IncomparableRunsError
from mlbench.records.machine.used_accelerators import count_used_accelerators
from mlbench.records.run_record import RunRecord

RESULTS = f"mlperf_inference_{DEFAULT_ROUND}.csv"
_FILE = re.compile(r"mlperf_inference_(.+)\.csv")
NVIDIA_TABLES = "nvidia_v4.1_tables.csv"
CLAIMS = "claims.csv"

_NAMES = {"resnet50": "resnet"}
"""Workloads whose published name differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published result; text fields are as submitted."""

    round: str
    """``v4.1``."""
    result_id: str
    division: str
    category: str
    submitter: str
    availability: str
    """``available``, or ``preview``: to be sold by the next round."""
    system: str
    system_id: str
    """The system's folder name."""
    accelerator: str
    accelerators: int
    """Accelerators of all nodes together; 0 in a system without."""
    processor: str
    framework: str
    benchmark: str
    variant: str
    scenario: str
    metric: str
    value: float
    unit: str
    """``samples/s``, ``queries/s``, ``tokens/s`` or ``ms``."""
    accuracy: str
    power: str
    path: str
    """The result's path in the published tree."""
    inferred_from: str
    """The scenario that was measured; empty: the result's own."""

    @property
    def is_preview(self) -> bool:
        """Whether the system was a preview, not yet available."""
        return self.availability != "available"

    @property
    def has_accelerators(self) -> bool:
        """Whether the system has accelerators, counted or not."""
        return bool(self.accelerators or self.accelerator)

    @property
    def per_accelerator(self) -> float:
        """The value divided by the number of accelerators; a latency, or the value of a system without, as it is."""
        return self.value if self.unit == "ms" or not self.accelerators else self.value / self.accelerators


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """The rank of a run."""

    variant: str
    """The accuracy that it is ranked for: ``99``, ``99.9`` or ``range``."""
    rank: int
    """The rank, from 1: one more than the number of better results."""
    of: int
    accelerators: int
    """Number that the run used; 0 in a system without."""
    per_accelerator: float
    unit: str
    better: tuple[Published, ...]
    """The next better results, the nearest last."""
    worse: tuple[Published, ...]
    """The next worse results, the nearest first."""


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of one of the files."""
    text = resources.files("mlbench_published").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def list_published_rounds() -> list[str]:
    """Return the rounds of which results are here, the oldest first."""
    names = (each.name for each in resources.files("mlbench_published").iterdir())
    return sorted((found[1] for name in names if (found := _FILE.fullmatch(name))), key=_place_of)


@cache
def load_published(round_name: str = DEFAULT_ROUND) -> tuple[Published, ...]:
    """Return all results of a round that are here; none where nothing is."""
    if round_name not in list_published_rounds():
        return ()
    return tuple(
        Published(
            round=round_name,
            result_id=row["result_id"],
            division=row["division"],
            category=row["category"],
            submitter=row["submitter"],
            availability=row["availability"],
            system=row["system_name"],
            system_id=row["system_id"],
            accelerator=row["accelerator_model"].removeprefix("N/A"),
            accelerators=_count(row["accelerators_per_node"], 0) * _count(row["nodes"], 1),
            processor=row["host_processor"],
            framework=row["framework"],
            benchmark=row["benchmark"],
            variant=row["accuracy_variant"],
            scenario=row["scenario"],
            metric=row["metric"],
            value=float(row["value"]),
            unit=row["unit"],
            accuracy=row["accuracy"],
            power=f"{row['power_value']} {row['power_unit']}".strip(),
            path=row["result_path"],
            inferred_from=row.get("measured_scenario", ""),
        )
        for row in table(RESULTS.replace(DEFAULT_ROUND, round_name))
    )


def _count(text: str, otherwise: int) -> int:
    """Return a number; None where submitters wrote N/A or left it out."""
    return int(text) if text.isdecimal() else otherwise


def select_published(
    *,
    workload: str | None = None,
    scenario: str | None = None,
    accelerator: str = "",
    submitter: str = "",
    round_name: str = DEFAULT_ROUND,
) -> list[Published]:
    """Return the results of a workload and scenario in a round; accelerator and submitter match parts of names."""
    benchmark = _NAMES.get(workload, workload) if workload else None
    return [
        each
        for each in load_published(round_name)
        if (benchmark is None or each.benchmark == benchmark)
        and (scenario is None or each.scenario == scenario)
        and accelerator.lower() in each.accelerator.lower()
        and submitter.lower() in each.submitter.lower()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorRounds:
    """The best published results of one accelerator, round by round."""

    accelerator: str
    benchmark: str
    variants: tuple[str, ...]
    """Accuracies; several where the best results of all rounds are the same for them."""
    scenario: str
    unit: str
    best: Mapping[str, Published]
    """By round, the oldest first: of its closed results the best per accelerator, or the least latency."""

    @property
    def change(self) -> float | None:
        """How much better the newest is than the oldest: 1.12 times; None where there is one round only."""
        values = [each.per_accelerator for each in self.best.values()]
        if len(values) < 2 or not all(values):
            return None
        first, last = values[0], values[-1]
        return first / last if self.unit == "ms" else last / first


def compare_rounds(results: Iterable[Published]) -> list[AcceleratorRounds]:
    """Return how the closed results of each accelerator moved from round to round, those of most rounds first."""
    groups: dict[tuple[str, ...], list[Published]] = {}
    for each in results:
        if each.division == "closed" and each.accelerators:
            groups.setdefault((each.accelerator, each.benchmark, each.variant, each.scenario), []).append(each)
    found: dict[tuple[str, ...], AcceleratorRounds] = {}
    for (accelerator, benchmark, variant, scenario), rows in groups.items():
        best = _best_by_round(rows)
        run = (accelerator, benchmark, scenario, *(f"{name} {each.per_accelerator}" for name, each in best.items()))
        known = found.get(run)
        found[run] = AcceleratorRounds(
            accelerator=accelerator,
            benchmark=benchmark,
            variants=(*(known.variants if known else ()), variant),
            scenario=scenario,
            unit=rows[0].unit,
            best=best,
        )
    return sorted(found.values(), key=lambda each: (-len(each.best), each.benchmark, each.scenario, each.accelerator))


def _best_by_round(results: Sequence[Published]) -> Mapping[str, Published]:
    best: dict[str, Published] = {}
    for each in sorted(results, key=lambda each: _place_of(each.round)):
        known = best.setdefault(each.round, each)
        is_less = each.per_accelerator < known.per_accelerator
        if is_less if each.unit == "ms" else each.per_accelerator > known.per_accelerator:
            best[each.round] = each
    return best


def list_rounds(found: Sequence[AcceleratorRounds]) -> Sequence[str]:
    """Return the names of the rounds in which accelerators have results, the oldest first."""
    return sorted({name for each in found for name in each.best}, key=_place_of)


def _place_of(round_name: str) -> tuple[int, ...]:
    return tuple(map(int, round_name.removeprefix("v").split(".")))


def merge_variants(results: Sequence[Published]) -> list[tuple[Published, str]]:
    """Return results with the variants they were submitted for, a run that was submitted for several of them once."""
    runs: dict[tuple[str, ...], list[Published]] = {}
    for each in results:
        run = (each.division, each.submitter, each.system_id, each.benchmark, each.scenario, str(each.value))
        runs.setdefault(run, []).append(each)
    return [(same[0], ", ".join(dict.fromkeys(each.variant for each in same))) for same in runs.values()]


def place_of(record: RunRecord, neighbours: int = 3, *, variant: str | None = None) -> Rank:
    """Return a run's rank among the closed results of its benchmark, accuracy variant and scenario.

    Per accelerator that was used. Previews count, and are marked. A run that is among the published ones itself counts
    once.

    Args:
        record: the run.
        neighbours: so many on each side are named.
        variant: of the published results; None: the one the run was made for, of one's own runs the least strict.

    Raises:
        IncomparableRunsError: the run is not of the official model, data, durations and accuracy, does not say what it
            used, or nothing like it was published.
    """
    if reason := why_not_placed(record):
        raise IncomparableRunsError(
            f"run {record.run_id} cannot be placed among published results: {reason}.",
            hint="Only a valid, accurate run of --profile full --tier valid with trained weights can.",
        )
    assert record.result and record.result.value is not None
    unit = "ms" if record.result.unit == "ns" else record.result.unit
    value = record.result.value / 1e6 if unit == "ms" else record.result.value
    used = _variant(record, variant)
    alike = [each for each in _select_alike(record, unit, used) if not _is_itself(each, record, value)]
    count = count_used_accelerators(record)
    others = [each for each in alike if each.has_accelerators == bool(count)]
    if not others:
        systems = "systems with accelerators" if count else "systems without accelerators"
        raise IncomparableRunsError(f"nothing was published for {record.workload} {record.scenario} on {systems}.")
    ours = value if unit == "ms" or not count else value / count
    best_first = sorted(others, key=lambda each: each.per_accelerator, reverse=unit != "ms")
    rank = sum(each.per_accelerator < ours if unit == "ms" else each.per_accelerator > ours for each in best_first)
    return Rank(
        variant=used,
        rank=rank + 1,
        of=len(others) + 1,
        accelerators=count,
        per_accelerator=ours,
        unit=unit,
        better=tuple(best_first[max(0, rank - neighbours) : rank]),
        worse=tuple(best_first[rank : rank + neighbours]),
    )


def _select_alike(record: RunRecord, unit: str, variant: str) -> list[Published]:
    """Return the closed results of a run's round, benchmark and scenario in this unit and variant; raises if none."""
    found = [
        each
        for each in select_published(workload=record.workload, scenario=record.scenario, round_name=record.round)
        if each.division == "closed" and each.unit.replace("queries", "samples") == unit and each.variant == variant
    ]
    if not found:
        accuracy = f" of accuracy {variant}" if variant else ""
        raise IncomparableRunsError(f"nothing was published for {record.workload} {record.scenario}{accuracy}.")
    return found


def _variant(record: RunRecord, asked: str | None) -> str:
    """Return the accuracy variant to rank a run in; raises where it misses the one that was asked for."""
    targets = record.accuracy.targets if record.accuracy else []
    own = record.imported.variant if record.imported else next((each.name for each in targets if each.required), "")
    if asked is None or asked == own:
        return own
    met = [each.is_met for each in targets if each.name == asked]
    if not met:
        known = ", ".join(dict.fromkeys(each.name for each in targets))
        raise IncomparableRunsError(f"{record.workload} has no accuracy variant {asked!r}.", hint=f"It has: {known}.")
    if not all(met):
        raise IncomparableRunsError(
            f"run {record.run_id} cannot be placed among published results of {asked}: it misses that target.",
            hint=f"It meets {own}.",
        )
    return asked


def _is_itself(published: Published, record: RunRecord, value: float) -> bool:
    """Return whether an imported run is this published one."""
    is_there = record.imported is not None and record.imported.path == published.path
    return is_there and math.isclose(value, published.value, rel_tol=1e-6)


def why_not_placed(record: RunRecord) -> str:
    """Return the reason why a run cannot be ranked among official ones; empty if it can."""
    verdict = record.verdict
    reasons = {
        "it has no result": record.result is None or record.result.value is None or verdict is None,
        "it is of the mini profile, a small model of its own": record.profile != "full",
        "it was submitted to the open division": record.imported is not None and record.imported.division == "open",
        "its weights are random": record.weights != "trained",
        f"it is of tier {record.tier}, shorter than the rules demand": record.tier != "valid",
        "it is INVALID": not (verdict and verdict.is_valid),
        "it misses its accuracy target, or was not scored": not (verdict and verdict.is_accurate),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
