"""LoadGen's log files, read: the detail log of a test and the replies it kept. This module needs no LoadGen.

Format of the detail log: a record is one line, the marker ``:::MLLOG``, a space and a JSON object; other lines mean
nothing; of a key that repeats the first value counts.

Source: LoadGen's logging.cc; the log parser of the submission checker v4.1.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO, overload

from mlbench.contracts.metric import LoggedReply
from mlbench.contracts.scenario import Scenario
from mlbench.errors import DataError
from mlbench.loadgen.damaged_line import describe_line
from mlbench.system.documents import open_regular, parse_json, refusal

MARKER = ":::MLLOG"

DETAIL = "mlperf_log_detail.txt"
"""LoadGen's name for the log of a test."""

_LATENCY = re.compile(r"result_(?:(.+)_ns|(time_to_output_token_(?:min|max|mean)))")
"""Percentiles, least, greatest and mean of all that LoadGen times; all are nanoseconds, three without saying so."""

_NUMBER = "(0|[1-9][0-9]{0,17})"
_REPLY = re.compile(
    f'{{ "seq_id" : {_NUMBER}, "qsl_idx" : {_NUMBER}, "data" : "([0-9A-F]*)"'
    f'(?:, "token_data" : "([0-9A-F]*)")?(?:, "token_count" : {_NUMBER})? }},?'
)
"""A reply as LoadGen writes it, to the space: JSON's reader takes three times as long, and logs may have 400,000."""

_AGAIN, _FULL = "Run it again.", "Run it again; is the disk full?"
_MEND = "Correct the line, or run it again."

_NAN = re.compile(r'("value":\s*)[-+]?nan\b')
"""C++'s spelling of what JSON does not have and Python spells NaN."""

