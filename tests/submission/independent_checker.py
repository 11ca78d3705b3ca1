"""A second reading of the rules for submission trees of MLPerf Inference v4.1, to hold mlbench's own against.

Reads a tree as MLCommons' submission checker of tag v4.1 does, and says of each result whether that checker accepts it,
refuses it or stops with an exception, and what else the rules want that it does not see. Written from the description
of the rules alone; imports nothing of mlbench.

    python tests/submission/independent_checker.py TREE

The order is the official one: the root, then each division, submitter, system, model and scenario. What is lost on a
level is lost with all that is below it.
"""

from __future__ import annotations

import json
import operator
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import checker_tables as tables
from checker_compliance import check_compliance_folder, check_power, has_power
from checker_runs import (
    DetailLog,
    Entry,
    Finding,
    Weight,
    check_accuracy_folder,
    check_performance_folder,
    files_of,
    read_text,
)
from checker_tables import DETAIL


class Outcome(StrEnum):
    """What the official checker makes of a result."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    CRASHES = "crashes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReading:
    """What is found about one result, the findings of the levels above it included."""

    division: str
    submitter: str
    system: str
    model: str
    scenario: str
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> Outcome:
        """What the official checker makes of this result, whatever it makes of the others."""
        weights = {finding.weight for finding in self.findings}
        if Weight.CRASHES in weights:
            return Outcome.CRASHES
        return Outcome.REFUSED if Weight.REFUSES in weights else Outcome.ACCEPTED

    @property
    def stricter(self) -> tuple[Finding, ...]:
        """What the rules do not allow and the official checker does not see."""
        return tuple(finding for finding in self.findings if finding.weight is Weight.STRICTER)

    @property
    def path(self) -> str:
        """The result's folder, from the root of the tree."""
        return "/".join((self.division, self.submitter, "results", self.system, self.model, self.scenario))


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeReading:
    """What is found about a tree: its results, and what is wrong above them."""

    results: tuple[ResultReading, ...]
    findings: tuple[Finding, ...]  # of the root, divisions, submitters, systems, models; also when they hold no result

    @property
    def crashes(self) -> bool:
        """Whether the official checker stops with an exception, so that no result at all comes out."""
        return any(result.outcome is Outcome.CRASHES for result in self.results)

    @property
    def is_accepted(self) -> bool:
        """Whether the official checker says "submission looks OK": nothing is lost."""
        is_lost = any(finding.is_loss for finding in self.findings)
        return not is_lost and all(result.outcome is Outcome.ACCEPTED for result in self.results)


# --- The walk ---------------------------------------------------------------------------------------------------------


def read_tree(root: Path) -> TreeReading:
    """Read a submission tree."""
    return Walk(root).read()


class Walk:
    """Goes through a tree level by level, handing the findings of each level down to the results below."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results: list[ResultReading] = []
        self.findings: list[Finding] = []

    def read(self) -> TreeReading:
        """Read everything below the root."""
        found = self.keep(check_root(self.root))
        for division in folders_of(self.root):
            if division.name in tables.DIVISIONS:
                self.read_division(division, found)
        return TreeReading(results=tuple(self.results), findings=tuple(self.findings))

    def keep(self, findings: Iterator[Finding]) -> tuple[Finding, ...]:
        """Keep the findings of a level above the results."""
        found = tuple(findings)
        self.findings += found
        return found

    def read_division(self, division: Path, above: tuple[Finding, ...]) -> None:
        """Read a division's submitters; one without results is passed over."""
        found = above + self.keep(check_division(self.root, division))
        for submitter in (folder for folder in folders_of(division) if (folder / "results").is_dir()):
            in_submitter = found + self.keep(check_submitter(self.root, submitter))
            for system in folders_of(submitter / "results"):
                self.read_system(system, in_submitter)

    def read_system(self, system: Path, above: tuple[Finding, ...]) -> None:
        """Read a system's models and their scenarios; ``system`` is its folder in ``results``."""
        submitter = system.parent.parent
        content = read_json(submitter / "systems" / f"{system.name}.json")
        description: dict[str, Any] | None = content if isinstance(content, dict) else None
        found = above + self.keep(check_system(self.root, system, description))
        category = str((description or {}).get("system_type", ""))
        for model in folders_of(system):
            name = checker_name(model.name, submitter if submitter.parent.name == "open" else None)
            in_model = found + self.keep(check_model(self.root, model, name, category))
            required = self.keep(check_required(self.root, model, name, category))
            for scenario in folders_of(model):
                self.read_scenario(scenario, category, name, in_model, required)

    def read_scenario(
        self, scenario: Path, category: str, name: str | None, above: tuple[Finding, ...], required: tuple[Finding, ...]
    ) -> None:
        """Read one result, unless it is lost already: the official checker does not look further then.

        A scenario that is missing beside it is looked for last: the result is lost in the final count alone.
        """
        division, submitter, _, system, model, folder = scenario.relative_to(self.root).parts
        findings = [*above, *required]
        if name is not None and not any(finding.is_loss for finding in above):
            entry = Entry(
                root=self.root,
                division=division,
                submitter=submitter,
                system=system,
                model_folder=model,
                scenario_folder=folder,
                category=category,
                checker_name=name,
            )
            findings += check_result(entry)
        self.results.append(
            ResultReading(
                division=division,
                submitter=submitter,
                system=system,
                model=model,
                scenario=folder,
                findings=tuple(findings),
            )
        )


