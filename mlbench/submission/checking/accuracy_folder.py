"""Demands on a result's accuracy folder beyond its scores: files, the shortened log and its hash, example images.

Source: submission checkers from v4.1 on, ``check_accuracy_dir``, ``check_extra_files``; ``truncate_accuracy_log.py``.
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

ELLIPSIS = b"\n\n...\n\n"
"""Stands where the middle of a shortened log was."""

_CAPTIONS = "captions.txt"
_SHOWN = {"stable-diffusion-xl": "images", "wan-2.2-t2v-a14b": "videos"}
"""Folder of what a workload shows of some samples, whose indices in the data set the round names."""

_MODES = ("AccuracyOnly", "SubmissionRun")


def check_accuracy_folder(place: CheckedFolder, benchmark: Benchmark, scenario: Scenario) -> Iterator[TreeFinding]:
    """Yield what is wrong with the accuracy folder of a closed result, apart from its scores."""
    if not is_file(place.folder / ACCURACY):
        yield place.finding("accuracy_scores", ACCURACY, "is missing.")
        return
    known = (SUMMARY, DETAIL, ACCURACY_LOG, ACCURACY)
    if difference := describe_difference(place.folder, (), known):
        asks = place.entry.round.checks.extra_files
        message = f"{difference}; the official checker {'logs' if asks else 'ignores'} it."
        yield place.finding("accuracy_extra_files", "", message, Reaction.ACCEPTS, is_note=not asks)
    yield from _check_kind(place, scenario)
    yield from check_log(place, Reaction.REFUSES)
    if kind := _SHOWN.get(benchmark.rules.name):
        yield from _check_shown(place, kind)


def _check_kind(place: CheckedFolder, scenario: Scenario) -> Iterator[TreeFinding]:
    """Look whether the log is one of an accuracy test of this scenario, as far as it says so."""
    log = place.folder / DETAIL
    detail = read_damaged_detail(log) if is_file(log) else None
    values = detail.values if detail else {}
    mode, logged = values.get("effective_test_mode", _MODES[0]), values.get("effective_scenario", scenario.loadgen)
    if detail and values and (end := missing_end(detail)):
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
    size, limit = log.stat().st_size, place.entry.round.files.accuracy_log_bytes
    if size > limit:
        message = f"has {size} bytes; shorten it to at most {limit}, and keep the hash of the whole."
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


def _check_shown(place: CheckedFolder, kind: str) -> Iterator[TreeFinding]:
    """Yield which images or videos are missing; where the round names none, none is asked for."""
    wanted: tuple[int, ...] = getattr(place.entry.round.files, kind)
    if not wanted:
        return
    folder = place.folder / kind
    found = {name.split(".")[0] for name in list_files(folder)}
    if missing := [str(name) for name in wanted if str(name) not in found]:
        message = f"lacks the {kind} of samples {', '.join(missing)}."
        yield place.finding(kind, kind, message)
    if kind == "images" and not is_file(folder / _CAPTIONS):
        message = "is missing; the official checker does not ask for it."
        yield place.finding("captions", f"{kind}/{_CAPTIONS}", message, Reaction.ACCEPTS)
