"""What the runs of one result must have left behind: performance, accuracy, compliance tests, power.

A part of the independent checker of submission trees. Each check yields its findings; none of them stops the next.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import checker_tables as tables
from checker_tables import MULTI, OFFLINE, SERVER, SINGLE, Model


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
    detail = folder / "mlperf_log_detail.txt"
    if detail.is_file():
        log = DetailLog.read(detail)
        yield from check_settings(entry, detail, log)
        yield from check_measured(entry, detail, log)
        yield from check_stricter(entry, detail, log)


def check_settings(entry: Entry, path: Path, log: DetailLog) -> Iterator[Finding]:
    """Check what the run was asked for: scenario, seeds, counts, duration, latency limit, name of the system."""
    is_inferred = (log.scenario, entry.scenario) in tables.INFERRED_SCENARIOS and "edge" in entry.category
    if log.scenario != entry.scenario and not is_inferred:
        yield entry.refuses("scenario", path, f"The run is {log.scenario or 'of no scenario'}.")
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
    wanted = [tables.RESULT_KEYS.get(log.scenario), dict(entry.model.workload.result_keys).get(log.scenario)]
    wanted += tables.MULTI_LATENCY_KEYS if log.scenario == MULTI else tables.LATENCY_KEYS
    for key in wanted:
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
    if log.scenario == SERVER:
        for key, limit_ms in (
            ("result_first_token_99.00_percentile_latency_ns", tables.TTFT_LIMIT_MS),
            ("result_time_per_output_token_99.00_percentile_ns", tables.TPOT_LIMIT_MS),
        ):
            if (found := log.number(key)) is None or found >= limit_ms * 10**6:
                yield entry.refuses("token-latency", path, f"{key} is {found}, not below {limit_ms} ms.")


def check_stricter(entry: Entry, path: Path, log: DetailLog) -> Iterator[Finding]:
    """Say what the rules refuse and the official checker overlooks in a performance log."""
    if entry.model.workload.has_token_limits and log.values.get("result_validity") != "VALID":
        yield entry.stricter("invalid", path, "LoadGen does not say that the run is VALID.")
    for key in ("early_stopping_met", "result_min_duration_met", "result_min_queries_met"):
        if log.values.get(key) is False:
            yield entry.stricter("not-met", path, f"{key} is false.")
    fewest, issued = tables.EARLY_STOPPING_QUERIES.get(log.scenario), log.number("result_query_count")
    if fewest is not None and issued is not None and issued < fewest:
        yield entry.stricter("few-queries", path, f"{issued} queries; early stopping needs {fewest}.")


# --- Accuracy ---------------------------------------------------------------------------------------------------------


def check_accuracy_folder(entry: Entry) -> Iterator[Finding]:
    """Check the accuracy run: its files in every division, what they say outside the open one."""
    folder = entry.folder("results") / "accuracy"
    yield from check_files(entry, folder, tables.ACCURACY_FILES, tables.ACCURACY_EXTRAS)
    if entry.is_open or not (folder / "accuracy.txt").is_file():
        return
    yield from check_scores(entry, folder / "accuracy.txt")
    log, detail = folder / "mlperf_log_accuracy.json", folder / "mlperf_log_detail.txt"
    if log.is_file() and log.stat().st_size > tables.TRUNCATED_LOG_BYTES:
        yield entry.refuses("not-truncated", log, f"More than {tables.TRUNCATED_LOG_BYTES} bytes.")
    if detail.is_file():
        yield from check_accuracy_log(entry, detail)
    yield from check_hash_value(entry, folder)
    if entry.checker_name == "stable-diffusion-xl":
        yield from check_images(entry, folder / "images")


def check_scores(entry: Entry, path: Path) -> Iterator[Finding]:
    """Read ``accuracy.txt`` as the official checker does: by lines, until all is seen and good.

    A value outside its limits that comes before that makes the result fail, whatever follows.
    """
    good: set[str] = set()
    has_hash = False
    for line in read_text(path).splitlines():
        has_hash |= tables.HASH_LINE.fullmatch(line) is not None
        for metric, (lowest, highest) in entry.model.targets.items():
            if (value := metric_on(line, metric)) is None:
                continue
            if value >= lowest and (highest is None or value <= highest):
                good.add(metric)
            else:
                yield entry.refuses("accuracy", path, f"{metric} {value} is outside [{lowest}, {highest or ''}].")
        if has_hash and good == set(entry.model.targets):
            return
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
    if log.scenario not in ("", entry.scenario) and entry.category == "datacenter":
        yield entry.stricter("scenario", path, f"The accuracy run is {log.scenario}.")
    for key, seed in tables.SEEDS.items():
        if log.values.get(key, seed) != seed:
            yield entry.stricter("seed", path, f"{key} is {log.values[key]}, not {seed}.")


def check_hash_value(entry: Entry, folder: Path) -> Iterator[Finding]:
    """Check the digest itself, which the official checker does not: its form, its value if the log is whole."""
    path, log = folder / "accuracy.txt", folder / "mlperf_log_accuracy.json"
    matches = [match for line in read_text(path).splitlines() if (match := tables.HASH_LINE.fullmatch(line))]
    if not matches:
        return
    digest = matches[-1][1]
    if not tables.SHA256.fullmatch(digest):
        yield entry.stricter("hash-form", path, "The digest is not the 64 hexadecimal digits of SHA-256.")
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


# --- Compliance tests -------------------------------------------------------------------------------------------------


def check_compliance_folder(entry: Entry) -> Iterator[Finding]:
    """Check the compliance tests that the model must have passed."""
    for test in entry.model.workload.tests:
        folder = entry.folder("compliance") / test
        if not folder.is_dir():
            yield entry.refuses("no-test", folder, f"{test} must have been run.")
        elif test == "TEST06":
            yield from check_token_test(entry, folder / "verify_accuracy.txt")
        else:
            if "TEST PASS" not in read_text(folder / "verify_performance.txt"):
                yield entry.refuses("test-failed", folder / "verify_performance.txt", 'No "TEST PASS".')
            yield from check_performance_folder(entry, folder / "performance" / "run_1")
            yield from check_claim(entry, folder, test)
            if test == "TEST01":
                yield from check_test01(entry, folder)


def check_token_test(entry: Entry, path: Path) -> Iterator[Finding]:
    """Check TEST06: its three lines."""
    lines = [line.strip() for line in read_text(path).splitlines()]
    for wanted in tables.TEST06_LINES:
        if not any(text in lines for text in wanted):
            yield entry.refuses("test-failed", path, f'No line "{wanted[0]}".')


def check_test01(entry: Entry, folder: Path) -> Iterator[Finding]:
    """Check TEST01's accuracy: the same outputs bit by bit, or scores of the same samples that differ little."""
    accuracy = folder / "accuracy"
    scores = [accuracy / "baseline_accuracy.txt", accuracy / "compliance_accuracy.txt"]
    is_exact = "TEST PASS" in read_text(folder / "verify_accuracy.txt")
    required = [folder / "verify_accuracy.txt", accuracy / "mlperf_log_accuracy.json", accuracy / "accuracy.txt"]
    for path in required if is_exact else required + scores:
        if not path.is_file():
            yield entry.refuses("file-missing", path, "This file must be there.")
    if not any(tables.HASH_LINE.fullmatch(line) for line in read_text(accuracy / "accuracy.txt").splitlines()):
        yield entry.stricter("no-hash", accuracy / "accuracy.txt", "No line hash=<digest of the whole accuracy log>.")
    if is_exact or not all(path.is_file() for path in scores):
        return
    for metric in entry.model.targets:
        baseline, compliance = (score_of(path, metric) for path in scores)
        tolerance = {"FID_SCORE": 2.0}.get(metric, 0.1 if entry.checker_name.endswith("-99.9") else 1.0)
        if not baseline or not compliance:
            yield entry.refuses("no-accuracy", accuracy, f"{metric} is missing in one of the two scores.")
        elif abs(1 - baseline / compliance) * 100 > tolerance:
            yield entry.refuses("test-failed", accuracy, f"{metric} differs by more than {tolerance} %.")