def folders_of(folder: Path) -> list[Path]:
    """Return the subfolders, links to folders included, by name."""
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def read_json(path: Path) -> Any:
    """Return what is in a JSON file, None if there is no such file or it holds no JSON."""
    try:
        return json.loads(read_text(path))
    except ValueError:
        return None


# --- Root, division, submitter ----------------------------------------------------------------------------------------


def check_root(root: Path) -> Iterator[Finding]:
    """Check that the root holds no files but Markdown and PDF; other folders than divisions are ignored."""
    for name in sorted(files_of(root)):
        if not name.endswith(tables.ROOT_FILES):
            yield Finding.at(root, root / name, "root-file", "The root may hold .md and .pdf files only.")


def check_division(root: Path, division: Path) -> Iterator[Finding]:
    """Check that a division holds no files."""
    for name in sorted(files_of(division)):
        yield Finding.at(root, division / name, "division-file", "A division contains folders of submitters only.")


def check_submitter(root: Path, submitter: Path) -> Iterator[Finding]:
    """Check every name, size and link below a submitter; the rules also want a page on calibration, and no links."""
    for parent, folders, files in os.walk(submitter):
        here = Path(parent)
        if not folders and not files:
            yield Finding.at(root, here, "empty-folder", "A folder must not be empty.")
        for path in (here / name for name in sorted(folders + files)):
            if path.name.startswith(".") or " " in path.name or path.name == "__pycache__":
                yield Finding.at(root, path, "bad-name", "No leading dots, no spaces, no __pycache__.")
            if path.is_symlink():
                sentence = "A submission is made of copies, not of links."
                yield Finding.at(root, path, "link", sentence, Weight.STRICTER)
        for path in (here / name for name in sorted(files)):
            # A relative target is looked up from the root, so such a link is broken even where it works.
            if path.is_symlink() and not (root / path.readlink()).exists():
                yield Finding.at(root, path, "broken-link", "This link is broken, seen from the root.")
            elif path.exists() and path.stat().st_size > tables.FILE_LIMIT_BYTES:
                yield Finding.at(root, path, "file-size", "A file must not be larger than 50 MiB.")
    if not any((submitter / name).is_file() for name in tables.CALIBRATION_FILES):
        sentence = "The rules want a calibration.md."
        yield Finding.at(root, submitter, "no-calibration-page", sentence, Weight.STRICTER)


# --- System -----------------------------------------------------------------------------------------------------------


def check_system(root: Path, system: Path, description: dict[str, Any] | None) -> Iterator[Finding]:
    """Check a system's description; texts that are none are met only when a row of the summary is written."""
    submitter = system.parent.parent
    path = submitter / "systems" / f"{system.name}.json"
    if not path.is_file():
        yield Finding.at(root, path, "no-description", "Nothing describes this system.")
        return
    if description is None:
        yield Finding.at(root, path, "no-description", "This is no JSON object.", Weight.CRASHES)
        return
    losses = [*check_keys(root, path, description), *check_values(root, path, description)]
    yield from losses or check_texts(root, path, description)
    if submitter.parent.name == "network" and description.get("system_type") != "datacenter":
        sentence = "The network division is of datacenter systems only."
        yield Finding.at(root, path, "network-category", sentence, Weight.STRICTER)


def check_keys(root: Path, path: Path, description: dict[str, Any]) -> Iterator[Finding]:
    """Check that all keys are there, and not empty where that counts."""
    network_keys = tables.NETWORK_KEYS if is_network(description) else []
    for key in tables.SYSTEM_KEYS + network_keys:
        name = key.removeprefix("*")
        if name not in description:
            yield Finding.at(root, path, "system-key", f"{name} is missing.")
        elif key.startswith("*") and not description[name]:
            yield Finding.at(root, path, "system-key", f"{name} is empty, zero, false or null.")


