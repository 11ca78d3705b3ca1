"""The record of a run, as it is stored: ``record.json`` of a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, JsonValue, ValidationError, model_validator

from mlbench.contracts.rules import CHECKED, DEFAULT_ROUND
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.statistics import EngineStatistics
from mlbench.errors import DataError, first_line
from mlbench.records.beside import BesideRecord
from mlbench.records.environment import Environment
from mlbench.records.import_record import ImportRecord
from mlbench.records.machine.other_work import OtherWorkRecord
from mlbench.records.machine.processor_time import ProcessorTimeRecord
from mlbench.records.machine.telemetry import TelemetryRecord
from mlbench.records.node_record import ClusterRecord, NetworkRecord, ReachedNodeRecord
from mlbench.records.origin_record import AuditRecord, EntryRecord, ReplayRecord
from mlbench.records.scenario_record import ScenarioRecord, facts_of_older
from mlbench.records.score_names import rename_scores
from mlbench.records.store.run_names import RECORD_FILE
from mlbench.records.stored import Count, FolderName, Runtime, Score, Statistics, Stored
from mlbench.records.transfers_record import TransfersRecord
from mlbench.records.work_record import EnergyRecord, RooflineRecord, WorkRecord
from mlbench.system.documents import first_problem, parse_json, read_text

_MOST_BYTES = 64 << 20
"""Largest size of a record; a larger file is not a record."""

FORMAT = 4

RoundName = Annotated[str, Field(pattern=r"^v\d{1,4}\.\d{1,4}$")]

PERPLEXITY = "perplexity"
"""Name of the score that is measured beside those of the official metric."""

EXPORT = "export"
"""The stage of a run in which graphs that the cache lacks are exported, those of later runs as well."""


class ResultRecord(Stored):
    """LoadGen's results."""

    value: float | None
    """The scenario's result; null where LoadGen gives none (too few queries for an estimate)."""
    unit: str
    """``ns``, ``samples/s`` or ``tokens/s``."""
    higher_is_better: bool
    latency_ns: dict[str, Count]
    """Percentiles, minimum, maximum and mean: ``99.00_percentile_latency``, ``first_token_mean_latency``."""
    counts: dict[str, Count]
    """``queries``, ``late_queries``, ``samples_per_query``, ..."""

    def percentile_ns(self, percentile: float) -> int | None:
        """Return a percentile of the latency: of queries where LoadGen timed these, else of samples; None: neither."""
        name = f"{100 * percentile:.2f}_percentile"
        return self.latency_ns.get(f"{name}_per_query_latency") or self.latency_ns.get(f"{name}_latency")


class TargetRecord(Stored):
    """A target, and the score that was reached."""

    score: str
    """The score's name."""
    name: str
    """The variant that demands it: ``99``."""
    reference: float
    lower: float | None
    """Null where only ``upper`` is a bound."""
    upper: float | None
    required: bool
    """False: only reported."""
    value: Score
    """The score of the run; null when it is missing or not a number."""
    is_met: bool
    lower_is_better: bool = False
    """Also false where unknown."""


class OutputDifferenceRecord(Stored):
    """Mean difference of outputs from the fp32 model's; for labels and tokens the share that differs."""

    value: Score
    """Null where it is not a number."""
    bound: float | None
    """Bound for the run's precision; null where none was measured."""
    unit: str
    """Unit of the difference: ``in logits``, ``of the tokens``."""
    samples: int
    """Number of samples compared."""
    is_met: bool
    """False: further than the bound."""
    bounds: dict[str, float]
    """The bound of each precision."""


