"""The batch size that a sweep chose, kept for the next run under the same conditions.

Two sweeps on one machine do not always choose the same, and then a comparison takes a change of batch for a change of
the code. So a choice that a sweep was sure of stays, as long as nothing that it depends on differs; so does one between
sizes that are nearly as fast, where it matters little which.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from mlbench.contracts.model import BatchProgram, Model
from mlbench.contracts.statistics import EngineStatistics
from mlbench.discovery import Plugins
from mlbench.errors import DataError, MlbenchError, UsageError
from mlbench.measurement.job import Job
from mlbench.records.store.whole_file import write_whole
from mlbench.system.documents import read_json_object
from mlbench.system.folders import cache_folder, make_cache_folder

logger = logging.getLogger(__name__)

_SHELF = "batches"
_KEY = "execution.batch"
_SECOND = "%Y-%m-%dT%H:%M:%SZ"
_MOST = 1 << 20
"""No sweep tries a larger batch: a file that holds one is damaged."""
_NEARLY_AS_FAST = 0.9
"""Two sizes are, if the slower one has this part of the other's rate."""
_OF_ENGINE = ("execution.", "backend.", "workload.")
_OF_NO_SWEEP = ("execution.sweep", "execution.batching", "execution.max_wait_us")
"""A sweep runs full batches, however those of the run are filled; see `_sorts_by_length`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch:
    """Choice of an earlier sweep, if there was one."""

    file: Path | None
    """File of the choice; None: this run has no sweep to reuse."""
    batch: int | None = None
    """None: none is kept."""
    made: str = ""
    """Time of that sweep, in UTC."""

    @classmethod
    def find(cls, job: Job, model: Model, plugins: Plugins) -> Self:
        """Return the kept choice for a job under the current conditions."""
        if job.plan.batch != "auto" or job.plan.batching == "inline" or not job.spec.machine:
            return cls(file=None)
        file = cache_folder() / _SHELF / f"{_key_of(job, model, plugins)}.json"
        if job.plan.sweep == "anew":
            return cls(file=file)
        try:
            kept = read_json_object(file, what="kept batch")
        except (DataError, OSError):
            return cls(file=file)
        match kept:
            case {"batch": int(batch), "made": str(made)} if _is_size(batch) and _is_moment(made):
                return cls(file=file, batch=batch, made=made)
        return cls(file=file)

    def apply(self, job: Job, plugins: Plugins) -> Job:
        """Return the job with the kept batch; the same job where none is."""
        if self.batch is None:
            return job
        logger.info("batch %d, which a sweep of %s chose under the same conditions", self.batch, self.made)
        return Job.of_spec(job.spec.with_setting(_KEY, self.batch), plugins)

    def note(self, statistics: EngineStatistics) -> EngineStatistics:
        """Return an engine's statistics with where its batch comes from; keep what is worth keeping."""
        if self.batch is not None:
            return dataclasses.replace(statistics, sweep_made=self.made)
        if self.file and statistics.batch and _is_worth_keeping(statistics):
            self._store(statistics.batch)
        return statistics

    @contextmanager
    def forget_on_failure(self) -> Iterator[None]:
        """Have the next run sweep again if an engine fails here: perhaps there is less memory now."""
        try:
            yield
        except MlbenchError:
            if self.file:
                with suppress(OSError):
                    self.file.unlink(missing_ok=True)
            raise

    def _store(self, batch: int) -> None:
        assert self.file
        try:
            make_cache_folder(_SHELF)
            write_whole(self.file, json.dumps({"batch": batch, "made": datetime.now(UTC).strftime(_SECOND)}))
        except UsageError as error:  # the next run sweeps again
            logger.warning("the batch cannot be kept: %s", error)


def _is_worth_keeping(statistics: EngineStatistics) -> bool:
    """Return whether most rounds of a sweep chose the batch, or all chose sizes that are nearly as fast."""
    rounds, rates = statistics.sweep_rounds or {}, statistics.sweep_per_s
    if 2 * rounds.get(statistics.batch or 0, 0) > sum(rounds.values()):
        return True
    chosen = [rates[size] for size in rounds if size in rates]
    return len(chosen) == len(rounds) > 0 and min(chosen) >= _NEARLY_AS_FAST * max(chosen)


def _is_size(batch: int) -> bool:
    return type(batch) is int and 1 <= batch <= _MOST  # true is an int


def _is_moment(text: str) -> bool:
    try:
        datetime.strptime(text, _SECOND).replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


def _key_of(job: Job, model: Model, plugins: Plugins) -> str:
    """Return a hash of all that a choice depends on; the code of mlbench is not part of it."""
    spec = job.spec
    settings = {
        key: value for key, value in spec.settings.items() if key.startswith(_OF_ENGINE) and key not in _OF_NO_SWEEP
    }
    conditions = [
        [spec.machine, spec.workload, spec.backend, spec.profile, spec.weights, spec.precision, settings],
        [model.weights_fingerprint, {name: graph.fingerprint for name, graph in model.graphs.items()}],
        dict(plugins.probe(spec.backend).versions),
        _sorts_by_length(job, model),
        job.plan.longest_batch_ms if isinstance(model.program, BatchProgram) else 0.0,  # others do not heed it
    ]
    return hashlib.sha256(json.dumps(conditions, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _sorts_by_length(job: Job, model: Model) -> bool:
    """Return whether batches hold samples of similar length, where samples of other lengths exist."""
    has_lengths = isinstance(model.program, BatchProgram) and type(model.program).length is not BatchProgram.length
    return has_lengths and job.plan.batching == "bucketed"