def check_values(root: Path, path: Path, description: dict[str, Any]) -> Iterator[Finding]:
    """Check the values that name things: where the description lies, the availability, the category."""
    division, submitter = path.relative_to(root).parts[:2]
    for key in ("status", "submitter", "is_network"):  # put into lower case; the last one may be absent or null
        value = description.get(key)
        if not isinstance(value, str) and (value is not None or key != "is_network"):
            yield Finding.at(root, path, "system-text", f"{key} is no text: {value!r}.", Weight.CRASHES)
    is_right = {
        "division": description.get("division") == division,
        "submitter": str(description.get("submitter")).lower() == submitter.lower(),
        "status": str(description.get("status")).lower() in tables.AVAILABILITY,
        "system_type": description.get("system_type") in tables.CATEGORIES,
        "is_network": division == "open" or is_network(description) == (division == "network"),
    }
    for key in (key for key, right in is_right.items() if not right):
        yield Finding.at(root, path, "system-value", f"{key} is {description.get(key)!r}.")


def is_network(description: dict[str, Any]) -> bool:
    """Return whether a description says that its system is behind a network."""
    return str(description.get("is_network", "")).lower() == "true"


def check_texts(root: Path, path: Path, description: dict[str, Any]) -> Iterator[Finding]:
    """Check the values that are written into the summary: text, and without what breaks its columns."""
    for key in tables.STRING_KEYS:
        value = description.get(key, "")
        if not isinstance(value, str):
            yield Finding.at(root, path, "system-text", f"{key} is no text: {value!r}.", Weight.CRASHES)
        elif '"' in value:
            sentence = f"Double quotes in {key} break the columns of the summary."
            yield Finding.at(root, path, "system-quotes", sentence, Weight.STRICTER)


# --- Model ------------------------------------------------------------------------------------------------------------


def checker_name(folder: str, open_submitter: Path | None) -> str | None:
    """Return the official checker's name of a model, None if it knows none; in open a submitter may map names."""
    if folder in tables.MODELS:
        return folder
    mapping = read_json(open_submitter / "model_mapping.json") or {} if open_submitter else {}
    by_part = (name for part, name in tables.NAME_PARTS if part in folder)
    name = tables.ALIASES.get(folder) or mapping.get(folder) or next(by_part, None)
    return name if name in tables.MODELS else None


def check_model(root: Path, model: Path, name: str | None, category: str) -> Iterator[Finding]:
    """Check that a model is known and exists for the category."""
    if name is None:
        yield Finding.at(root, model, "unknown-model", "The official checker knows no such model.")
    elif category in tables.CATEGORIES and category not in tables.MODELS[name].scenarios:
        yield Finding.at(root, model, "no-such-model-here", f"{name} does not exist for {category}.")


def check_required(root: Path, model: Path, name: str | None, category: str) -> Iterator[Finding]:
    """Check that a model has all the scenarios that its category wants, which the open division does not ask."""
    if name is None or model.relative_to(root).parts[0] == "open":
        return
    present = {tables.SCENARIO_FOLDERS.get(folder.name) for folder in folders_of(model)}
    for scenario in sorted(tables.MODELS[name].scenarios.get(category, frozenset()) - present):
        yield Finding.at(root, model, "scenario-missing", f"{scenario} is required for {category}.")


# --- One result -------------------------------------------------------------------------------------------------------


def check_result(entry: Entry) -> Iterator[Finding]:
    """Check one result in the official order."""
    here = entry.folder("results")
    if entry.scenario_folder not in tables.SCENARIO_FOLDERS:
        yield entry.refuses("unknown-scenario", here, "No scenario has this name.")
        return
    if not entry.is_open and entry.scenario not in entry.model.scenarios[entry.category]:
        yield entry.refuses("scenario-not-allowed", here, f"Not a scenario of this model for {entry.category}.")
        return
    if (entry.checker_name, entry.scenario) == ("mixtral-8x7b", tables.SINGLE) and not entry.is_open:
        yield entry.stricter("scenario-not-allowed", here, "Only the official checker knows this scenario, by a slip.")
    measurements = list(check_measurements(entry))
    yield from measurements
    if any(finding.is_loss for finding in measurements):
        return
    yield from check_accuracy_folder(entry)
    yield from check_performance_folder(entry, here / "performance" / "run_1", has_power(entry))
    yield from check_equal_issue(entry)
    if has_power(entry):
        yield from check_power(entry)
    if not entry.is_open:
        yield from check_compliance_folder(entry)