class AccuracyRecord(Stored):
    """Accuracy of the accuracy run."""

    scores: dict[str, Score]
    targets: list[TargetRecord]
    line: str
    """The last line the official script prints for these scores."""
    is_met: bool
    """Whether all required targets are met, and outputs are close enough to the fp32 model's; true in the open
    division, which requires neither."""
    output_difference: OutputDifferenceRecord | None = None
    """Null where there are no reference outputs: only the mini profiles ship them."""
    tested_in: str = ""
    """Id of the run that made the accuracy test, where this run took over an earlier one's of the same engine; the logs
    are in both folders. Empty: the run made its own, as all above tier ``smoke`` do."""
    computed_with: dict[str, str] = Field(default_factory=dict)
    """Data and tools that scores depend on and that may differ between machines: ``{"rougeLsum": "NLTK ..."}``. A score
    that is missing depends on none."""
    perplexity: Score = None
    """Perplexity of right answers, which no rule judges; null: not asked for, or ``not_measured`` says why."""

    @property
    def shown(self) -> list[TargetRecord]:
        """The targets, and the perplexity as one without limits."""
        if self.perplexity is None:
            return self.targets
        fields = {"score": PERPLEXITY, "name": "", "reference": 0.0, "lower": None, "upper": None, "is_met": True}
        fields |= {"required": False, "value": self.perplexity, "lower_is_better": True}
        return [*self.targets, TargetRecord.model_validate(fields)]


class RuleRecord(Stored):
    """One rule, applied."""

    rule: str
    measured: bool | int | float | str | None
    """Null if it is not in the log."""
    limit: bool | int | float | str
    unit: str
    passed: bool
    fix: str
    """The fix; empty if passed."""
    source: str
    kind: Literal["performance", "accuracy"]
    required: bool


class VerdictRecord(Stored):
    """The verdict of the rules."""

    rules: list[RuleRecord]
    not_applied: dict[str, str]
    """Rules that could not be applied, and why."""
    is_valid: bool
    """Whether all rules about performance passed."""
    is_accurate: bool | None
    """Whether all required targets were met; null where no accuracy can be claimed."""
    is_conformant: bool
    """Whether nothing was relaxed and all required rules passed. Never the same as a reviewed MLPerf result."""


class FailureRecord(Stored):
    """The failure of a run."""

    kind: Literal["crash", "exit", "exception", "hang", "out of memory", "unsupported"]
    """``crash``: by a signal; ``exit``: the process left early; ``unsupported``: the backend cannot compile a graph."""
    message: str
    stage: str
    """The stage in which it failed: ``warm-up``."""
    log_tail: str


class SeedsRecord(Stored):
    """LoadGen's seeds."""

    qsl: int
    sample_index: int
    schedule: int


class SettingRecord(Stored):
    """A setting, and the layer it came from."""

    value: JsonValue
    layer: str


class LatenessRecord(Stored):
    """Late samples of the performance test, counted while it ran."""

    answered: Count
    """Answers until the test ended, or until too many were late."""
    late: Count
    """Number of these beyond a limit: of the latency, TTFT or TPOT."""
    most: Count
    """With more the run cannot be what it was made for, and is ended."""
    is_ended: bool
    """Whether it was."""


class NumberFormatRecord(Stored):
    """Number formats of a precision, as the backend reports them, or as quantised files describe themselves."""

    stores: str
    """Format of the stored weights of matrix products: ``int4``, ``int4-gptq``."""
    computes: str
    """Format in which matrix products are computed: ``fp16``."""


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # in the year 1 or 9999, in a zone far from UTC
        raise ValueError("no moment in UTC") from None


