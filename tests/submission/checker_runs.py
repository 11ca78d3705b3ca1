"""What the runs of one result must have left behind: the performance run and the accuracy run.

A part of the independent checker of submission trees. Each check yields its findings; none of them stops the next.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import checker_tables as tables
from checker_tables import ACCURACY_LOG, DETAIL, MULTI, OFFLINE, SERVER, Model


class Weight(StrEnum):
    """What the official checker makes of a finding."""

    CRASHES = "crashes"  # it stops with an exception: no result of the tree comes out
    REFUSES = "refuses"
    STRICTER = "stricter"  # it does not see it, but the rules do not allow it


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, by a short word, with the place in the tree and a sentence."""

    weight: Weight
    code: str
    where: str
    sentence: str

    @classmethod
    def at(cls, root: Path, path: Path, code: str, sentence: str, weight: Weight = Weight.REFUSES) -> Finding:
        """Make a finding about a path below the root."""
        return cls(weight=weight, code=code, where=str(path.relative_to(root)), sentence=sentence)

    @property
    def is_loss(self) -> bool:
        """Whether the official checker loses what the finding is about."""
        return self.weight is not Weight.STRICTER

    def __str__(self) -> str:
        return f"{self.weight}: {self.code}: {self.where}: {self.sentence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The folders of one result, and the model it is a result of."""

    root: Path
    division: str
    submitter: str
    system: str
    model_folder: str
    scenario_folder: str
    category: str
    checker_name: str  # the official checker's name of the model

    @property
    def model(self) -> Model:
        """The rules of the model."""
        return tables.MODELS[self.checker_name]

    @property
    def scenario(self) -> str:
        """The scenario, in LoadGen's spelling."""
        return tables.SCENARIO_FOLDERS[self.scenario_folder]

    @property
    def is_open(self) -> bool:
        """Whether the rules of the open division hold."""
        return self.division == "open"

    def folder(self, tree: str) -> Path:
        """Return the result's folder in ``results``, ``measurements`` or ``compliance``."""
        return self.submitter_folder / tree / self.system / self.model_folder / self.scenario_folder

    @property
    def submitter_folder(self) -> Path:
        """The folder of all that the submitter has in this division."""
        return self.root / self.division / self.submitter

    def refuses(self, code: str, path: Path, sentence: str) -> Finding:
        """Make a finding for which the official checker refuses the result."""
        return Finding.at(self.root, path, code, sentence)

    def crashes(self, code: str, path: Path, sentence: str) -> Finding:
        """Make a finding at which the official checker stops."""
        return Finding.at(self.root, path, code, sentence, Weight.CRASHES)

    def stricter(self, code: str, path: Path, sentence: str) -> Finding:
        """Make a finding that the official checker does not see."""
        return Finding.at(self.root, path, code, sentence, Weight.STRICTER)


def files_of(folder: Path) -> set[str]:
    """Return the names of the files in a folder; subfolders do not count."""
    return {path.name for path in folder.iterdir() if not path.is_dir()} if folder.is_dir() else set()


def check_files(entry: Entry, folder: Path, required: set[str], extras: Iterable[str] = ()) -> Iterator[Finding]:
    """Check that a folder holds exactly the required files, and perhaps some of the extras."""
    present = files_of(folder)
    for name in sorted(required - present):
        yield entry.refuses("file-missing", folder / name, "This file must be there.")
    for name in sorted(present - required - set(extras)):
        yield entry.refuses("file-unwanted", folder / name, "This file must not be there.")


