"""Demands on a result's measurements folder, and on the code that it refers to.

Source: submission checkers v4.1 to v6.1, ``check_measurement_dir``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mlbench.contracts.scenario import Scenario
from mlbench.errors import DataError
from mlbench.submission.checking.findings import CheckedFolder, Reaction, TreeFinding, list_names
from mlbench.submission.configuration import read_equal_issue
from mlbench.submission.sources import CONFIGURATION
from mlbench.submission.tree import (
    MLPERF_CONF,
    USER_CONF,
    Benchmark,
    ResultEntry,
    code_folder,
    fill_place,
    has_code_by_model,
)
from mlbench.system.documents import is_file, read_json, read_text

_CALIBRATION = "calibration_process.adoc"
_STRICT_LINE = re.compile(r"[^.=]+\.[^.=]+\.[^.=]+=[^=]+")


def check_equal_issue(entry: ResultEntry, benchmark: Benchmark, scenario: Scenario) -> Iterator[TreeFinding]:
    """Yield what keeps the configuration from saying that all samples were sent equally often, where the rules ask.

    It is asked for in rounds whose checker reads nothing but the configuration: in the closed division, in some models.
    """
    checks = entry.round.checks
    if entry.division == "open" or not benchmark.rules.equal_issue or checks.equal_issue_from != CONFIGURATION:
        return
    place = CheckedFolder(entry=entry, folder=entry.measurements)
    is_strict = entry.division == "closed" and entry.model in checks.equal_issue_models
    if is_strict:
        yield from _unreadable_lines(place)
    configured, _ = read_equal_issue(entry, benchmark.rules.name, scenario.loadgen)
    if configured is not True:
        key = f"{benchmark.rules.name}.*.sample_concatenate_permutation = 1"
        message = f"{USER_CONF} and {MLPERF_CONF} do not say that samples were sent equally often: {key}"
        official = Reaction.REFUSES if is_strict else Reaction.ACCEPTS
        yield place.finding("equal_issue_configuration", MLPERF_CONF, message, official)


def check_measurements(entry: ResultEntry) -> Iterator[TreeFinding]:
    """Yield what is wrong with the folder that describes how a result was measured."""
    folder = entry.measurements
    place = CheckedFolder(entry=entry, folder=folder)
    if not os.path.isdir(folder):
        yield place.finding("measurements", "", "there is no such folder.")
        return
    for name in entry.round.files.measurements:
        if not is_file(folder / name):
            yield place.finding("measurement_files", name, "is missing.")
        elif not (folder / name).stat().st_size:
            yield place.finding("measurement_files", name, "is empty.")
    if not is_file(folder / _CALIBRATION):
        message = "is missing: the rules require a description of the calibration."
        yield place.finding("calibration_process", _CALIBRATION, message, Reaction.ACCEPTS, is_note=True)
    yield from _description(place)


def _description(place: CheckedFolder) -> Iterator[TreeFinding]:
    entry, found = place.entry, place.entry.measurement_files
    if not found:
        place_of = entry.round.layout.implementation
        wanted = fill_place(place_of, entry.system, entry.model, entry.scenario).rpartition("/")[2]
        message = f"there is no {wanted}."
        yield place.finding("measurement_description", "", message, Reaction.CRASHES)
        return
    if len(found) > 1:
        message = f"the official checker reads whichever of these it finds first: {list_names(found)}."
        yield place.finding("measurement_description", "", message, Reaction.ACCEPTS, is_note=True)
    file = place.folder / found[0]
    try:
        fields = read_json(file, what="description")
    except DataError as error:
        yield place.finding("measurement_description", file.name, error.message, Reaction.CRASHES)
        return
    if not isinstance(fields, dict):
        # It looks for the fields in a list or a text without finding them, and cannot look into anything else.
        official = Reaction.REFUSES if isinstance(fields, list | str) else Reaction.CRASHES
        yield place.finding("measurement_description", file.name, "is not a JSON object.", official)
        return
    if empty := [name for name in entry.round.files.implementation_keys if not fields.get(name)]:
        message = f"fields are missing or empty: {', '.join(empty)}."
        yield place.finding("measurement_fields", file.name, message)
    yield from _code(entry, file)


def _code(entry: ResultEntry, description: Path) -> Iterator[TreeFinding]:
    """Look for the code: the round's folder is enough; that of a model may be a file that names another folder."""
    code, model = code_folder(entry.round), entry.model
    folder = entry.submitter_folder / code
    if not has_code_by_model(entry.round):
        if not os.path.isdir(folder):
            yield _code_finding(entry, f"there is no {code}.")
        return
    if is_file(folder / model):
        try:
            model = read_text(folder / model, what="name of a folder", replaces_errors=True, limit_bytes=4096).strip()
        except DataError as error:
            yield _code_finding(entry, error.message.replace(str(folder / model), f"{code}/{model}"))
            return
    ending = f"_{entry.scenario}.json" if description.name.endswith(f"_{entry.scenario}.json") else ".json"
    implementation = description.name[len(entry.system) + 1 : -len(ending)]
    if not any(os.path.exists(each) for each in (folder / model, folder / model / implementation)):
        places = filter(None, (code, model, implementation))
        yield _code_finding(entry, f"there is no {'/'.join(places)}.")


def _code_finding(entry: ResultEntry, message: str) -> TreeFinding:
    path = f"{entry.division}/{entry.submitter}/{code_folder(entry.round)}"
    return TreeFinding(rule="code", path=path, message=message, loses=entry.path)


def _unreadable_lines(place: CheckedFolder) -> Iterator[TreeFinding]:
    for name in (MLPERF_CONF, USER_CONF):
        try:
            text = read_text(place.folder / name, what="LoadGen's configuration", replaces_errors=True)
        except DataError:
            continue  # a missing file is a finding of its own
        for number, line in enumerate(text.splitlines(), 1):
            packed = "".join(line.split())
            if packed and not packed.startswith("#") and not _STRICT_LINE.fullmatch(packed):
                message = f"line {number} is not model.scenario.key = value."
                yield place.finding("configuration_lines", name, message, Reaction.CRASHES)
                break
