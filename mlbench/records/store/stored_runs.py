"""All runs of a results folder by kind, read in part: files are opened for few, however many runs there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.errors import DataError
from mlbench.records.machine.processor_time import ProcessorTimeRecord
from mlbench.records.run_record import FailureRecord, ResultRecord, RunRecord, VerdictRecord, read
from mlbench.records.store.index import open_index
from mlbench.records.store.reading import no_runs
from mlbench.records.work_record import EnergyRecord

if TYPE_CHECKING:
    import duckdb

MOST_KINDS = 500
"""The newest kinds are read; there are more only where each run has settings of its own."""

MOST_RUNS = 10_000
"""The newest runs of a kind are read."""

_FIELDS = "folder, run_id, created, duration_ns, mlbench_version, tag, repeat, status, failure"

_HAS_SEARCHED = " OR ".join(
    f"coalesce(engine->>'$.{name}', '{{}}') <> '{{}}'" for name in ("sweep_samples_per_s", "sweep_tokens_per_s")
)
"""Whether a run searched for its batch: it says nothing about memory and warm-up, and neither is read of it."""

_NOT_READ: Mapping[str, Any] = {
    name: each.get_default(call_default_factory=True, validated_data={})
    for name, each in RunRecord.model_fields.items()
    if name in ("accuracy", "overhead_ns_per_sample", "work", "roofline", "not_measured")
    or name in ("samples", "limits", "engine", "runtime", "other_work")
}
"""Fields that are empty in partially read records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKind:
    """Runs of the same request under the same conditions."""

    id: str
    newest: RunRecord
    """Its newest run, read whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRuns:
    """The runs of a results folder."""

    count: int
    kinds: Sequence[RunKind]
    """Newest first."""
    left_out: int
    """Runs of older kinds, of which there are too many."""
    _results: Path
    _database: duckdb.DuckDBPyConnection
    _folders: dict[str, str] = field(default_factory=dict)

    def read_in_part(self, kind: RunKind) -> list[RunRecord]:
        """Return the runs of a kind, oldest first, with their results but neither accuracy nor their own software.

        Their conditions are those of the kind. Latencies are read where runs are compared by them.
        """
        has_latencies = kind.newest.scenario_facts.compared_by != "result"
        latencies = "result.latency_ns" if has_latencies else "NULL"
        rows = self._database.execute(
            f'SELECT {_FIELDS}, result."value", result.unit, result.higher_is_better, {latencies}, '
            "verdict.is_valid, verdict.is_accurate, verdict.is_conformant, energy, "
            f"TRY_CAST(load->>'$.target_qps' AS DOUBLE), stages_ns, processor_time, "
            f"peak_memory_bytes, {_HAS_SEARCHED} "
            "FROM stored.records WHERE kind = ? "
            "ORDER BY created DESC, folder DESC LIMIT ?",
            [kind.id, MOST_RUNS],
        ).fetchall()
        found = []
        for folder, *values in reversed(rows):
            record = _in_part(kind.newest, values)
            self._folders[record.run_id] = folder
            found.append(record)
        return found

    def read_whole(self, run: RunRecord) -> RunRecord:
        """Return a run that was read in part as it is stored; as it is where its file cannot be read any more."""
        try:
            return read(self._results / self._folders[run.run_id])
        except DataError:
            return run


@contextmanager
def open_stored_runs(results: Path) -> Iterator[StoredRuns]:
    """Give the runs of a folder; raises as `open_index`."""
    with open_index(results) as database:
        (count,) = database.execute("SELECT count(*) FROM stored.records").fetchall()[0]
        rows = database.execute(
            "SELECT kind, max_by(folder, (created, folder)), count(*) FROM stored.records GROUP BY kind "
            "ORDER BY max(created) DESC, kind LIMIT ?",
            [MOST_KINDS],
        ).fetchall()
        kinds = []
        for kind, folder, _ in rows:
            try:
                kinds.append(RunKind(id=kind, newest=read(results / folder)))
            except DataError:  # removed just now
                continue
        if not kinds:
            raise no_runs(results)
        shown = sum(number for *_, number in rows)
        yield StoredRuns(count=count, kinds=kinds, left_out=count - shown, _results=results, _database=database)


def _in_part(newest: RunRecord, values: Sequence[Any]) -> RunRecord:
    """Return the record of a row, with the conditions of the newest run of its kind."""
    run_id, created, duration_ns, version, tag, repeat, status, failure, *others = values
    value, unit, higher_is_better, latency_ns, is_valid, is_accurate, is_conformant, energy, target_qps, *more = others
    stages_ns, processor_time, peak_bytes, has_searched = more
    result = verdict = None
    if unit is not None:
        result = ResultRecord.model_construct(
            value=value, unit=unit, higher_is_better=higher_is_better, latency_ns=latency_ns or {}, counts={}
        )
    if is_valid is not None:
        verdict = VerdictRecord.model_construct(
            rules=[], not_applied={}, is_valid=is_valid, is_accurate=is_accurate, is_conformant=is_conformant
        )
    return newest.model_copy(
        update={
            **_NOT_READ,
            "run_id": run_id,
            "created": created.replace(tzinfo=UTC),
            "duration_ns": duration_ns,
            "mlbench_version": version,
            "tag": tag,
            "repeat": repeat,
            "status": status,
            "failure": FailureRecord.model_construct(**failure, log_tail="") if failure else None,
            "result": result,
            "verdict": verdict,
            "stages_ns": {
                name: spent_ns for name, spent_ns in (stages_ns or {}).items() if name != "warm-up" or not has_searched
            },
            "peak_memory_bytes": None if has_searched else peak_bytes,
            "processor_time": _processor_time_of(processor_time) if processor_time else None,
            "energy": EnergyRecord.model_construct(**energy) if energy else None,
            "beside": newest.beside and newest.beside.model_copy(update={"runs": [], "strayed": []}),
            "load": {} if target_qps is None else {"target_qps": target_qps},
        }
    )


def _processor_time_of(stored: Mapping[str, Any]) -> ProcessorTimeRecord:
    """Return the part of a record that the index has; of older ones without the kind of the reference work."""
    return ProcessorTimeRecord.model_construct(**{name: part for name, part in stored.items() if part is not None})