def read_text(path: Path) -> str:
    """Return a file's text, empty if there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


# --- LoadGen's detail log ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailLog:
    """The records of a ``mlperf_log_detail.txt``: the first value of each key, and how many lines are errors."""

    values: Mapping[str, Any] = field(default_factory=dict)
    errors: int = 0

    @classmethod
    def read(cls, path: Path) -> DetailLog:
        """Read the lines that start with the marker; one that is no JSON counts as an error."""
        values: dict[str, Any] = {}
        errors = 0
        for line in read_text(path).splitlines():
            if not line.startswith(":::MLLOG"):
                continue
            try:
                record = json.loads(line.removeprefix(":::MLLOG"))
                values.setdefault(record["key"], record["value"])
                errors += bool(record["metadata"]["is_error"])
            except (ValueError, KeyError, TypeError):
                errors += 1
        return cls(values=values, errors=errors)

    def number(self, key: str) -> float | None:
        """Return the number under a key, None if it is absent or no number."""
        value = self.values.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    @property
    def scenario(self) -> str:
        """The scenario that ran, empty if the log does not say."""
        return str(self.values.get("effective_scenario", ""))


# --- Performance ------------------------------------------------------------------------------------------------------


def check_performance_folder(entry: Entry, folder: Path, has_power: bool = False) -> Iterator[Finding]:
    """Check a ``performance/run_1``: its files, and that its log is of a run that counts."""
    required = tables.LOGS | ({tables.POWER_LOG} if has_power else set())
    yield from check_files(entry, folder, required, tables.PERFORMANCE_EXTRAS)
    detail = folder / DETAIL
    if detail.is_file():
        log = DetailLog.read(detail)
        yield from check_settings(entry, detail, log)
        yield from check_measured(entry, detail, log)
        yield from check_overlooked(entry, detail, log)


def check_settings(entry: Entry, path: Path, log: DetailLog) -> Iterator[Finding]:
    """Check what the run was asked for: seeds, counts, duration, latency limit, name of the system.

    The limits are those of the scenario in the log, which may be another than the folder's.
    """
    if log.scenario not in tables.RESULT_KEYS:
        yield entry.refuses("scenario", path, "The log is of no scenario.")
    is_test05 = "TEST05" in str(path.relative_to(entry.root))  # anywhere in the path, so no name may contain it
    for key, seed in (tables.TEST05_SEEDS if is_test05 else tables.SEEDS).items():
        if log.values.get(key) != seed:
            yield entry.refuses("seed", path, f"{key} is {log.values.get(key)}, not {seed}.")
    for code, key, least in least_values(entry, log.scenario):
        if (found := log.number(key)) is None or found < least:
            yield entry.refuses(code, path, f"{key} is {found}, less than {least}.")
    limit_ms, found = entry.model.workload.server_limit_ms, log.number("effective_target_latency_ns")
    if log.scenario == SERVER and limit_ms is not None and (found is None or found > limit_ms * 10**6):
        yield entry.refuses("latency-limit", path, f"The latency limit is {found} ns, more than {limit_ms} ms.")
    if entry.division == "network" and "Network SUT" not in str(log.values.get("sut_name", "")):
        yield entry.refuses("sut-name", path, 'The name of a system behind a network contains "Network SUT".')


def least_values(entry: Entry, scenario: str) -> Iterator[tuple[str, str, int]]:
    """Give what must not be less than a limit: word of the finding, key, limit."""
    yield "sample-count", "effective_performance_sample_count", entry.model.workload.performance_samples
    yield "duration", "effective_min_duration_ms", tables.MIN_DURATION_MS
    if scenario == OFFLINE:
        yield "offline-samples", "effective_samples_per_query", entry.model.workload.offline_samples


def check_measured(entry: Entry, path: Path, log: DetailLog) -> Iterator[Finding]:
    """Check what came out: VALID, no error lines, the keys of the result, the latencies of tokens."""
    if log.errors:
        yield entry.refuses("error-lines", path, f"{log.errors} lines are errors.")
    # A rate in tokens takes the place of the usual one, which is read all the same.
    for key in (tables.RESULT_KEYS.get(log.scenario), dict(entry.model.workload.result_keys).get(log.scenario)):
        if key is not None and log.number(key) is None:
            yield entry.refuses("no-result", path, f"{key} is missing.")
    if entry.model.workload.has_token_limits:
        yield from check_tokens(entry, path, log)
    elif log.values.get("result_validity") != "VALID":
        yield entry.refuses("invalid", path, "LoadGen does not say that the run is VALID.")


def check_tokens(entry: Entry, path: Path, log: DetailLog) -> Iterator[Finding]:
    """Check the token latencies of Llama 2 and Mixtral, which take the place of LoadGen's own word."""
    if log.values.get("requested_use_token_latencies") is not True:
        yield entry.refuses("tokens", path, "Token latencies were not asked for.")
    if entry.scenario == SERVER:
        for key, limit_ms in (
            ("result_first_token_99.00_percentile_latency_ns", tables.TTFT_LIMIT_MS),
            ("result_time_per_output_token_99.00_percentile_ns", tables.TPOT_LIMIT_MS),
        ):
            if (found := log.number(key)) is None or found >= limit_ms * 10**6:
                yield entry.refuses("token-latency", path, f"{key} is {found}, not below {limit_ms} ms.")


