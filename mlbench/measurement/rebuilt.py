"""A record read back from its run folder: the fields of `RunRecord`, unset where the folder has no value."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from mlbench.records.run_record import AccuracyRecord, ResultRecord, RuleRecord, VerdictRecord
from mlbench.records.scenario_record import ScenarioRecord
from mlbench.rules.tiers import RunLimits


class _RebuiltPart(BaseModel):
    """Frozen; values from a log may be of any kind, as they are to be compared with the record's."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RebuiltRule(RuleRecord):
    """A rule, applied once more, of which only the record knows what was measured and what to do about it."""

    measured: bool | int | float | str | None = None
    """Not set."""
    fix: str = ""
    """Not set."""


class RebuiltSeeds(_RebuiltPart):
    """LoadGen's seeds; null where its log does not have one."""

    qsl: JsonValue
    sample_index: JsonValue
    schedule: JsonValue


class RebuiltSamples(_RebuiltPart):
    """Sizes, in samples."""

    dataset: int
    issued: int
    """Sent by the performance run."""


class RebuiltEnergy(_RebuiltPart):
    """What follows from the joules that only the record has."""

    joules_per_sample: float | None
    joules_per_token: float | None


class RebuiltTransfers(_RebuiltPart):
    """What follows from the bytes of the graph calls, which only the record has."""

    calls_per_sample: float
    bytes_per_sample: float | None


class RebuiltWork(_RebuiltPart):
    """What follows from the operations and bytes of the graph calls, which only the record has."""

    operations_per_sample: float
    bytes_per_sample: float
    samples_per_s: float | None


class RebuiltRoofline(_RebuiltPart):
    """What follows from the machine's ceilings, which only the record has."""

    device: str | None
    precision: str
    operations_per_s: float
    bytes_per_s: float
    bound: Literal["compute", "memory"]
    share: float


class Rebuilt(_RebuiltPart):
    """The fields of a completed run's record that follow from LoadGen's logs, the folder's name and the record itself.

    The six names from ``workload`` to ``precision`` are not set if neither the folder's name nor the record's id is one
    that mlbench makes.
    """

    run_id: str
    workload: str | None = None
    backend: str | None = None
    scenario: str | None = None
    profile: str | None = None
    tier: str | None = None
    precision: str | None = None
    round: str
    """By the seeds in the log, where these are a round's."""
    scenario_facts: ScenarioRecord
    created: datetime | str
    """The record's, or another moment, or the bound that the record's does not keep, in words."""
    duration_ns: int | str | None
    """The record's, or the bound that it does not keep, in words."""
    imported: None = None
    status: Literal["completed"]
    failure: None = None
    result: ResultRecord
    accuracy: AccuracyRecord | None
    verdict: VerdictRecord
    """Its rule about invalid replies is a `RebuiltRule`."""
    loadgen_version: JsonValue
    limits: RunLimits
    overhead_ns_per_sample: int | None
    seeds: RebuiltSeeds
    samples: RebuiltSamples
    load: dict[str, bool | int | float | str | None]
    """Values of `LoadSettings` by name, those that are logged or set."""
    weights: str
    changes: tuple[str, ...]
    fingerprints: dict[str, str]
    logs: JsonValue = None
    """Digests by path; not set where the record has none."""
    energy: RebuiltEnergy | None
    transfers: RebuiltTransfers | None
    work: RebuiltWork | None
    roofline: RebuiltRoofline | None
