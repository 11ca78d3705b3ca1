"""The folders of an official results tree, and which results they hold.

    <root>/<division>/<submitter>/systems/<system>.json
                                 /results/<system>/<model>/<Scenario>/performance/run_1/mlperf_log_detail.txt
                                                                     /performance/run_1/spl.txt, where power was metered
                                                                     /accuracy/accuracy.txt

These are the same in every round. Where measurements, compliance tests and code lie is the round's `TreeLayout`.

Source: MLCommons' submission guide; what the submission checkers v4.1 to v6.1 read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from mlbench.contracts.scenario import Scenario
from mlbench.errors import DataError, UsageError
from mlbench.loadgen import scenarios
from mlbench.rules.official import Round, WorkloadRules, default_round
from mlbench.rules.round_parts import Category
from mlbench.system.documents import is_file, read_json_object

DIVISIONS = ("closed", "open", "network")
RESULTS = "results"
SYSTEMS = "systems"
MODEL_MAPPING = "model_mapping.json"
SUMMARY = "mlperf_log_summary.txt"
DETAIL = "mlperf_log_detail.txt"
ACCURACY = "accuracy.txt"
ACCURACY_LOG = "mlperf_log_accuracy.json"
MLPERF_CONF = "mlperf.conf"
USER_CONF = "user.conf"

_KNOWN_SCENARIOS: Mapping[str, Scenario] = {each.name: each for each in (*scenarios.OFFICIAL, scenarios.INTERACTIVE)}
_RESNET = ("resnet50", "mobilenet", "efficientnet")
"""A model with one of these in its name enters as ResNet-50."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The model of a folder."""

    rules: WorkloadRules
    variant: str

    def scenarios_for(self, categories: Sequence[Category]) -> set[str]:
        """Return the scenarios that a system of these categories may enter."""
        found = self.required(categories)
        return {*found.all_of, *found.any_of}

    def required(self, categories: Sequence[Category]) -> RequiredScenarios:
        """Return the scenarios that a closed entry of a system of these categories needs, in the round's order."""
        rules, wanted, choice = self.rules, set[str](), set[str]()
        if rules.scenarios_of_both is not None and {*Category} <= {*categories}:
            wanted, choice = {*rules.scenarios_of_both}, {*rules.any_of_both}
        else:
            for each in set(categories) & set(rules.variants[self.variant]):
                wanted |= {*rules.category_scenarios[each]}
                choice |= {*rules.any_of.get(each, ())}
        return RequiredScenarios(
            all_of=tuple(name for name in rules.scenarios if name in wanted),
            any_of=tuple(name for name in rules.scenarios if name in choice),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredScenarios:
    """The scenarios that an entry needs."""

    all_of: tuple[str, ...]
    any_of: tuple[str, ...]
    """Beside those at least one of these; empty: none."""

    def missing(self, there: Collection[str]) -> list[str]:
        """Return which are missing, ``Server or Interactive`` where one of two is enough."""
        found = [name for name in self.all_of if name not in there]
        return [*found, " or ".join(self.any_of)] if self.any_of and not {*self.any_of} & {*there} else found


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultEntry:
    """One scenario folder of a tree: a result, or something that looks like one."""

    root: Path
    division: str
    submitter: str
    system: str
    model: str
    scenario: str
    """As the folder is called; some submitters write it in lower case."""
    round: Round = field(default_factory=default_round, repr=False)
    """The round that it is judged by."""

    @property
    def path(self) -> str:
        """The folder inside the tree."""
        return "/".join((self.division, self.submitter, RESULTS, self.system, self.model, self.scenario))

    @property
    def performance(self) -> Path:
        """Where LoadGen's logs of the performance test are."""
        return self.root / self.path / "performance" / "run_1"

    @property
    def accuracy(self) -> Path:
        """Where those of the accuracy test are, and the score."""
        return self.root / self.path / "accuracy"

    @property
    def submitter_folder(self) -> Path:
        """Everything of the submitter in this division."""
        return self.root / self.division / self.submitter

    @property
    def system_file(self) -> Path:
        """The description of the system."""
        return self.place(self.round.layout.systems)

    def place(self, template: str) -> Path:
        """Return a place of the round's layout."""
        return self.submitter_folder / fill_place(template, self.system, self.model, self.scenario)

    @property
    def has_power(self) -> bool:
        """Whether power was metered in the performance test."""
        return os.path.isdir(self.root / self.path / "performance" / "power")  # unlike Path's, never raises

    @property
    def measurements(self) -> Path:
        """Where the implementation and LoadGen's configuration are described."""
        return self.place(self.round.layout.measurements)

    @property
    def compliance(self) -> Path:
        """Where the folders of the compliance tests are."""
        return self.place(self.round.layout.compliance)

    @property
    def measurement_files(self) -> list[str]:
        """The names of files in `measurements` that may describe the implementation, sorted."""
        begin, star, end = self._implementation_name
        names = sorted(each.name for each in self.measurements.glob("*.json"))
        if not star:
            return [name for name in names if name == begin]
        return [name for name in names if name.startswith(begin) and name.endswith(end)]

    @property
    def measurement_file(self) -> Path:
        """The description of the implementation, under the first name that there is, else under the plain one."""
        begin, star, end = self._implementation_name
        plain = f"{begin}_{self.scenario}{end}" if star else begin
        return self.measurements / next(iter(self.measurement_files), plain)

    @property
    def _implementation_name(self) -> tuple[str, str, str]:
        """The beginning of the description's name, a star where anything may follow, and its end."""
        begin, star, end = self.round.layout.implementation.rpartition("/")[2].partition("*")
        return fill_place(begin, self.system, self.model, self.scenario), star, end


def code_folder(of: Round) -> str:
    """Return the name of a round's folder of code, below a submitter's."""
    return of.layout.code.partition("/")[0]


def has_code_by_model(of: Round) -> bool:
    """Return whether that has a folder for each model."""
    return "<model>" in of.layout.code


def fill_place(template: str, system: str, model: str, scenario: str) -> str:
    """Return a place of a round's layout for one result: ``measurements/<place>`` or ``systems/<system>.json``."""
    parts = {"<place>": f"{system}/{model}/{scenario}", "<system>": system, "<model>": model}
    return re.sub("<(?:place|system|model)>", lambda found: parts[found[0]], template)


def trees_in(root: Path) -> list[Path]:
    """Return the trees of a folder: itself, or those inside it with results, where it has no division."""
    if any(os.path.isdir(root / name) for name in DIVISIONS) or not os.path.isdir(root):
        return [root]
    inner = [each for each in _folders(root) if any((each / name).is_dir() for name in DIVISIONS)]
    return [each for each in inner if any(_entries(each))] or inner[:1] or [root]


def entries_of(root: Path) -> list[ResultEntry]:
    """Return every scenario folder of a tree, in alphabetical order.

    Raises:
        UsageError: it is not a folder, or has no submitter's results.
    """
    hint = f"Name the folder that contains {' or '.join(DIVISIONS)}."
    try:
        if not stat.S_ISDIR(os.stat(root).st_mode):
            raise UsageError(f"{root} is a file.", hint=hint)
    except (FileNotFoundError, ValueError):  # the other: a NUL in it
        raise UsageError(f"{root} does not exist.", hint=hint) from None
    except OSError as error:
        raise UsageError(f"{root} cannot be read: {error.strerror}.", hint=hint) from None
    found = list(_entries(root))
    if not found:
        raise UsageError(f"no official results in {root}.", hint=_hint(root))
    return found


def benchmark_of(entry: ResultEntry) -> Benchmark:
    """Return the benchmark and accuracy variant that a model folder stands for.

    In the open division a submitter may map names of its own to the official ones, which stay what they are.

    Raises:
        DataError: the round has no such model.
    """
    known = _known_models(entry.round)
    name = mapped_model(entry) or entry.model
    if name in known:
        return known[name]
    if _RESNET[0] in known and any(part in name for part in _RESNET):
        return known[_RESNET[0]]
    for model in ("bert-99.9", "bert-99"):
        if model in known and model in name:
            return known[model]
    raise DataError(f"{entry.round} has no model {name!r}.")


def mapped_model(entry: ResultEntry) -> str | None:
    """Return what the submitter maps a model folder to; None for an official name, and where nothing is mapped."""
    if entry.division != "open" or entry.model in _known_models(entry.round):
        return None
    return _model_mapping(entry).get(entry.model)


def scenario_of(entry: ResultEntry) -> Scenario:
    """Return the scenario that a folder stands for; raises `DataError` for any other name."""
    named = {name.lower(): name for name in entry.round.scenarios}
    try:
        return round_scenario(entry.round, named[entry.scenario.lower()])
    except KeyError:
        raise DataError(f"there is no scenario {entry.scenario!r}.") from None


def round_scenario(of: Round, name: str) -> Scenario:
    """Return a scenario of a round: one that mlbench has, or LoadGen's under the round's name."""
    return _KNOWN_SCENARIOS.get(name) or replace(
        _KNOWN_SCENARIOS[of.scenarios[name].loadgen], name=name, rules=name, percentile=of.scenarios[name].percentile
    )


def _entries(root: Path) -> Iterator[ResultEntry]:
    for division in DIVISIONS:
        for submitter in _folders(root / division):
            for system in _folders(submitter / RESULTS):
                for model in _folders(system):
                    for scenario in _folders(model):
                        yield ResultEntry(
                            root=root,
                            division=division,
                            submitter=submitter.name,
                            system=system.name,
                            model=model.name,
                            scenario=scenario.name,
                        )


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}.") from None