_COUNTS = {
    "result_query_count": "queries",
    "result_overlatency_query_count": "late_queries",
    "generated_query_count": "generated_queries",
    "generated_samples_per_query": "samples_per_query",
    "effective_performance_sample_count": "loaded_samples",
    "num_errors": "errors",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailLog:
    """The detail log of a test."""

    values: Mapping[str, Any]
    """The first value of each key."""
    errors: tuple[str, ...]
    """Messages of the error lines."""
    warnings: tuple[str, ...]
    not_numbers: Mapping[str, float] = field(default_factory=dict)
    """Results for which LoadGen gave NaN or an infinity; they have no value."""

    def number(self, key: str) -> float | None:
        """Return a value that is a number; None where it is not there, or something else."""
        found = self.values.get(key)
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadgenResult:
    """The results of a performance run."""

    value: float | None
    """None where LoadGen gives none: a stream with too few queries for an estimate."""
    unit: str
    higher_is_better: bool
    latency_ns: Mapping[str, int]
    """By LoadGen's key without ``result_`` and ``_ns``: ``99.00_percentile_latency``, ``first_token_mean_latency``."""
    counts: Mapping[str, int]


def read_detail(path: Path) -> DetailLog:
    """Read a detail log.

    Raises:
        DataError: the file is missing or cut short, or a record is not JSON; the message names the line.
    """
    detail = _collect(_read_records(path))
    if last := missing_end(detail):
        raise refusal(path, f"truncated LoadGen log: {path} has no {last}.", hint=_FULL)
    return detail


def read_damaged_detail(path: Path) -> DetailLog:
    """Read a detail log as far as possible: the reason it ends early is one of its errors.

    Raises:
        DataError: the file is missing.
    """
    damage: list[str] = []

    def until_damage() -> Iterator[_Record]:
        with _open_log(path):  # a missing file is not a damaged one
            pass
        try:
            yield from _read_records(path)
        except DataError as error:
            damage.append(error.message)

    detail = _collect(until_damage())
    return replace(detail, errors=(*detail.errors, *damage))


def read_pairs(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield key and value of each record of a detail log, from the first to where it ends or is damaged.

    Raises:
        DataError: the file is missing.
    """
    with _open_log(path):  # a missing file is not a damaged one
        pass
    try:
        yield from ((record.key, record.value) for record in _read_records(path))
    except DataError:
        return


class _Record(NamedTuple):
    """A line of the detail log."""

    key: str
    value: Any
    is_error: bool
    is_warning: bool


def _read_records(path: Path) -> Iterator[_Record]:
    """Yield each line that is marked as a record."""
    with _open_log(path) as file:
        for number, line in enumerate(file, 1):
            if line.startswith(MARKER):
                yield _record(line, path, number)


def _collect(records: Iterator[_Record]) -> DetailLog:
    values: dict[str, Any] = {}
    not_numbers: dict[str, float] = {}
    errors, warnings = [], []
    for record in records:
        if isinstance(record.value, float) and not math.isfinite(record.value):
            not_numbers.setdefault(record.key, record.value)
        elif record.key not in not_numbers:
            values.setdefault(record.key, record.value)
        if record.is_error:
            errors.append(str(record.value))
        elif record.is_warning:
            warnings.append(str(record.value))
    return DetailLog(values=values, errors=tuple(errors), warnings=tuple(warnings), not_numbers=not_numbers)


def result_of(detail: DetailLog, scenario: Scenario, *, token_key: str | None = None) -> LoadgenResult:
    """Return the result of a performance run.

    Args:
        detail: its detail log.
        scenario: says which key is the result, and its unit.
        token_key: the key of the token rate that is the result instead of a rate of samples, where the rules say so.

    Raises:
        DataError: the log does not hold the key.
    """
    key, unit = scenario.result_key, scenario.result_unit
    if token_key and unit == "samples/s":
        key, unit = token_key, "tokens/s"
    try:
        value = float(detail.values[key])
    except KeyError:
        if key in detail.not_numbers:
            raise DataError(f"LoadGen gave no number for {key}: {detail.not_numbers[key]}.", hint=_AGAIN) from None
        raise DataError(f"truncated LoadGen log: the detail log has no {key}.", hint=_FULL) from None
    return LoadgenResult(
        value=value if value > 0 or scenario.higher_is_better else None,
        unit=unit,
        higher_is_better=scenario.higher_is_better,
        latency_ns=_latencies(detail),
        counts=_counted(detail),
    )


def _counted(detail: DetailLog) -> dict[str, int]:
    counts = {name: int(detail.values[key]) for key, name in _COUNTS.items() if key in detail.values}
    if not detail.values.get("effective_target_latency_ns"):  # where tokens have limits, LoadGen calls all queries late
        counts.pop("late_queries", None)
    return counts


def samples_per_s(detail: DetailLog, scenario: Scenario) -> float | None:
    """Return how many samples a performance run completed per second; None where its log does not say.

    The streams have one query at a time, so the mean time of a query gives their rate.
    """
    pattern = scenario.pattern
    found = float(detail.values.get(pattern.rate_key or pattern.query_time_key, 0))
    if found <= 0:
        return None
    return found if pattern.rate_key else 1e9 * detail.values["generated_samples_per_query"] / found


def tokens_of(detail: DetailLog, scenario: Scenario, token_key: str | None) -> float | None:
    """Return how many tokens the answers of a performance run had; None where its log gives no rate of tokens.

    In Server LoadGen divides the samples but for one, and the measured tokens of all of them, by the time from the
    first sample to the last; inferred tokens are a fixed number for each sample that it counts.

    Args:
        detail: its detail log.
        scenario: of the run.
        token_key: the key of the rate of tokens.

    Source: LoadGen's results.cc.
    """
    rate_per_s = samples_per_s(detail, scenario)
    if token_key is None or token_key not in detail.values or not rate_per_s:
        return None
    samples = float(detail.values["result_query_count"]) * float(detail.values["generated_samples_per_query"])
    counted = samples - 1 if scenario.sends_rate and "inferred" not in token_key else samples
    return float(counted * float(detail.values[token_key]) / rate_per_s)


def read_accuracy(path: Path) -> list[LoggedReply]:
    """Read the replies of an accuracy log, in the order they were completed.

    Raises:
        DataError: the file is missing, cut short, or in the short form of a submission, or an entry is malformed.
    """
    return [reply for _, reply in _locate_replies(path)]


class AccuracyLog(Sequence[LoggedReply]):
    """The replies of an accuracy log, as `read_accuracy` returns them, but read from the file when asked for.

    So a log that is larger than memory can be scored, reply by reply.
    """

    def __init__(self, path: Path) -> None:
        """Scan the log once.

        Raises:
            DataError: as `read_accuracy`.
        """
        self._path = path
        self._begins = [begin for begin, _ in _locate_replies(path)]

    def __len__(self) -> int:
        return len(self._begins)

    def __iter__(self) -> Iterator[LoggedReply]:
        return (reply for _, reply in _locate_replies(self._path))

    @overload
    def __getitem__(self, place: int) -> LoggedReply: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[LoggedReply]: ...

    def __getitem__(self, place: int | slice) -> LoggedReply | Sequence[LoggedReply]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        with _open_log(self._path) as file:
            file.buffer.seek(self._begins[place])
            reply = _reply(_entry(file.buffer.readline()))
        if reply is None:
            raise DataError(f"LoadGen log was changed while it was read: {self._path}.", hint=_AGAIN)
        return reply


def _locate_replies(path: Path) -> Iterator[tuple[int, LoggedReply]]:
    """Yield the replies of an accuracy log one at a time, each with the byte where its line begins."""
    with _open_log(path) as file:
        lines = file.buffer  # text mode has no byte positions
        begin = len(first := lines.readline())
        if first.strip() != b"[":
            raise refusal(path, f"truncated LoadGen log: {path} does not begin with '['.", hint=_AGAIN)
        for number, line in enumerate(lines, 2):
            entry = _entry(line)
            if entry == "]":
                return
            if (reply := _reply(entry)) is None:
                following = [_entry(each) for each in islice(lines, 3)]
                raise _damage([entry, *following], path, number)
            yield begin, reply
            begin += len(line)
    raise DataError(f"truncated LoadGen log: {path} ends without ']'.", hint=_FULL)


def _entry(line: bytes) -> str:
    """Return the content of a line, which may end with a carriage return before the line feed."""
    return line.decode(errors="replace").strip()


def _open_log(path: Path) -> TextIO:
    try:
        return io.TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"LoadGen log cannot be read: {path}: {error.strerror}.", hint=_AGAIN) from None


def _record(line: str, path: Path, number: int) -> _Record:
    """Take a line apart."""
    try:
        record = parse_json(_NAN.sub(r"\1NaN", line[len(MARKER) :]), allows_nan=True)
        key, value, metadata = record["key"], record["value"], record.get("metadata", {})
        if not isinstance(key, str) or not isinstance(metadata, dict):
            raise ValueError("its key or metadata is of another kind")
        if isinstance(value, float) and not math.isfinite(value) and not key.startswith("result_"):
            raise ValueError(f"LoadGen gave no number for {key}")
        return _Record(key, value, bool(metadata.get("is_error")), bool(metadata.get("is_warning")))
    except Exception as error:  # as behind every door; its context manager would double the time of a line
        reason = describe_line(line, MARKER, error)
        raise DataError(f"corrupt LoadGen log: line {number} of {path} is invalid: {reason}.", hint=_MEND) from None


def missing_end(detail: DetailLog) -> str:
    """Return the key with which a log must end and does not; empty if it does.

    A test that counts ends with its verdict, one that only collects replies with the end of its last part.
    """
    last = "power_end" if detail.values.get("effective_test_mode") == "AccuracyOnly" else "result_validity"
    return "" if last in detail.values else last


def _latencies(detail: DetailLog) -> dict[str, int]:
    matches = ((_LATENCY.fullmatch(key), value) for key, value in detail.values.items())
    return {match[1] or match[2]: int(value) for match, value in matches if match}


def _reply(entry: str) -> LoggedReply | None:
    """Return the reply of a line; None where it is not one."""
    if written := _REPLY.fullmatch(entry):
        _, index, data, token_data, token_count = written.groups()
        return _decode(int(index), data, token_data, None if token_count is None else int(token_count))
    try:
        fields = parse_json(entry.removesuffix(","))
        index, token_data, token_count = fields["qsl_idx"], fields.get("token_data"), fields.get("token_count")
        if type(index) is not int or type(token_count) not in (int, type(None)):
            return None
        return _decode(index, fields["data"], token_data, token_count)
    except Exception:  # as behind every door: whatever it raises, it is no reply
        return None


def _decode(index: int, data: str, token_data: str | None, token_count: int | None) -> LoggedReply | None:
    try:
        return LoggedReply(
            index=index,
            data=bytes.fromhex(data),
            token_data=None if token_data is None else bytes.fromhex(token_data),
            token_count=token_count,
        )
    except ValueError:
        return None


def _damage(lines: Sequence[str], path: Path, number: int) -> DataError:
    """Distinguish a log shortened on purpose, with an ellipsis in the middle, from a truncated one."""
    if "..." in map(str.strip, lines):
        return DataError(
            f"{path} is an accuracy log as shortened for a submission: the middle is gone from line {number}.",
            hint="Use the full log, which the run folder keeps.",
        )
    return DataError(
        f"truncated LoadGen log: line {number} of {path} is incomplete: {lines[0][:60]!r}.",
        hint=_FULL,
    )
