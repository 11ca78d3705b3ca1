"""The parts of a round besides its workloads: seeds, scenarios, and the tree of a submission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from mlbench.system.documents import first_problem

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Part = TypeVar("_Part", bound=DataclassInstance)

T = TypeVar("T")


class Category(StrEnum):
    """The category of a submission's system; each requires its own scenarios."""

    DATACENTER = "datacenter"
    EDGE = "edge"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSeeds:
    """The three seeds that decide which samples a run sends, in which order and when."""

    qsl: int
    sample_index: int
    schedule: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialSeeds:
    """The seeds of a round."""

    normal: RoundSeeds
    test05: RoundSeeds | None
    """TEST05's, which later rounds do not have."""
    accuracy_log: int
    """Picks the replies that TEST01 and TEST06 log."""
    others: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Seeds of rounds that have no file, by name: their results are recognised, and not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRules:
    """The rules' values for one scenario."""

    name: str
    loadgen: str
    """The one of LoadGen's four that sends the queries."""
    configuration_suffix: str = ""
    """Suffix of the workload's name in LoadGen's configuration: ``-interactive``; mostly empty."""
    samples_per_query: int | None = None
    """None in Offline, whose one query holds them all."""
    min_query_count: int
    percentile: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimits:
    """Limits of a scenario whose queries arrive at a rate, in milliseconds; None: not judged."""

    latency_ms: int | None = None
    """Limit of the whole answer."""
    ttft_ms: int | None = None
    tpot_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopping:
    """The test that the percentiles of a run are reliable."""

    confidence: float
    tolerance: float
    decides: bool
    """Whether the submission checker rejects a run for it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLayout:
    """Places below ``<division>/<submitter>/``; ``<place>`` is system, model and scenario."""

    results: str
    measurements: str
    implementation: str
    """The description of the implementation."""
    compliance: str
    code: str
    systems: str
    nameplate_power: str = ""
    """An optional file of power submissions; empty: the round has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredFiles:
    """Files and keys that a submission must have."""

    measurements: tuple[str, ...]
    accuracy: tuple[str, ...]
    performance: tuple[str, ...]
    implementation_keys: tuple[str, ...]
    submitter: tuple[str, ...] = ()
    """Files of a submitter outside the open division, ``A or B`` where one of two is enough."""
    images: tuple[int, ...] = ()
    """Samples of Stable Diffusion XL whose images are shown."""
    videos: tuple[int, ...] = ()
    accuracy_log_bytes: int
    """Largest size of an accuracy log, which is truncated."""
    file_megabytes: int
    """Largest size of any file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckerScope:
    """Which facts the round's submission checker looks at, and what it makes of them.

    Where a round asks less than v5.1, mlbench's own verdict asks what v5.1 asks; see `keeps_own_scope`.
    """

    equal_issue_from: str
    """``conf``: the configuration files; ``log``: the detail log; empty: it does not look."""
    result_validity: bool
    """Whether LoadGen's INVALID rejects a run."""
    loadgen_errors: bool = True
    """Whether errors in the performance log reject a run."""
    dataset_size: bool
    """Whether the accuracy log must cover the data set."""
    interactive_limits: bool = True
    """Whether token latencies are compared with the limits of the folder's scenario, not the log's."""
    inferred: tuple[tuple[str, str], ...] = ()
    """Scenarios whose results may be inferred from another's log, on edge systems: (from, to)."""
    counts_inferred: bool = True
    """Whether mlbench takes such results, too."""
    keeps_own_scope: bool = False
    """Whether mlbench asks no more of a result than this round's rules did; else the accuracy test must cover the data
    set, and samples are sent equally often in the open division too."""
    plain_scores: bool = False
    """Whether scores are read in the first spellings alone: no quoted numbers."""
    token_result_validity: bool = True
    """Whether LoadGen's INVALID rejects a run whose tokens are measured."""
    token_latencies_unchecked: tuple[str, ...] = ()
    """Workloads whose token latencies are not looked at."""
    equal_issue_models: tuple[str, ...] = ()
    """Model folders of which equal issue is read in the configuration."""
    equal_issue_in_open: bool = True
    """Whether it is read in the open division too."""
    offline_samples_in_open: bool = True
    """Whether the samples of Offline's query are counted in the open division too."""
    wrong_category: str = "refuses"
    """What a closed model in a category that has none does to the checker: ``refuses`` or ``crashes``."""
    unlisted: tuple[str, ...] = ()
    """Workloads of which the checker has no row, so that a closed result ends it."""
    names_and_sizes: bool = True
    """Whether the checker looks at names, links, sizes and empty folders; else a script does, by hand."""
    extra_files: bool = True
    """Whether the checker looks for files that folders of logs must not hold."""
    systems_need_results: bool = False
    """Whether a described system without results is refused."""
    names: Mapping[str, str] = field(default_factory=dict)
    """By model folder, the checker's own name of the model where that is another."""
    also_required: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """By model and system type, scenarios that the checker wants and the rules do not."""

    def __post_init__(self) -> None:
        if self.equal_issue_from not in ("", "conf", "log"):
            raise ValueError(f"checks.equal_issue_from is {self.equal_issue_from!r}, not conf, log or empty")
        if self.wrong_category not in ("refuses", "accepts", "crashes"):
            raise ValueError(f"checks.wrong_category is {self.wrong_category!r}, not refuses, accepts or crashes")


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryUnits:
    """Workloads whose results the round's summary prints in another unit than samples or queries per second."""

    tokens: tuple[str, ...] = ()
    seconds: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    printed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By workload and scenario, what it prints where it is neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplianceTest:
    """A compliance test of the round, where ``compliance.toml`` does not describe it."""

    values: Mapping[str, Any]
    """By key: LoadGen's settings and the limits."""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplianceRules:
    """Compliance tests of the round, as far as ``compliance.toml`` does not have them."""

    test06_dtype: str
    """Type of the tokens that TEST06's script reads by default: ``int32``."""
    allows_two_end_tokens: bool
    """Whether two end tokens and nothing else are an answer that TEST06 passes."""
    are_test01_bounds_inclusive: bool
    sampling_target: Mapping[str, int]
    """How many replies TEST01 logs, about, by workload."""
    tests: Mapping[str, ComplianceTest]
    """By name: ``TEST07``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointResults:
    """Results of clients of endpoints, which have no LoadGen logs."""

    models: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def seeds_of(table: Mapping[str, Any]) -> OfficialSeeds:
    """Return the seeds in a round's table ``[seeds]``."""
    return OfficialSeeds(
        normal=fill(RoundSeeds, table["normal"]),
        test05=fill(RoundSeeds, table["test05"]) if "test05" in table else None,
        accuracy_log=table["compliance"]["accuracy_log"],
        others={name: tuple(seeds) for name, seeds in without_source(table.get("others", {})).items()},
    )