def check_measurements(entry: Entry) -> Iterator[Finding]:
    """Check the measurement folder: the three files, the JSON about the implementation, the code it names."""
    folder = entry.folder("measurements")
    if not folder.is_dir():
        yield entry.refuses("no-measurements", folder, "This folder must be there.")
        return
    for name in tables.MEASUREMENT_FILES:
        if not read_text(folder / name):
            yield entry.refuses("file-missing", folder / name, "This file must be there, and not be empty.")
    if not (folder / "calibration_process.adoc").is_file():
        yield entry.stricter("no-calibration-page", folder, "The rules want a calibration_process.adoc.")
    code = entry.submitter_folder / "code" / entry.model_folder
    if code.is_file():  # its text is the name of another model's folder
        code = code.parent / read_text(code).strip()
    if not code.is_dir():
        yield entry.refuses("no-code", code, "The code of this model must be there.")
    yield from check_implementation(entry, folder)


def check_implementation(entry: Entry, folder: Path) -> Iterator[Finding]:
    """Check the JSON in the measurement folder; without one whose name begins as the system's the checker stops."""
    names = sorted(name for name in files_of(folder) if name.startswith(entry.system) and name.endswith(".json"))
    if not names:
        sentence = f"No JSON file has a name that begins with {entry.system}."
        yield entry.crashes("no-implementation", folder, sentence)
        return
    of_scenario = [name for name in names if name.endswith(f"_{entry.scenario_folder}.json")]
    path = folder / (of_scenario or names)[0]
    content = read_json(path)
    if not isinstance(content, dict | list | str):  # no JSON, or one in which no field can be looked for
        yield entry.crashes("no-implementation", path, "This is no JSON object.")
    for key in tables.MEASUREMENT_KEYS:
        if not isinstance(content, dict) or not content.get(key):
            yield entry.refuses("implementation-key", path, f"{key} is missing or empty.")


def check_equal_issue(entry: Entry) -> Iterator[Finding]:
    """Check that the conf files ask for every sample equally often, where the workload wants it.

    The official checker asks three models only, in the closed division, and reads their files strictly.
    """
    if entry.is_open or not entry.model.workload.is_equal_issue:
        return
    folder = entry.folder("measurements")
    is_asked = entry.model.is_equal_issue_checked and entry.division == "closed"
    values = []
    for path in (folder / "user.conf", folder / "mlperf.conf"):  # the first one that says something wins
        settings, bad_lines = read_conf(path)
        if is_asked and bad_lines:
            yield entry.crashes("conf-syntax", path, f"No line of a conf file: {bad_lines[0]!r}.")
        asked = {"*", entry.model.workload.conf_name}, {"*", entry.scenario_folder}, {"sample_concatenate_permutation"}
        values += [value for name, value in settings if all(map(operator.contains, asked, name))][:1]
    if values[:1] != ["1"]:
        report = entry.refuses if is_asked else entry.stricter
        yield report("equal-issue", folder / "mlperf.conf", "No sample_concatenate_permutation = 1 for this model.")
    log = entry.folder("results") / "performance" / "run_1" / DETAIL
    if DetailLog.read(log).values.get("effective_sample_concatenate_permutation") is False:
        yield entry.stricter("equal-issue", log, "By the log samples were not issued equally often.")


def read_conf(path: Path) -> tuple[list[tuple[list[str], str]], list[str]]:
    """Return the settings of a conf file, each (model, scenario, key) and its value, and the lines that are none."""
    settings, bad_lines = [], []
    for line in (line.strip() for line in read_text(path).splitlines()):
        if not line or line.startswith("#"):
            continue
        name, *values = (part.strip() for part in line.split("="))
        if len(values) == 1 and name.count(".") == 2:
            settings.append((name.split("."), values[0]))
        else:
            bad_lines.append(line)
    return settings, bad_lines


def main(argv: list[str]) -> int:
    """Print what is found in the tree that the command line names."""
    if len(argv) != 1 or not Path(argv[0]).is_dir():
        print("usage: independent_checker.py TREE", file=sys.stderr)
        return 2
    reading = read_tree(Path(argv[0]))
    for finding in reading.findings:
        print(finding)
    for result in reading.results:
        print(f"{result.path}: {result.outcome}")
        for finding in result.findings:
            if finding not in reading.findings:
                print(f"    {finding}")
    return 0 if reading.is_accepted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