def check_overlooked(entry: Entry, path: Path, log: DetailLog) -> Iterator[Finding]:
    """Say what the rules refuse and the official checker overlooks in a performance log."""
    if log.scenario != entry.scenario:  # from some others the official checker computes a result
        yield entry.stricter("scenario", path, f"The run is {log.scenario or 'of no scenario'}.")
    if entry.model.workload.has_token_limits and log.values.get("result_validity") != "VALID":
        yield entry.stricter("invalid", path, "LoadGen does not say that the run is VALID.")
    for key in ("early_stopping_met", "result_min_duration_met", "result_min_queries_met"):
        if log.values.get(key) is False:
            yield entry.stricter("not-met", path, f"{key} is false.")
    for key, (lowest, highest) in overlooked_limits(entry, log.scenario).items():
        found = log.number(key)
        if found is not None and not lowest <= found <= highest:
            yield entry.stricter("limits", path, f"{key} is {found}, not within {lowest} and {highest}.")


def overlooked_limits(entry: Entry, scenario: str) -> dict[str, tuple[float, float]]:
    """Return lowest and highest values of keys that the official checker does not compare."""
    limits: dict[str, tuple[float, float]] = {
        "num_errors": (0, 0),  # LoadGen's count; the official checker looks at the lines
        "effective_min_query_count": (tables.MIN_QUERIES.get(scenario, 0), math.inf),
        "result_query_count": (tables.EARLY_STOPPING_QUERIES.get(scenario, 0), math.inf),
    }
    if scenario == MULTI:
        limits["effective_samples_per_query"] = (tables.MULTI_SAMPLES, tables.MULTI_SAMPLES)
    if entry.model.workload.has_token_limits and scenario == SERVER:
        limits["requested_server_ttft_latency"] = (0, tables.TTFT_LIMIT_MS * 10**6)
        limits["requested_server_tpot_latency"] = (0, tables.TPOT_LIMIT_MS * 10**6)
    return limits


# --- Accuracy ---------------------------------------------------------------------------------------------------------


def check_accuracy_folder(entry: Entry) -> Iterator[Finding]:
    """Check the accuracy run: its files in every division, what they say outside the open one."""
    folder = entry.folder("results") / "accuracy"
    for finding in check_files(entry, folder, tables.ACCURACY_FILES, tables.ACCURACY_EXTRAS):
        yield replace(finding, code="accuracy-files")
    if not (folder / "accuracy.txt").is_file():
        yield entry.refuses("no-accuracy", folder / "accuracy.txt", "No scores.")
        return
    if entry.is_open:
        return
    yield from check_scores(entry, folder / "accuracy.txt")
    yield from check_log_size(entry, folder / ACCURACY_LOG, Weight.REFUSES)
    yield from check_accuracy_log(entry, folder / DETAIL)
    for path in (folder / ACCURACY_LOG, folder / DETAIL):
        if not path.is_file():
            yield entry.refuses("no-log", path, "An accuracy run is looked for in this log.")
    yield from check_hash_value(entry, folder)
    if entry.checker_name == "stable-diffusion-xl":
        yield from check_images(entry, folder / "images")


