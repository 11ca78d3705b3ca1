"""The folders of an official results tree, and which results they hold.

    <root>/<division>/<submitter>/systems/<system>.json
                                 /measurements/<system>/<model>/<Scenario>/<system>*.json, mlperf.conf, user.conf
                                 /results/<system>/<model>/<Scenario>/performance/run_1/mlperf_log_detail.txt
                                                                     /performance/run_1/spl.txt, where power was metered
                                                                     /accuracy/accuracy.txt

Source: MLCommons' submission guide; what the submission checker v4.1 reads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlbench.contracts.scenario import Scenario
from mlbench.errors import DataError, UsageError
from mlbench.loadgen import scenarios
from mlbench.rules.official import WorkloadRules, official_rules, official_workloads
from mlbench.system.documents import is_file, read_json_object

DIVISIONS = ("closed", "open", "network")
RESULTS = "results"
SYSTEMS = "systems"
MEASUREMENTS = "measurements"
MODEL_MAPPING = "model_mapping.json"
SUMMARY = "mlperf_log_summary.txt"
DETAIL = "mlperf_log_detail.txt"
ACCURACY = "accuracy.txt"
ACCURACY_LOG = "mlperf_log_accuracy.json"
MLPERF_CONF = "mlperf.conf"
USER_CONF = "user.conf"

_SCENARIOS: Mapping[str, Scenario] = {each.name.lower(): each for each in scenarios.OFFICIAL}
_RESNET = ("resnet50", "mobilenet", "efficientnet")
"""A model with one of these in its name enters as ResNet-50."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The model of a folder."""

    rules: WorkloadRules
    variant: str


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
        return self.submitter_folder / SYSTEMS / f"{self.system}.json"

    @property
    def has_power(self) -> bool:
        """Whether power was metered in the performance test."""
        return os.path.isdir(self.root / self.path / "performance" / "power")  # unlike Path's, never raises

    @property
    def measurements(self) -> Path:
        """Where the implementation and LoadGen's configuration are described."""
        return self.submitter_folder / MEASUREMENTS / self.system / self.model / self.scenario

    @property
    def measurement_file(self) -> Path:
        """The description of the implementation, under the first name that there is, else under the plain one."""
        found = sorted(self.measurements.glob("*.json"))
        plain = self.measurements / f"{self.system}_{self.scenario}.json"
        return next((file for file in found if file.name.startswith(self.system)), plain)


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
        DataError: v4.1 has no such model.
    """
    known = _benchmarks()
    name = mapped_model(entry) or entry.model
    if name in known:
        return known[name]
    if any(part in name for part in _RESNET):
        return known["resnet50"]
    for model in ("bert-99.9", "bert-99"):
        if model in name:
            return known[model]
    raise DataError(f"v4.1 has no model {name!r}.")


def mapped_model(entry: ResultEntry) -> str | None:
    """Return what the submitter maps a model folder to; None for an official name, and where nothing is mapped."""
    if entry.division != "open" or entry.model in _benchmarks():
        return None
    return _model_mapping(entry).get(entry.model)


def scenario_of(entry: ResultEntry) -> Scenario:
    """Return the scenario that a folder stands for; raises `DataError` for any other name."""
    try:
        return _SCENARIOS[entry.scenario.lower()]
    except KeyError:
        raise DataError(f"there is no scenario {entry.scenario!r}.") from None


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


def official_benchmarks() -> dict[str, Benchmark]:
    """Return what there is to submit, by model folder: LoadGen's name, with the variant where there are several."""
    known = {}
    for name in official_workloads():
        rules = official_rules(name)
        for variant in rules.variants:
            folder = f"{name}-{variant}" if len(rules.variants) > 1 else name
            known[folder] = Benchmark(rules=rules, variant=variant)
    return known


def _benchmarks() -> Mapping[str, Benchmark]:
    known = official_benchmarks()
    others = {"resnet": known["resnet50"], "mobilenet": known["resnet50"], "ssd-resnet34": known["retinanet"]}
    return {**known, **others}


def _model_mapping(entry: ResultEntry) -> Mapping[str, str]:
    file = entry.submitter_folder / MODEL_MAPPING
    if not is_file(file):
        return {}
    mapping = read_json_object(file, what="mapping of model names")
    return {name: model for name, model in mapping.items() if isinstance(model, str)}
