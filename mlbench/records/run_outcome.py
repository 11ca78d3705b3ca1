"""The result of a run's process: the part of the record that only it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import JsonValue, ValidationError

from mlbench.errors import InvalidRunError
from mlbench.records.machine.other_work import OtherWorkRecord
from mlbench.records.machine.processor_time import ProcessorTimeRecord
from mlbench.records.machine.telemetry import TelemetryRecord
from mlbench.records.node_record import ClusterRecord, NetworkRecord
from mlbench.records.run_record import (
    AccuracyRecord,
    LatenessRecord,
    NumberFormatRecord,
    ResultRecord,
    SeedsRecord,
    VerdictRecord,
)
from mlbench.records.stored import Runtime, Statistics, Stored
from mlbench.records.transfers_record import TransfersRecord
from mlbench.records.work_record import EnergyRecord, WorkRecord
from mlbench.system.documents import first_problem

NO_ACCURACY_TEST = "no accuracy test was asked for"
"""Reason why the rule ``accuracy`` was not applied; other reasons come from the run."""

NO_METERING = "not asked for"
"""Reason why ``energy`` was not measured; other reasons come from the run."""


class JudgedPart(Stored):
    """The judgement of a run's logs, which is made in a process without the backend."""

    result: ResultRecord
    accuracy: AccuracyRecord | None
    verdict: VerdictRecord
    loadgen_version: str


class Observed(Stored):
    """Observations of a run's process that are not in logs; fields have the names of `RunRecord`."""

    lateness: LatenessRecord | None = None
    overhead_ns_per_sample: int | None
    other_work: OtherWorkRecord | None = None
    processor_time: ProcessorTimeRecord | None = None
    telemetry: TelemetryRecord | None = None
    energy: EnergyRecord | None
    changes: tuple[str, ...] = ()
    number_format: NumberFormatRecord | None = None
    memory: Literal["host", "device"] = "host"
    transfers: TransfersRecord | None = None
    work: WorkRecord | None
    not_measured: dict[str, str]
    peak_memory_bytes: int | None
    seeds: SeedsRecord
    samples: dict[str, int]
    load: dict[str, JsonValue]
    limits: dict[str, JsonValue]
    engine: Statistics
    runtime: Runtime
    fingerprints: dict[str, str]
    network: NetworkRecord | None = None
    cluster: ClusterRecord | None = None

    @classmethod
    def of_values(cls, values: Mapping[str, object]) -> Self:
        """Return the outcome with these values.

        Raises:
            InvalidRunError: they are invalid; the message names the first wrong field.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            reason = first_problem(error, whole="the outcome")
            raise InvalidRunError(f"the run's outcome cannot be stored: {reason}.") from None


class RunOutcome(Observed, JudgedPart):
    """The result of a run that was measured and judged. The fields are those of `RunRecord`, under the same names."""

    @classmethod
    def of_parts(cls, observed: Observed, judged: JudgedPart) -> Self:
        """Return both as one."""
        return cls.of_values({**dict(observed), **dict(judged)})
