"""A summary of a set of runs: its combinations, their validity, and a sentence about it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mlbench.comparison.comparability import key_of
from mlbench.comparison.compare import Comparison
from mlbench.comparison.cost import Yields
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.contracts.load_pattern import LOAD_PATTERNS
from mlbench.records.facts import hand_set
from mlbench.records.run_record import ResultRecord, RunRecord
from mlbench.records.store.run_names import short_id
from mlbench.reports.console import estimate_note, result
from mlbench.reports.units import number_of, plural, quantity

_LOAD = "load."
"""Settings of the load, not of the system."""

TIERS = {
    "smoke": "Tier smoke: seconds per run. It shows that the system works; do not rely on its numbers.",
    "dev": "Tier dev: a minute per run. It compares two changes on one machine.",
    "valid": "Tier valid: the official durations and counts.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Runs of the same request on the same machine, oldest first: repeats of each other."""

    series: str
    """Name of its series within a workload: ``onnxruntime int8``."""
    system: str
    """The series without the load: runs of one system at several rates make a curve."""
    runs: tuple[RunRecord, ...]

    @property
    def newest(self) -> RunRecord:
        """The run whose details are shown."""
        return self.runs[-1]

    @property
    def workload(self) -> str:
        """Its name."""
        return self.newest.workload

    @property
    def scenario(self) -> str:
        """Its name."""
        return self.newest.scenario

    @property
    def name(self) -> str:
        """A unique name: ``resnet50 pytorch fp32 Server``."""
        return f"{self.workload} {self.series} {self.scenario}"

    @property
    def counted(self) -> tuple[RunRecord, ...]:
        """The runs whose speed counts: valid ones with a result."""
        return tuple(each for each in self.runs if value_of(each) is not None)

    @property
    def values(self) -> tuple[float, ...]:
        """The results of the valid runs, in their unit."""
        return tuple(value for each in self.runs if (value := value_of(each)) is not None)

    @property
    def bad(self) -> tuple[RunRecord, ...]:
        """The runs that failed, are INVALID, or miss a target."""
        return tuple(each for each in self.runs if not each.is_good)

    @property
    def median(self) -> float | None:
        """The median of the results."""
        return statistics.median(self.values) if self.values else None

    def middle(self) -> str:
        """Return the median result of the valid runs; without one, the end of the newest run."""
        if not self.values:
            verdict = self.newest.verdict
            return "INVALID" if verdict and not verdict.is_valid else result(self.newest)
        return quantity(self.median, self.unit) + estimate_note(self.counted[0])

    def spread(self) -> str:
        """Return the smallest and largest result of several runs; empty for one."""
        if len(self.values) < 2:
            return ""
        low, high = (quantity(value, self.unit) for value in (min(self.values), max(self.values)))
        if low == high:
            return plural(len(self.values), "run")
        if low.endswith(unit := high.rpartition(" ")[2]):
            low = low.removesuffix(f" {unit}")
        return f"{low} to {high}, {len(self.values)} runs"

    @property
    def unit(self) -> str:
        """The unit of the results; exists if a run is valid."""
        return self._counted_result.unit

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger result is better; known if a run is valid."""
        return self._counted_result.higher_is_better

    @property
    def _counted_result(self) -> ResultRecord:
        result = self.counted[0].result
        assert result
        return result


@dataclass(frozen=True)
class Summary:
    """Runs in groups."""

    combinations: tuple[Combination, ...]

    @cached_property
    def runs(self) -> tuple[RunRecord, ...]:
        """All of them."""
        return tuple(run for each in self.combinations for run in each.runs)

    @cached_property
    def workloads(self) -> tuple[str, ...]:
        """Names, in alphabetical order."""
        return tuple(sorted({each.workload for each in self.combinations}))

    @cached_property
    def series(self) -> tuple[str, ...]:
        """Labels, in order of first appearance, which determines colours."""
        return tuple(dict.fromkeys(each.series for each in self.combinations))

    @cached_property
    def by_series(self) -> Mapping[tuple[str, str], Mapping[str, Combination]]:
        """The combinations of each workload and series, by their scenario."""
        found: dict[tuple[str, str], dict[str, Combination]] = {}
        for each in self.combinations:
            found.setdefault((each.workload, each.series), {})[each.scenario] = each
        return found

    @cached_property
    def scenarios(self) -> tuple[str, ...]:
        """Names, in the order in which they are shown."""
        return tuple(sorted({each.scenario for each in self.combinations}, key=scenario_order))

    def of_workload(self, workload: str) -> tuple[Combination, ...]:
        """Return the combinations of a workload."""
        return tuple(each for each in self.combinations if each.workload == workload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a report."""

    title: str
    summary: Summary
    comparison: Comparison | None = None
    steps: frozenset[str] = frozenset()
    """Ids of the first runs of new levels, which charts mark."""
    cost: Yields | None = None
    """The cost of throughputs, if prices were given."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Folders of runs whose files are at hand, by their ids."""


def value_of(record: RunRecord) -> float | None:
    """Return the result of a valid run; None if there is none."""
    if not record.result or not record.verdict or not record.verdict.is_valid:
        return None
    return record.result.value


def scenario_order(scenario: str) -> tuple[int, str]:
    """Return a key that sorts scenarios as they are shown."""
    known = tuple(LOAD_PATTERNS)
    return (known.index(scenario) if scenario in known else len(known), scenario)  # others follow by name


