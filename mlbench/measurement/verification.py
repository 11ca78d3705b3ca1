"""Checks a stored record against its run folder: each field is rebuilt, or listed with the reason why not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mlbench.discovery import Plugins
from mlbench.loadgen.logs import DETAIL, read_detail
from mlbench.loadgen.network import NETWORK_SUT, name_of_nodes
from mlbench.loadgen.self_consistency import contradictions
from mlbench.loadgen.settings import Mode
from mlbench.measurement.rebuilding import UNLOGGED_RULES, rebuild
from mlbench.records.run_record import RunRecord, keeps_digests
from mlbench.system.documents import inside, is_file, refuse_odd_values

_ONLY_THE_RECORD = "it is nowhere else in the run folder"
_METER = "a meter's readings are not in LoadGen's logs; values that follow from them are checked"
_ENGINE = "the engine reported it during the run; it is not in LoadGen's logs"
_CEILINGS = "the machine's ceilings were measured separately; values that follow from them are checked"
_NOT_LOGGED = "LoadGen does not log it in this scenario"
_SEEN = "it was observed in the engine, not in LoadGen's logs; that the verdict follows from it is checked"
_FAULTS = "LoadGen does not log invalid replies; values that follow from their number are checked"

NOT_CHECKED: Mapping[str, str] = {
    "format": "how the record is written, which every reader checks",
    "mlbench_version": _ONLY_THE_RECORD,
    "transform": f"{_ONLY_THE_RECORD}; that its changes and graphs follow from it is checked",
    "number_format": _ONLY_THE_RECORD,
    "memory": _ONLY_THE_RECORD,
    "tag": _ONLY_THE_RECORD,
    "entry": f"{_ONLY_THE_RECORD}; that the verdict follows from it is checked",
    "audit": _ONLY_THE_RECORD,
    "replay": _ONLY_THE_RECORD,
    "network": f"{_ONLY_THE_RECORD}, but for the names of the nodes, which LoadGen logs",
    "cluster": _ONLY_THE_RECORD,
    "beside": "only the command that made the runs knew it",
    "repeat": _ONLY_THE_RECORD,
    "settings": f"{_ONLY_THE_RECORD}, but for those under load that LoadGen logs",
    "environment": "the machine at the time of the run; it may have changed",
    "peak_memory_bytes": _ONLY_THE_RECORD,
    "stages_ns": _ONLY_THE_RECORD,
    "other_work": "the kernel counted it while the test ran",
    "processor_time": "the kernel counted it after the test",
    "telemetry": "sensors read it while the test ran",
    "lateness": "mlbench counted it while the test ran; LoadGen counts late queries afterwards",
    "accuracy.perplexity": "the run's backend computed it; LoadGen's logs hold answers alone",
    "logs": "older versions, and imports, kept no digests of logs",
    "engine": _ENGINE,
    "runtime": _ENGINE,
    "not_measured": "the reasons are the run's own",
    "transfers.graphs": _ENGINE,
    "work.graphs": _ENGINE,
    "work.useful_share": _ENGINE,
    **{
        f"energy.{name}": _METER
        for name in (
            "joules",
            "seconds",
            "source",
            "covers",
            "leaves_out",
            "parts",
            "readings",
            "idle_w",
            "idle_seconds",
        )
    },
    **{f"roofline.{name}": _CEILINGS for name in ("operations_ceiling_per_s", "bytes_ceiling_per_s", "measured")},
    "load.target_qps": _NOT_LOGGED,
    "load.expected_latency_ns": _NOT_LOGGED,
    **{f"verdict.{part}.{rule}": _SEEN for part in ("rules", "not_applied") for rule in UNLOGGED_RULES},
    "verdict.rules.replies_sound.measured": _FAULTS,
    "verdict.rules.replies_sound.fix": _FAULTS,
}
"""Fields that a run folder holds nowhere but in the record, with the reason.