def fill(kind: type[_Part], table: Mapping[str, Any]) -> _Part:
    """Return a part of a round, a dataclass, with a table's values; lists become tuples.

    Raises:
        KeyError: a value is missing.
        ValueError: the part has no such value.
    """
    known = {each.name: each for each in fields(kind)}
    values = {key: _frozen(value) for key, value in table.items() if key in known or key != "source"}
    for name, each in known.items():
        if name not in values and each.default is MISSING and each.default_factory is MISSING:
            raise KeyError(name)
    if unknown := values.keys() - known:
        raise ValueError(f"{kind.__name__} has no {min(unknown)!r}")
    return kind(**values)


def compliance_of(table: Mapping[str, Any]) -> ComplianceRules:
    """Return the table ``[compliance]``."""
    tests = {name: row for name, row in table.items() if isinstance(row, Mapping) and name != "sampling_target"}
    return ComplianceRules(
        test06_dtype=table["test06_dtype"],
        allows_two_end_tokens=table["test06_two_end_tokens"],
        are_test01_bounds_inclusive=table["test01_bounds"] == "inclusive",
        sampling_target=without_source(table.get("sampling_target", {})),
        tests={
            name: ComplianceTest(values=without_source(row), source=row.get("source", ""))
            for name, row in tests.items()
        },
    )


def without_source(table: Mapping[str, T]) -> dict[str, T]:
    """Return a table's values without the text that says where they come from."""
    return {key: value for key, value in table.items() if key != "source"}


def check_types(value: object) -> None:
    """Raise `ValueError`, naming the field, where a dataclass of a round has a value of another type.

    Dataclasses inside it are checked too. Rounds that come with mlbench need no check: tests make it.
    """
    from pydantic import TypeAdapter, ValidationError

    if not is_dataclass(value) or isinstance(value, type):
        return
    hints = get_type_hints(type(value))
    for name in (each.name for each in fields(value) if each.compare):  # without the round that a workload is of
        found = getattr(value, name)
        try:
            TypeAdapter(hints[name]).validate_python(found, strict=True)
        except ValidationError as error:
            raise ValueError(f"{name} is wrong: {first_problem(error, whole='it')}") from None
        several = found.values() if isinstance(found, Mapping) else found if isinstance(found, tuple) else (found,)
        for each in several:
            check_types(each)


def _frozen(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _frozen(each) for key, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