def score_of(path: Path, metric: str) -> float | None:
    """Return the first value of a metric in a file."""
    return next((value for line in read_text(path).splitlines() if (value := metric_on(line, metric))), None)


def check_claim(entry: Entry, folder: Path, test: str) -> Iterator[Finding]:
    """Hold "TEST PASS" against the two logs, which the official checker does not."""
    detail = Path("performance", "run_1", "mlperf_log_detail.txt")
    plain, tested = DetailLog.read(entry.folder("results") / detail), DetailLog.read(folder / detail)
    key = tables.RESULT_KEYS.get(plain.scenario, "")
    before, after = plain.number(key), tested.number(key)
    if plain.scenario != tested.scenario or not before or not after:
        return
    is_stream = plain.scenario in (SINGLE, MULTI)
    if is_stream and test == "TEST04":  # compares rates, for streams even with the threshold meant for latencies
        before, after = 1e9 / before, 1e9 / after
    is_relaxed = before <= {SINGLE: 200_000, MULTI: 1_600_000}.get(plain.scenario, 0)
    if not is_within(test, after / before, is_stream, is_relaxed):
        sentence = f"The run with the test gave {after / before:.3f} of the result."
        yield entry.stricter("test-claim", folder / "verify_performance.txt", sentence)


def is_within(test: str, ratio: float, is_stream: bool, is_relaxed: bool) -> bool:
    """Return whether a test's result is near enough to the plain one, by each test's own rule."""
    if test == "TEST01":  # equal within 10 % on both sides
        return abs(ratio - 1) < (0.2 if is_relaxed else 0.1)
    if test == "TEST04":  # repeating one sample must not make it faster
        return ratio < (1.2 if is_relaxed else 1.1)
    margin = 0.2 if is_relaxed else 0.05  # TEST05: other seeds must not make it slower
    return ratio < 1 + margin if is_stream else ratio > 1 - margin


# --- Power ------------------------------------------------------------------------------------------------------------


def has_power(entry: Entry) -> bool:
    """Return whether the result comes with power."""
    return (entry.folder("results") / "performance" / "power").is_dir()


def check_power(entry: Entry) -> Iterator[Finding]:
    """Check the files of a measurement of power; what MLCommons' own power script finds in them is not repeated."""
    performance, measurements = entry.folder("results") / "performance", entry.folder("measurements")
    yield from check_files(entry, performance / "power", tables.POWER_FILES)
    yield from check_files(entry, performance / "ranging", tables.LOGS | {tables.POWER_LOG}, tables.PERFORMANCE_EXTRAS)
    for name in tables.POWER_SETTINGS:
        folders = [measurements, *measurements.parents[:3]]
        if not any(file.startswith(f"{name}.") for folder in folders for file in files_of(folder)):
            yield entry.refuses("file-missing", measurements / name, "No such file here or up to three levels above.")