class RunRecord(Stored):
    """One run: the request, the outcome, and the conditions.

    History of formats:

    - 1: the first.
    - 2: targets say whether a lower score is better; the environment has the container's image, and the commits of
      mlbench and of plugins; `AccuracyRecord.output_difference`.
    - 3: scores have the submission checker's names: ``acc`` and not ``top1``; `scenario_facts`; a target
      may have an upper bound alone. Older records are read with all three.
    - 4: a completed run has digests in `logs`, whatever made it; `AccuracyRecord.computed_with`.
    """

    format: Literal[1, 2, 3, 4] = 4
    run_id: FolderName
    created: Annotated[AwareDatetime, AfterValidator(_utc)]
    """Begin of the run, in UTC."""
    duration_ns: Count | None
    """Total time from request to record; null in an imported run."""
    stages_ns: dict[str, Count] = Field(default_factory=dict)
    """Time spent in each stage of the run, such as ``compile`` or ``performance``; ``start``: until the first stage.
    Empty in an imported run and in records of older versions."""
    mlbench_version: str
    """Version of the mlbench that made the record."""

    workload: str
    backend: str
    scenario: str
    scenario_facts: ScenarioRecord = Field(default_factory=facts_of_older)
    """Facts about the scenario for readers, since its plugin may not be installed there."""
    profile: Literal["mini", "full"]
    tier: Literal["smoke", "dev", "valid"]
    weights: Literal["trained", "random"]
    round: RoundName = DEFAULT_ROUND
    """Round of MLPerf Inference whose rules held; records of older versions have none, and were judged by v4.1's."""
    precision: str
    transform: str = ""
    """Transforms of the model with their options, in the order in which they applied, with a space between them."""
    changes: tuple[str, ...] = ()
    """Changes of the model by each of them, in words and numbers; empty where the run failed."""
    number_format: NumberFormatRecord | None = None
    """Number formats of this precision, as the backend reports them, or quantised files that it read; null: neither."""
    memory: Literal["host", "device"] = "host"
    """Where the backend computed, and so the form of the data and graphs."""
    tag: str = ""
    """Name of the set of runs that this one belongs to, given by the user or a suite file."""
    repeat: Count = 1
    """Number of this run among repeats of the same request, from 1."""

    imported: ImportRecord | None = None
    """Source of an imported run; null: a run of mlbench."""

    entry: EntryRecord | None = None
    """The entry that was asked for; null: none, so that the least strict accuracy of the closed division held."""

    audit: AuditRecord | None = None
    """The compliance test that the run is; null: a run for a result."""

    replay: ReplayRecord | None = None
    """The run that this one repeats; null: none."""

    network: NetworkRecord | None = None
    """The nodes that answered the samples, where these travelled over a network; null: this machine did, or it failed
    before it had reached them."""

    cluster: ClusterRecord | None = None
    """The nodes of a Ray cluster that answered the samples; null: there were none, or it failed before it had them."""
    beside: BesideRecord | None = None
    """The lane that it was measured on, and the runs of the same command on others; null: runs were made one at a
    time, on all that the command could use."""

    status: Literal["completed", "failed"]
    failure: FailureRecord | None = None
    result: ResultRecord | None = None
    accuracy: AccuracyRecord | None = None
    verdict: VerdictRecord | None = None
    lateness: LatenessRecord | None = None
    """Null where late samples were not counted while the test ran: `load.end_at_late_share` asks for it."""
    overhead_ns_per_sample: Count | None = None
    """Overhead of mlbench and LoadGen, measured with the run's engine over graphs that cost nothing; null where not
    measured."""
    other_work: OtherWorkRecord | None = None
    processor_time: ProcessorTimeRecord | None = None
    telemetry: TelemetryRecord | None = None
    """Null where no sensor showed anything during the performance test."""
    energy: EnergyRecord | None = None
    transfers: TransfersRecord | None = None
    """Null where the engine counts no graph calls."""
    work: WorkRecord | None = None
    roofline: RooflineRecord | None = None
    not_measured: dict[str, str] = Field(default_factory=dict)
    """Reasons why ``other_work`` to ``roofline``, ``overhead``, ``peak_memory`` or ``perplexity`` is null; why
    ``engine`` or ``runtime`` is missing or incomplete: a plugin did not report it, or reported values that cannot be
    stored."""
    peak_memory_bytes: Count | None = None
    """Peak CPU memory of the run's process; null where the run failed. Of a device's own memory: ``runtime``."""

    loadgen_version: str = ""
    seeds: SeedsRecord | None = None
    samples: dict[str, Count] = Field(default_factory=dict)
    """``dataset``: size of the dataset; ``issued``: samples sent by the performance run."""
    settings: dict[str, SettingRecord] = Field(default_factory=dict)
    load: dict[str, JsonValue] = Field(default_factory=dict)
    """LoadGen's settings in the run, with every default filled in."""
    limits: dict[str, JsonValue] = Field(default_factory=dict)
    """The numbers of the rules in force."""
    engine: Statistics = Field(default_factory=EngineStatistics)
    """The engine's statistics."""
    runtime: Runtime = Field(default_factory=RuntimeFacts)
    """The backend's facts about its runtime."""
    logs: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of LoadGen's logs as they were when the run ended, by their paths in the run folder; empty where it
    failed or was imported, and in records of older versions."""
    fingerprints: dict[str, str] = Field(default_factory=dict)
    """Hashes of ``data``, of the untouched ``weights`` and each ``graph <name>``, and of ``transformed <name>``."""
    environment: Environment

    @model_validator(mode="before")
    @classmethod
    def _with_official_score_names(cls, fields: Any) -> Any:
        is_old = isinstance(fields, dict) and fields.get("format") in (1, 2)
        return rename_scores(fields) if is_old else fields

    @model_validator(mode="after")
    def _has_what_its_status_says(self) -> Self:
        if self.status == "completed" and (self.failure or not self.result or not self.verdict):
            raise ValueError("a completed run has a result and a verdict, and no failure")
        if self.status == "failed" and (not self.failure or self.result):
            raise ValueError("a failed run has a failure, and no result")
        if self.accuracy and self.accuracy.tested_in and self.tier != "smoke":
            raise ValueError(f"a run of tier {self.tier} makes its own accuracy test")
        return self

    @property
    def model(self) -> str:
        """Return the workload's name, with the accuracy where one was asked for: ``bert``, ``bert-99.9``."""
        return self.entry.model if self.entry else self.workload

    @property
    def precision_and_transform(self) -> str:
        """Return the precision, and the transforms behind it where there are some: ``fp32 prune-layers:0.25``."""
        return f"{self.precision} {self.transform}".rstrip()

    @property
    def arrivals_per_s(self) -> float | None:
        """Return the rate at which queries were sent; None where the scenario has none, or it is not known."""
        rate = self.load.get("target_qps")
        return float(rate) if self.scenario_facts.sends_rate and isinstance(rate, int | float) else None

    @property
    def nodes(self) -> Sequence[ReachedNodeRecord]:
        """Return the other machines that answered its samples, as parts of a cluster or over a network."""
        return self.network.nodes if self.network else self.cluster.nodes if self.cluster else ()

    @property
    def is_open(self) -> bool:
        """Whether it was made for the open division, which requires no accuracy."""
        return self.entry is not None and self.entry.division == "open"

    @property
    def is_good(self) -> bool:
        """Whether the run is valid for its tier, and accurate where accuracy was asked for."""
        return bool(self.verdict and self.verdict.is_valid and self.verdict.is_accurate is not False)

    @property
    def unchecked(self) -> list[str]:
        """Return the rules without which speed may not be computed that were not applied to a valid, accurate run."""
        is_claim = is_of_format_4(self) and self.is_good and self.accuracy and self.accuracy.is_met
        return [rule for rule in CHECKED if self.verdict and rule in self.verdict.not_applied] if is_claim else []

    def text(self) -> str:
        """Return the record as it is stored: indented JSON."""
        return self.model_dump_json(indent=2) + "\n"