def check_scores(entry: Entry, path: Path) -> Iterator[Finding]:
    """Read ``accuracy.txt`` as the official checker does: by lines, until all is seen and good.

    A value outside its limits that comes before that makes the result fail, whatever follows.
    """
    good: set[str] = set()
    has_hash = has_stopped = False
    for line in read_text(path).splitlines():
        for metric, (lowest, highest) in entry.model.targets.items():
            if (value := metric_on(line, metric)) is None:
                continue
            if value >= lowest and (highest is None or value <= highest):
                good.add(metric)
            else:
                report = entry.stricter if has_stopped else entry.refuses
                yield report("accuracy", path, f"{metric} {value} is outside [{lowest}, {highest or ''}].")
        has_hash |= tables.HASH_LINE.fullmatch(line) is not None
        has_stopped |= has_hash and good == set(entry.model.targets)
    for metric in sorted(set(entry.model.targets) - good):
        yield entry.refuses("no-accuracy", path, f"No line gives a good {metric}.")
    if not has_hash:
        yield entry.refuses("no-hash", path, "No line hash=<digest of the whole accuracy log>.")


def metric_on(line: str, metric: str) -> float | None:
    """Return the value of a metric that a line of ``accuracy.txt`` gives, None if it gives none."""
    match = tables.METRIC_LINES[metric].match(line)
    try:
        return float(match[1]) if match else None
    except ValueError:  # two points
        return None


def check_accuracy_log(entry: Entry, path: Path) -> Iterator[Finding]:
    """Check the accuracy run's detail log: no error lines; the rules also want its scenario and its seeds."""
    log = DetailLog.read(path)
    if log.errors:
        yield entry.refuses("error-lines", path, f"{log.errors} lines are errors.")
    if log.scenario not in ("", entry.scenario):
        yield entry.stricter("scenario", path, f"The accuracy run is {log.scenario}.")
    if log.values.get("effective_test_mode", "AccuracyOnly") not in tables.ACCURACY_MODES:
        yield entry.stricter("mode", path, f"The mode of the run is {log.values['effective_test_mode']}.")
    for key, seed in tables.SEEDS.items():
        if log.values.get(key, seed) != seed:
            yield entry.stricter("seed", path, f"{key} is {log.values[key]}, not {seed}.")
    if log.values and "power_end" not in log.values:  # LoadGen writes it behind the last part of the test
        yield entry.stricter("no-end", path, "The log has no power_end.")
    replies = (path.parent / ACCURACY_LOG).read_bytes().strip() if (path.parent / ACCURACY_LOG).is_file() else b"[]"
    if not (replies.startswith(b"[") and replies.endswith(b"]")):
        yield entry.stricter("no-end", path.parent / ACCURACY_LOG, "It is no whole list.")


def check_log_size(entry: Entry, path: Path, weight: Weight) -> Iterator[Finding]:
    """Check that an accuracy log was cut to its ends."""
    if path.is_file() and path.stat().st_size > tables.TRUNCATED_LOG_BYTES:
        sentence = f"More than {tables.TRUNCATED_LOG_BYTES} bytes."
        yield Finding.at(entry.root, path, "not-truncated", sentence, weight)


def check_hash_value(entry: Entry, folder: Path) -> Iterator[Finding]:
    """Check the digest itself, which the official checker does not: its form, its value if the log is whole."""
    path, log = folder / "accuracy.txt", folder / ACCURACY_LOG
    matches = [match for line in read_text(path).splitlines() if (match := tables.HASH_LINE.fullmatch(line))]
    digest = matches[0][1] if matches else ""
    if not tables.SHA256.fullmatch(digest):
        yield entry.stricter("hash-form", path, "There is no digest of the 64 hexadecimal digits of SHA-256.")
    elif log.is_file() and tables.TRUNCATION_MARK not in (content := log.read_bytes()):
        if hashlib.sha256(content).hexdigest() != digest.lower():
            yield entry.stricter("hash-value", path, "The digest is not that of the accuracy log, which is whole.")


def check_images(entry: Entry, folder: Path) -> Iterator[Finding]:
    """Check the ten images that must come with an accuracy run of Stable Diffusion XL."""
    present = {name.split(".")[0] for name in files_of(folder)}
    for name in tables.SDXL_IMAGES:
        if name not in present:
            yield entry.refuses("image", folder / f"{name}.png", "This image must be there.")
    if "captions.txt" not in files_of(folder):
        yield entry.stricter("captions", folder / "captions.txt", "The captions of the images are missing.")
