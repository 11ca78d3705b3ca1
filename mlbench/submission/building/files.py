"""The files of a new tree, copied from run folders: logs as they are, replies shortened with the hash of the whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from mlbench.errors import UsageError
from mlbench.loadgen.settings import Mode
from mlbench.rules.entry_demand import Division
from mlbench.submission.building.entries import BuiltEntry
from mlbench.submission.building.measurements import write_measurements
from mlbench.submission.building.stored import StoredRun
from mlbench.submission.building.system import System
from mlbench.submission.compliance_files import shorten_log
from mlbench.submission.tree import (
    ACCURACY,
    ACCURACY_LOG,
    DETAIL,
    SUMMARY,
    SYSTEMS,
    code_folder,
    fill_place,
    has_code_by_model,
)
from mlbench.system.documents import copy_file, copy_folder, inside, is_file

_SHARED_CODE = "mlbench"
"""The folder under ``code`` that all models share."""
_SOURCES = (".py", ".toml", ".md", ".c", ".cpp", ".cu", ".cuh", ".h")
_IMAGES = "images"


def write_tree(root: Path, system: System, entries: list[BuiltEntry]) -> None:
    """Write the tree of some entries into an empty folder.

    Raises:
        UsageError: a run folder lacks a file.
        OSError: it cannot be written.
    """
    submitter = root / system.division / system.submitter
    file = submitter / SYSTEMS / f"{system.name}.json"
    file.parent.mkdir(parents=True)
    file.write_text(system.text(), encoding="utf-8")
    for entry in entries:
        required = entry.required
        layout, names = system.round.layout, (system.name, required.model, required.scenario)
        write_measurements(submitter / fill_place(layout.measurements, *names), entry, system)
        with inside(entry.run.folder):
            _write_result(submitter / fill_place(layout.results, *names), entry.run)
        if system.division != Division.OPEN:
            for test in required.tests:
                copy_folder(entry.run.tests[test], submitter / fill_place(layout.compliance, *names) / test)
    _write_code(submitter / code_folder(system.round), entries, by_model=has_code_by_model(system.round))
    (submitter / "calibration.md").write_text(_calibration(entries), encoding="utf-8")


def _write_result(folder: Path, run: StoredRun) -> None:
    performance, accuracy = folder / "performance" / "run_1", folder / "accuracy"
    for place, mode in ((performance, Mode.PERFORMANCE), (accuracy, Mode.ACCURACY)):
        place.mkdir(parents=True)
        for name in (SUMMARY, DETAIL):
            _copy(run, f"{mode}/{name}", place / name)
    log = f"{Mode.ACCURACY}/{ACCURACY_LOG}"
    _check_there(run, log)
    digest = shorten_log(run.folder / log, accuracy / ACCURACY_LOG)
    assert run.record.accuracy
    (accuracy / ACCURACY).write_text(f"{run.record.accuracy.line}\nhash={digest}\n", encoding="utf-8")
    for image in _images(run):
        (accuracy / _IMAGES).mkdir(exist_ok=True)
        copy_file(image, accuracy / _IMAGES / image.name)


def _images(run: StoredRun) -> list[Path]:
    """Return what the metric wrote for a submission: Stable Diffusion XL's images and captions."""
    folder = run.folder / Mode.ACCURACY / _IMAGES
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _copy(run: StoredRun, name: str, place: Path) -> None:
    _check_there(run, name)
    copy_file(run.folder / name, place)


def _check_there(run: StoredRun, name: str) -> None:
    if not is_file(run.folder / name):
        raise UsageError(f"run {run.record.run_id} lacks its log {name}.", hint="Make the run again.")


def _write_code(folder: Path, entries: list[BuiltEntry], *, by_model: bool) -> None:
    """Write the packages that made the runs once, and of each model, where it has a place, the name of their folder."""
    folder.mkdir()
    packages = {name: source for entry in entries for name, source in entry.run.sources.items()}
    for name, source in packages.items():
        for file in [source] if source.is_file() else _source_files(source):
            place = folder / _SHARED_CODE / name / (file.name if file == source else file.relative_to(source))
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    (folder / _SHARED_CODE).mkdir(exist_ok=True)
    versions = ", ".join(sorted({entry.run.record.mlbench_version for entry in entries}))
    text = f"# Code\n\nThe Python packages as installed when this tree was built. The runs are of mlbench {versions}.\n"
    (folder / _SHARED_CODE / "README.md").write_text(text, encoding="utf-8")
    for model in {entry.required.model for entry in entries} if by_model else ():
        (folder / model).write_text(f"{_SHARED_CODE}\n", encoding="utf-8")


def _source_files(package: Path) -> Iterator[Path]:
    for file in sorted(package.rglob("*")):
        parts = file.relative_to(package).parts
        is_hidden = any(part.startswith(".") or part == "__pycache__" or " " in part for part in parts)
        if file.suffix in _SOURCES and file.is_file() and not is_hidden:
            yield file


def _calibration(entries: list[BuiltEntry]) -> str:
    lines = [
        f"- {entry.required.model} {entry.required.scenario}: precision {entry.run.record.precision}, "
        f"backend {entry.run.record.backend}; see calibration_process.adoc of its measurements"
        for entry in entries
    ]
    return "\n".join(["# Calibration", "", *lines, ""])