One that is rebuilt all the same, such as a setting of LoadGen's in the scenario that logs it, is checked.
"""

PARTLY_CHECKED: Mapping[str, str] = {
    "created": "to the second, by the run's id, and not later than LoadGen's clock",
    "duration_ns": "only until the end of LoadGen's last test; later times are not logged",
    "load.target_qps": "six digits, as LoadGen prints them",
}
"""Fields that the folder holds less exactly than the record."""

_EXACT, _SCORED = 1e-9, 1e-6
"""Relative differences of floats. Scores may come from a network that another machine rounds otherwise."""
_SCORES = ("accuracy.", "verdict.rules.accuracy.")
_SHOWN = 120
_NAMED_BY = {"verdict.rules": ("rule",), "accuracy.targets": ("score", "name")}
"""Lists whose entries have a name as key."""
_MISSING = object()
_Entry = TypeVar("_Entry", bound=Any)


@dataclass(slots=True)
class Verification:
    """The result of checking a record against its folder."""

    differences: list[str] = field(default_factory=list)
    """A line for each value that differs in the folder."""
    confirmed: int = 0
    """How many values it confirms."""
    not_checked: dict[str, str] = field(default_factory=dict)
    """Fields that it does not hold, and why."""
    checked_in_part: dict[str, str] = field(default_factory=dict)
    """Fields that it holds less exactly, and how far they were checked."""


def verify(record: RunRecord, folder: Path, plugins: Plugins) -> Verification:
    """Check every field of a completed run's record against its logs and its id.

    Args:
        record: as stored.
        folder: the run folder.
        plugins: must hold the workload, whose metric scores the accuracy log once more.

    Raises:
        DataError: a log is missing, cut short, corrupt or of another scenario, the workload's data is, or a value of
            the record or of a log is of a type that cannot be compared with the other's.
    """
    outcome = Verification()
    if not record.logs and keeps_digests(record):
        outcome.differences.append("logs: the record has no digests of the logs, and its version of mlbench keeps them")
    with inside(folder), refuse_odd_values(f"record and logs of {folder.name}"):
        found = rebuild(record, folder, plugins)
        values = found.model_dump(mode="json", exclude_unset=True, warnings=False)
        _compare(record.model_dump(mode="json"), values, "", outcome)
        if record.accuracy and found.accuracy:
            set_aside(outcome, record.accuracy.computed_with, found.accuracy.computed_with)
    if missing := _list_unaccounted(record):
        outcome.differences.append(f"not_measured: the record has no {', '.join(missing)}, and does not say why")
    outcome.differences += _wrong_names(record, folder)
    outcome.differences += contradictions(folder)
    return outcome


def set_aside(outcome: Verification, said: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Take differences of scores that were computed with other tools than are here for scores that are not checked."""
    for score, used in said.items():
        here = found.get(score, "nothing like it")
        places = (
            f"accuracy.scores.{score}:",
            f"accuracy.targets.{score}@",
            "accuracy.line:",
            f"accuracy.computed_with.{score}:",
        )
        differing = [
            each for each in outcome.differences if each.startswith((*places, f"verdict.rules.accuracy.{score}"))
        ]
        if here != used and differing:
            outcome.differences = [each for each in outcome.differences if each not in differing]
            outcome.not_checked[f"accuracy.scores.{score}"] = (
                f"not comparable: computed with {_format_value(used)}, and here is {_format_value(here)}"
            )


def _wrong_names(record: RunRecord, folder: Path) -> Iterator[str]:
    """Yield for each test whose log names other nodes than the record that it does."""
    said = name_of_nodes([each.node.name for each in record.network.nodes]) if record.network else ""
    for mode in (Mode.PERFORMANCE, Mode.ACCURACY):
        log = folder / mode / DETAIL
        logged = str(read_detail(log).values.get("sut_name")) if is_file(log) else said
        if logged != said and (said or NETWORK_SUT in logged):
            names = f"nodes {said.removeprefix(NETWORK_SUT).lstrip(': ')}" if said else "no nodes"
            yield f"network: the record says {names}, the log of the {mode} test {_format_value(logged)}"


def _list_unaccounted(record: RunRecord) -> list[str]:
    sections = {"energy": record.energy, "work": record.work, "roofline": record.roofline}
    return [name for name, section in sections.items() if section is None and name not in record.not_measured]


def _compare(said: Any, found: Any, path: str, outcome: Verification) -> None:
    """Compare a value of the record, or all values in it, with what was rebuilt."""
    if found is _MISSING and path in NOT_CHECKED:
        if said not in ({}, []):
            outcome.not_checked[path] = NOT_CHECKED[path]
    elif found is _MISSING:
        outcome.differences.append(f"{path}: the record says {_format_value(said)}, the run folder nothing")
    elif said is _MISSING:
        outcome.differences.append(f"{path}: the record says nothing, the run folder {_format_value(found)}")
    elif isinstance(said, Mapping) and isinstance(found, Mapping):
        for name in dict.fromkeys((*said, *found)):
            inner = f"{path}.{name}" if path else str(name)
            _compare(said.get(name, _MISSING), found.get(name, _MISSING), inner, outcome)
    elif isinstance(said, list) and isinstance(found, list):
        _compare(_by_name(said, path), _by_name(found, path), path, outcome)
    elif _is_same(said, found, _SCORED if path.startswith(_SCORES) else _EXACT):
        outcome.confirmed += 1
        if path in PARTLY_CHECKED:
            outcome.checked_in_part[path] = PARTLY_CHECKED[path]
    else:
        outcome.differences.append(
            f"{path}: the record says {_format_value(said)}, the run folder {_format_value(found)}"
        )


def _by_name(entries: list[_Entry], path: str) -> dict[str, _Entry]:
    """Return a list's entries by key: their names, otherwise their positions."""
    keys = _NAMED_BY.get(path, ())
    named = {"@".join(filter(None, (str(each[key]) for key in keys))): each for each in entries if keys}
    return named if len(named) == len(entries) else {str(position): each for position, each in enumerate(entries)}


def _is_same(said: Any, found: Any, tolerance: float) -> bool:
    numbers = [each for each in (said, found) if isinstance(each, float | int) and not isinstance(each, bool)]
    if len(numbers) == 2 and float in map(type, numbers):  # JSON's 300 and 300.0 are one number
        return math.isclose(said, found, rel_tol=tolerance)
    return type(said) is type(found) and bool(said == found)


def _format_value(value: Any) -> str:
    """Return a value on one line, cut where it is long."""
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
