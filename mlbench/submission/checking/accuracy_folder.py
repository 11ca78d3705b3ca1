"""Demands on a result's accuracy folder beyond its scores: files, the shortened log and its hash, example images.

Source: submission checker v4.1, ``check_accuracy_dir`` and ``check_extra_files``; ``truncate_accuracy_log.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from mlbench.contracts.scenario import Scenario
from mlbench.errors import DataError
from mlbench.loadgen.logs import missing_end, read_damaged_detail
from mlbench.submission.checking.findings import CheckedFolder, Reaction, TreeFinding
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


def check_accuracy_folder(place: CheckedFolder, benchmark: Benchmark, scenario: Scenario) -> Iterator[TreeFinding]:
    """Yield what is wrong with the accuracy folder of a closed result, apart from its scores."""
    if not is_file(place.folder / ACCURACY):
        yield place.finding("accuracy_scores", ACCURACY, "is missing.")
        return
    known = (SUMMARY, DETAIL, ACCURACY_LOG, ACCURACY)
    if difference := describe_difference(place.folder, (), known):
        message = f"{difference}; the official checker logs it."
        yield place.finding("accuracy_extra_files", "", message, Reaction.ACCEPTS)
    yield from _check_kind(place, scenario)
    yield from check_log(place, Reaction.REFUSES)
    if benchmark.rules.name == _WITH_IMAGES:
        yield from _check_images(place)


def _check_kind(place: CheckedFolder, scenario: Scenario) -> Iterator[TreeFinding]:
    """Look whether the log is one of an accuracy test of this scenario, as far as it says so."""
    log = place.folder / DETAIL
    values = read_damaged_detail(log).values if is_file(log) else {}
    mode, logged = values.get("effective_test_mode", _MODES[0]), values.get("effective_scenario", scenario.loadgen)
    if values and (end := missing_end(values)):
        message = f"has no {end}: it was cut off."
        yield place.finding("accuracy_log_end", DETAIL, message, Reaction.ACCEPTS)
    if mode not in _MODES or logged != scenario.loadgen:
        message = f"is a log of {mode} in {logged}; the accuracy is that of a test in {scenario.name}."
        yield place.finding("accuracy_log_kind", DETAIL, message, Reaction.ACCEPTS)


def check_log(place: CheckedFolder, too_long: Reaction) -> Iterator[TreeFinding]:
    """Yield what is wrong with the accuracy log beside an ``accuracy.txt``.

    Args:
        place: the folder that holds both.
        too_long: what the official checker does about a log that was not shortened.
    """
    log = place.folder / ACCURACY_LOG
    if not is_file(log):
        return
    size = log.stat().st_size
    if size > LARGEST_LOG_BYTES:
        message = f"has {size} bytes; shorten it to at most {LARGEST_LOG_BYTES}, and keep the hash of the whole."
        yield place.finding("accuracy_log_size", ACCURACY_LOG, message, too_long)
        return
    try:
        content, printed = read_bytes(log, what="accuracy log"), read_log_hash(place.folder / ACCURACY)
    except DataError:
        return
    if not (content.strip().startswith(b"[") and content.strip().endswith(b"]")):
        message = "does not begin with '[' and end with ']': it was cut off."
        yield place.finding("accuracy_log_end", ACCURACY_LOG, message, Reaction.ACCEPTS)
    if printed and ELLIPSIS not in content and hashlib.sha256(content).hexdigest() != printed.lower():
        message = f"is whole, and its SHA-256 is not the hash in {ACCURACY}: one of them was changed."
        yield place.finding("accuracy_log_digest", ACCURACY_LOG, message, Reaction.ACCEPTS)


def _check_images(place: CheckedFolder) -> Iterator[TreeFinding]:
    folder = place.folder / "images"
    found = {name.split(".")[0] for name in list_files(folder)}
    if missing := [name for name in _IMAGES if name not in found]:
        message = f"lacks the images of samples {', '.join(missing)}."
        yield place.finding("images", "images", message)
    if not is_file(folder / _CAPTIONS):
        message = "is missing; the official checker does not ask for it."
        yield place.finding("captions", f"images/{_CAPTIONS}", message, Reaction.ACCEPTS)