def is_of_format_4(record: RunRecord) -> bool:
    """Return whether a run's record says what its scores were computed with, and was judged by checks of its speed."""
    return record.format >= 4


def keeps_digests(record: RunRecord) -> bool:
    """Return whether the version of mlbench that stored a completed run kept digests of its logs."""
    return not record.imported and (is_of_format_4(record) or "logs" in record.model_fields_set)


def read(path: Path) -> RunRecord:
    """Read a record, given its file or its run folder.

    Raises:
        DataError: it is missing, no JSON, of a newer format, or not a record; the message is one line.
    """
    file = path if path.name == RECORD_FILE else path / RECORD_FILE
    try:
        fields = parse_json(read_text(file, what="run record", limit_bytes=_MOST_BYTES))
    except ValueError as error:
        raise DataError(f"run record is corrupt: {file}: {first_line(error)}.", hint="Delete the run folder.") from None
    _check_format(fields, file)
    try:
        return RunRecord.model_validate(fields)
    except ValidationError as error:
        raise DataError(f"run record is corrupt: {file}: {first_problem(error, whole='the record')}.") from None


def _check_format(fields: object, file: Path) -> None:
    found = fields.get("format") if isinstance(fields, dict) else None
    if type(found) is not int or found < 1:
        raise DataError(f"no run record: {file} names no format.", hint="Name a run folder of mlbench.")
    if found > FORMAT:
        raise DataError(
            f"run folder of format {str(found)[:20]}; this mlbench reads up to {FORMAT}: {file}.",
            hint="Upgrade mlbench.",
        )