def _hint(root: Path) -> str:
    if root.name in DIVISIONS:
        return f"Name the folder that contains {root.name!r}."
    divisions = [name for name in DIVISIONS if (root / name).is_dir()]
    if not divisions:
        return f"Name the folder that contains {' or '.join(DIVISIONS)}."
    return f"{divisions[0]} contains no <submitter>/{RESULTS}/<system>/<model>/<scenario>."


@cache
def official_benchmarks(of: Round) -> Mapping[str, Benchmark]:
    """Return what there is to submit in a round, by model folder: LoadGen's name, mostly with the variant."""
    return {
        rules.model_of(variant): Benchmark(rules=rules, variant=variant)
        for rules in of.workloads.values()
        for variant in rules.variants
    }


@cache
def _known_models(of: Round) -> Mapping[str, Benchmark]:
    """Return the same with other names of models, as the official checkers map them."""
    known = dict(official_benchmarks(of))
    for rules in of.workloads.values():
        if len(rules.variants) == 1:
            known.setdefault(rules.name, known[rules.model_of(next(iter(rules.variants)))])
    others = {"resnet": "resnet50", "mobilenet": "resnet50", "ssd-resnet34": "retinanet"}
    return {**{other: known[name] for other, name in others.items() if name in known}, **known}


def _model_mapping(entry: ResultEntry) -> Mapping[str, str]:
    file = entry.submitter_folder / MODEL_MAPPING
    if not is_file(file):
        return {}
    mapping = read_json_object(file, what="mapping of model names")
    return {name: model for name, model in mapping.items() if isinstance(model, str)}