def summarise(sides: Mapping[str, Sequence[RunRecord]]) -> Summary:
    """Group runs into combinations.

    Args:
        sides: runs by the name of their side; a single side without a name if nothing is compared. A run named twice
            counts once.
    """
    every = [record for records in sides.values() for record in records]
    labels = _Labels(every)
    grouped: dict[tuple[str, ...], dict[str, RunRecord]] = {}
    for side, records in sides.items():
        for record in sorted(records, key=lambda each: each.created):
            key = (side, record.environment.machine, *key_of(record, ()))
            grouped.setdefault(key, {})[record.run_id] = record
    found = [_combination(key[0], tuple(runs.values()), labels) for key, runs in grouped.items()]
    return Summary(tuple(sorted(found, key=lambda each: (each.workload, scenario_order(each.scenario)))))


def _combination(side: str, runs: tuple[RunRecord, ...], labels: _Labels) -> Combination:
    series, system = (" ".join(filter(None, (labels.of(runs[0], is_loaded), side))) for is_loaded in (True, False))
    return Combination(series=series, system=system, runs=runs)


class _Labels:
    """Names of series: backend and precision, and other facts in which the runs differ."""

    def __init__(self, records: Sequence[RunRecord]) -> None:
        facts = [self._facts(record) for record in records]
        self._varying = {name for name in facts[0] if len({each[name] for each in facts}) > 1} if facts else set()

    def of(self, record: RunRecord, is_loaded: bool) -> str:
        """Return the label of a run's series, or without the load that of its system."""
        facts = self._facts(record)
        if not is_loaded:
            facts.pop("load")
        more = [text for name, text in facts.items() if name in self._varying and text]
        return " ".join([record.backend, record.precision_and_transform, *more])

    @staticmethod
    def _facts(record: RunRecord) -> dict[str, str]:
        chosen = [(key, f"{key}={each.value}") for key, each in hand_set(record).items()]
        return {
            "variant": _variant(record),
            "audit": _audit(record),
            "round": record.round,
            "profile": record.profile,
            "tier": record.tier,
            "weights": f"{record.weights} weights",
            "settings": ", ".join(text for key, text in chosen if not key.startswith(_LOAD)),
            "load": ", ".join(text for key, text in chosen if key.startswith(_LOAD)),
            "machine": f"on {record.environment.machine}",
        }


def _variant(record: RunRecord) -> str:
    """Return the accuracy that a run was made or submitted for."""
    made_for = record.imported or record.entry
    return f"accuracy {made_for.variant}" if made_for else ""


def _audit(record: RunRecord) -> str:
    """Return the compliance test that a run is, with the end of the id of the run that it repeats."""
    return f"{record.audit.test} of {short_id(record.audit.of)}" if record.audit else ""


def headline(summary: Summary) -> str:
    """Return a sentence on the validity of the runs."""
    runs = summary.runs
    failed = sum(1 for each in runs if not each.verdict)
    invalid = sum(1 for each in runs if each.verdict and not each.verdict.is_valid)
    missed = sum(1 for each in runs if each.verdict and each.verdict.is_valid and each.verdict.is_accurate is False)
    unjudged = [each for each in runs if each.verdict and each.verdict.is_accurate is None]
    unscored = sum(1 for each in unjudged if not (each.is_open and each.accuracy))
    reasons = {"not measured": unscored, "not required": len(unjudged) - unscored}
    if bad := failed + invalid + missed:
        kinds = [(failed, "failed"), (invalid, "INVALID"), (missed, "valid but not accurate")]
        if len(runs) == 1:
            return f"The run does not count: {next(kind for count, kind in kinds if count)}."
        listed = ", ".join(f"{count} {kind}" for count, kind in kinds if count)
        return f"{not_counted(bad, len(runs))}: {listed}."
    every = "The run is" if len(runs) == 1 else f"All {number_of(len(runs))} runs are"
    if not unjudged:
        return f"{every} valid and accurate."
    said = [f"{reason}{'' if count == len(runs) else f' in {count}'}" for reason, count in reasons.items() if count]
    return f"{every} valid; accuracy was {' and '.join(said)}."


def not_counted(bad: int, whole: int) -> str:
    """Return the number of runs that do not count: ``1 of 2 runs does not count``; for a single run without numbers."""
    if whole == 1:
        return "does not count"
    return f"{number_of(bad)} of {plural(whole, 'run')} {'does' if bad == 1 else 'do'} not count"


def verdicts_of(comparison: Comparison) -> Counter[SpeedVerdict]:
    """Return the number of results by verdict."""
    return Counter(each.verdict for cell in comparison.cells for each in cell.speeds)


def comparison_headline(comparison: Comparison) -> str:
    """Return a sentence on results that got worse, or on those that could be judged."""
    worse = [cell.name for cell in comparison.cells if cell.is_worse] + list(comparison.missing)
    if worse:
        return f"Worse than the base: {', '.join(worse)}."
    found = verdicts_of(comparison)
    words = {**{verdict: str(verdict) for verdict in SpeedVerdict}, SpeedVerdict.CANNOT_TELL: "inconclusive"}
    counts = ", ".join(f"{found[verdict]} {word}" for verdict, word in words.items() if found[verdict])
    return f"No result is known to be worse than the base: {counts}." if counts else "There is nothing to compare."
