"""Demands on a result's accuracy folder beyond its scores: files, the shortened log and its hash, example images.

Source: submission checker v4.1, ``check_accuracy_dir`` and ``check_extra_files``; ``truncate_accuracy_log.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlbench.contracts.scenario import Scenario
from mlbench.errors import DataError
from mlbench.loadgen.logs import missing_end, read_damaged_detail
from mlbench.submission.checking.findings import Reaction
from mlbench.submission.checking.folder_files import describe_difference, list_files
from mlbench.submission.scores import read_log_hash
from mlbench.submission.tree import ACCURACY, ACCURACY_LOG, DETAIL, SUMMARY, Benchmark
from mlbench.system.documents import is_file, read_bytes

LARGEST_LOG_BYTES = 10_240
ELLIPSIS = b"\n\n...\n\n"
"""Stands where the middle of a shortened log was."""

_IMAGES = ("4655", "2569", "1303", "109", "4509", "3009", "2179", "1826", "2094", "3340")
"""Indices in the data set of the images that Stable Diffusion XL shows."""
_CAPTIONS = "captions.txt"
_WITH_IMAGES = "stable-diffusion-xl"


_MODES = ("AccuracyOnly", "SubmissionRun")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderProblem:
    """Something wrong with a folder of a result."""

    rule: str
    place: str
    """A file or folder inside it; empty: itself."""
    message: str
    official: Reaction = Reaction.REFUSES


def check_accuracy_folder(folder: Path, benchmark: Benchmark, scenario: Scenario) -> Iterator[FolderProblem]:
    """Yield what is wrong with the accuracy folder of a closed result, apart from its scores."""
    if not is_file(folder / ACCURACY):
        yield FolderProblem(rule="accuracy_scores", place=ACCURACY, message="is missing.")
        return
    known = (SUMMARY, DETAIL, ACCURACY_LOG, ACCURACY)
    if difference := describe_difference(folder, (), known):
        message = f"{difference}; the official checker logs it."
        yield FolderProblem(rule="accuracy_extra_files", place="", message=message, official=Reaction.ACCEPTS)
    yield from _check_kind(folder / DETAIL, scenario)
    yield from check_log(folder, Reaction.REFUSES)
    if benchmark.rules.name == _WITH_IMAGES:
        yield from _check_images(folder / "images")


def _check_kind(log: Path, scenario: Scenario) -> Iterator[FolderProblem]:
    """Look whether the log is one of an accuracy test of this scenario, as far as it says so."""
    values = read_damaged_detail(log).values if is_file(log) else {}
    mode, logged = values.get("effective_test_mode", _MODES[0]), values.get("effective_scenario", scenario.loadgen)
    if values and (end := missing_end(values)):
        message = f"has no {end}: it was cut off."
        yield FolderProblem(rule="accuracy_log_end", place=DETAIL, message=message, official=Reaction.ACCEPTS)
    if mode not in _MODES or logged != scenario.loadgen:
        message = f"is a log of {mode} in {logged}; the accuracy is that of a test in {scenario.name}."
        yield FolderProblem(rule="accuracy_log_kind", place=DETAIL, message=message, official=Reaction.ACCEPTS)


def check_log(folder: Path, too_long: Reaction) -> Iterator[FolderProblem]:
    """Yield what is wrong with the accuracy log beside an ``accuracy.txt``.

    Args:
        folder: that holds both.
        too_long: what the official checker does about a log that was not shortened.
    """
    log = folder / ACCURACY_LOG
    if not is_file(log):
        return
    size = log.stat().st_size
    if size > LARGEST_LOG_BYTES:
        message = f"has {size} bytes; shorten it to at most {LARGEST_LOG_BYTES}, and keep the hash of the whole."
        yield FolderProblem(rule="accuracy_log_size", place=ACCURACY_LOG, message=message, official=too_long)
        return
    try:
        content, printed = read_bytes(log, what="accuracy log"), read_log_hash(folder / ACCURACY)
    except DataError:
        return
    if not (content.strip().startswith(b"[") and content.strip().endswith(b"]")):
        message = "does not begin with '[' and end with ']': it was cut off."
        yield FolderProblem(rule="accuracy_log_end", place=ACCURACY_LOG, message=message, official=Reaction.ACCEPTS)
    if printed and ELLIPSIS not in content and hashlib.sha256(content).hexdigest() != printed.lower():
        message = f"is whole, and its SHA-256 is not the hash in {ACCURACY}: one of them was changed."
        yield FolderProblem(rule="accuracy_log_digest", place=ACCURACY_LOG, message=message, official=Reaction.ACCEPTS)


def _check_images(folder: Path) -> Iterator[FolderProblem]:
    found = {name.split(".")[0] for name in list_files(folder)}
    if missing := [name for name in _IMAGES if name not in found]:
        message = f"lacks the images of samples {', '.join(missing)}."
        yield FolderProblem(rule="images", place="images", message=message)
    if not is_file(folder / _CAPTIONS):
        message = "is missing; the official checker does not ask for it."
        yield FolderProblem(rule="captions", place=f"images/{_CAPTIONS}", message=message, official=Reaction.ACCEPTS)
