"""A suite: runs that belong together, described in a TOML file. Running it again makes missing or failed runs.

name = "nightly"
repeats = 5

[[runs]]
workload = ["resnet50", "bert"]
backend = ["pytorch", "onnxruntime"]
scenario = "Offline"
settings = { "execution.batch" = 16 }
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from mlbench.contracts.precision import Precision
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.contracts.scenario import LONGEST_TAG, MOST_REPEATS
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.errors import DataError, UsageError
from mlbench.planning.accuracy_tests import AccuracyTests
from mlbench.planning.requests import ResolvedRequest, RunRequest, Undefined, combinations, resolve
from mlbench.planning.user_model import UserModel
from mlbench.records.facts import KIND
from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.run_folder import Claim, TakenError
from mlbench.records.store.run_names import names_in
from mlbench.rules.entry_demand import ANY_ENTRY, Division, EntryDemand
from mlbench.rules.round_parts import Category
from mlbench.rules.tiers import Tier
from mlbench.settings.layers import SET_FOR_RUN
from mlbench.settings.transforms import BETWEEN
from mlbench.system.documents import first_problem, read_toml
from mlbench.system.field_docs import json_schema_of

WAIT_S = 2.0
"""Polling interval for runs that other processes make."""

MOST_RUNS = 100_000
"""In a suite."""
SCHEMA_FILE = Path(__file__).with_name("suite.schema.json")
"""Written anew by ``python -m mlbench.planning.suite``."""


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_as_list)]
"""A name, or several."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SuiteEntry(_Part):
    """Runs: every combination of what it names."""

    workload: Names = Field(default_factory=list)
    """Needed, unless ``model`` is given."""
    model: Path | None = None
    """A model of the user's own, instead: an ONNX file, a torch exported program, or a Hugging Face folder. A relative
    path is relative to the suite file."""
    name: str = ""
    """The model's name; empty: the file's. ``settings`` have the rest: ``workload.shapes``, ``workload.dims``, ..."""
    backend: Names = Field(min_length=1)
    scenario: Names = Field(default_factory=list)
    """Empty: all that the rules define."""
    precision: Annotated[list[Precision], BeforeValidator(_as_list)] = Field(default_factory=list)
    """Empty: the backend's first."""
    transform: Names = Field(default_factory=list)
    """Changes of the model, in the order in which they apply: ``["prune-layers:0.25", "sparse"]``."""
    profile: Profile = Profile.MINI
    tier: Tier = Tier.SMOKE
    weights: Weights = Weights.TRAINED
    round: str = DEFAULT_ROUND
    """Round of MLPerf Inference whose rules hold."""
    accuracy: bool = True
    """Whether to measure accuracy too, not only speed."""
    variant: str = ""
    """Accuracy target: ``99.9``. Empty: the least strict."""
    category: Category | None = None
    """Selects scenarios and accuracies. None: those of both categories."""
    division: Division = Division.CLOSED
    """In ``open`` no accuracy is required."""
    repeats: int | None = Field(default=None, ge=1, le=MOST_REPEATS)
    """Number of repeats, instead of the suite's."""
    settings: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """By key, as `mlbench settings` lists them."""

    @model_validator(mode="after")
    def _has_one_subject(self) -> Self:
        if bool(self.workload) == bool(self.model):
            raise ValueError("name a workload or a model, and not both" if self.model else "workload is missing")
        return self

    def beside(self, file: Path) -> Self:
        """Return the entry of a suite file, with the model's path as seen from here."""
        return self.model_copy(update={"model": file.parent / self.model}) if self.model else self


class Suite(_Part):
    """The content of a suite file."""

    name: str = Field(pattern=r"^[\w.+-]+$", max_length=LONGEST_TAG)
    """The tag of its runs."""
    repeats: int = Field(default=1, ge=1, le=MOST_REPEATS)
    order: Literal["interleaved", "sequential"] = "interleaved"
    """``interleaved``: all runs once, then all again, so that drift of the machine affects all equally. ``sequential``:
    the repeats of a run follow each other."""
    runs: list[SuiteEntry] = Field(min_length=1)


def read_suite(file: Path) -> Suite:
    """Read a suite file.

    Raises:
        UsageError: it cannot be read, is not TOML, or has an unknown key or a wrong value; the message names the place.
    """
    fields = read_toml(file, what="suite file")
    try:
        suite = Suite.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"{file}: {first_problem(error)}.", hint="See docs/guarding-against-regressions.md.") from None
    return suite.model_copy(update={"runs": [each.beside(file) for each in suite.runs]})


def requests_of(
    suite: Suite, plugins: Plugins, *, results: Path, overrides: Mapping[str, object] | None = None
) -> list[ResolvedRequest]:
    """Return all runs of a suite, in order.

    Raises:
        MlbenchError: a name or setting is wrong, or a backend cannot run here; nothing has run then.
        UsageError: the rules do not define a combination that an entry names, or there are too many runs.
    """
    requests: list[ResolvedRequest] = []
    for number, entry in enumerate(suite.runs):
        for each in _defined(entry, number, plugins, tag=suite.name, results=results, overrides=overrides or {}):
            resolved = resolve(each, plugins)
            repeats = range(1, (entry.repeats or suite.repeats) + 1)
            if len(requests) + len(repeats) > MOST_RUNS:
                raise UsageError(f"runs.{number}: the suite has more than {MOST_RUNS} runs.", hint="Split it up.")
            requests += [replace(resolved, repeat=repeat) for repeat in repeats]
    return sorted(requests, key=lambda request: request.repeat) if suite.order == "interleaved" else requests


def unresolved_requests_of(
    suite: Suite, plugins: Plugins, *, results: Path, overrides: Mapping[str, object]
) -> Iterator[RunRequest]:
    """Yield each run of a suite once, without asking whether it can be made on this machine.

    Raises:
        MlbenchError: a name is wrong.
        UsageError: the rules do not define a combination that an entry names.
    """
    for number, entry in enumerate(suite.runs):
        yield from _defined(entry, number, plugins, tag=suite.name, results=results, overrides=overrides)


def _defined(entry: SuiteEntry, number: int, plugins: Plugins, **common: Any) -> Iterator[RunRequest]:
    """Yield the requests of an entry; raises `UsageError` for a combination that the rules do not define."""
    for each in _expand(entry, plugins, **common):
        if isinstance(each, Undefined):
            raise UsageError(f"runs.{number}: {each}", hint="Leave the scenario out to take all that they define.")
        yield each


def _expand(entry: SuiteEntry, plugins: Plugins, **common: Any) -> Iterator[RunRequest | Undefined]:
    precisions: Sequence[Precision | None] = entry.precision or [None]
    own = UserModel(file=entry.model, name=entry.name) if entry.model else None
    workloads = [own.workload_name(plugins)] if own else entry.workload
    for precision in precisions:
        yield from combinations(
            plugins,
            workloads,
            entry.backend,
            entry.scenario,
            profile=entry.profile,
            tier=entry.tier,
            weights=entry.weights,
            precision=precision,
            transform=BETWEEN.join(entry.transform),
            round=entry.round,
            wants_accuracy=entry.accuracy,
            entry=EntryDemand(variant=entry.variant, category=entry.category, division=entry.division),
            suite_settings={**(own.settings() if own else {}), **entry.settings},
            **common,
        )


def answers(requests: Sequence[ResolvedRequest], records: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the completed record of each request that has one: the newest."""
    done = {_key_of_record(record): record for record in records if record.status == "completed"}
    return [done[key] for request in requests if (key := key_of_request(request)) in done]


def missing(requests: Sequence[ResolvedRequest], records: Sequence[RunRecord]) -> list[ResolvedRequest]:
    """Return the requests without a completed record; a failed run counts as missing, an INVALID one does not."""
    done = {_key_of_record(record) for record in records if record.status == "completed"}
    return [request for request in requests if key_of_request(request) not in done]


class SharedRuns:
    """Runs of a suite that other processes may be making in the same folder: each is made once."""

    def __init__(self, results: Path) -> None:
        """Treat the runs now in the folder as known."""
        self._results = results
        self._seen = set(names_in(results))
        self._done: dict[tuple[str, ...], RunRecord] = {}

    def claim(self, request: ResolvedRequest) -> Claim:
        """Return the claim to a run."""
        key = json.dumps(key_of_request(request))
        return Claim(
            key=hashlib.sha256(key.encode()).hexdigest(), is_stored=lambda: self.find_new_record(request) is not None
        )

    def find_new_record(self, request: ResolvedRequest) -> RunRecord | None:
        """Return the completed record of a run that was stored after this object was made, by whatever process."""
        for name in sorted(set(names_in(self._results)) - self._seen):
            self._seen.add(name)
            try:
                record = read(self._results / name)
            except DataError:
                continue
            if record.status == "completed":
                self._done[_key_of_record(record)] = record
        return self._done.get(key_of_request(request))


def run_all(
    requests: Sequence[ResolvedRequest],
    run: Callable[[ResolvedRequest, int], RunRecord | None],
    shared: SharedRuns | None = None,
    on_wait: Callable[[int], None] = lambda count: None,
) -> list[RunRecord]:
    """Make runs one after another, and return those that are stored. In ``smoke`` they share accuracy tests.

    Args:
        requests: in their order.
        run: makes the run of a request, which is the n-th from 1; None: it could not be stored. Raises `TakenError`
            where another process makes it.
        shared: where given, a run that another process makes meanwhile is waited for.
        on_wait: told how many these are.
    """
    records, accuracy_tests = list[RunRecord](), AccuracyTests()
    left = list(enumerate(requests, 1))
    while left:
        taken = []
        for number, request in left:
            record = shared.find_new_record(request) if shared else None
            try:
                record = record or run(accuracy_tests.with_earlier(request), number)
            except TakenError:
                taken.append((number, request))
            if record:
                records.append(record)
                accuracy_tests.add(request, record)
        if len(taken) == len(left):
            time.sleep(WAIT_S)
        elif taken:
            on_wait(len(taken))
        left = taken
    return records


def later_runs(requests: Sequence[ResolvedRequest], number: int) -> Sequence[ResolvedRequest]:
    """Return the runs for which the n-th from 1 may export; none for the first, so that the first result comes soon."""
    return requests[number:] if number > 1 else ()


def key_of_request(request: ResolvedRequest) -> tuple[str, ...]:
    """Return a key of a run in a suite, equal to its record's."""
    plain = request.settings.plain()
    chosen = {key: plain[key] for key, each in request.settings.by_key.items() if each.layer in SET_FOR_RUN}
    return _key(request, chosen)


def _key_of_record(record: RunRecord) -> tuple[str, ...]:
    return _key(record, {key: each.value for key, each in record.settings.items() if each.layer in SET_FOR_RUN})


def _key(run: RunRequest | RunRecord, chosen: Mapping[str, object]) -> tuple[str, ...]:
    return (run.tag, str(run.repeat), *_kind(run), *_entry(run), json.dumps(chosen, sort_keys=True))


def _entry(run: RunRequest | RunRecord) -> tuple[str, ...]:
    """Return the entry that was asked for; of a settled request the same as of its record."""
    entry = run.entry
    return () if entry is None or entry == ANY_ENTRY else (entry.variant, entry.category or "", entry.division)


def in_pairs(base: Sequence[ResolvedRequest], new: Sequence[ResolvedRequest]) -> list[ResolvedRequest]:
    """Return the runs of two suites interleaved, A B B A A B B A: steady drift affects both equally.

    Raises:
        UsageError: the two have one name, or different runs.
    """
    if base[0].tag == new[0].tag:
        raise UsageError(f"both suites are called {base[0].tag!r}.", hint="Their names tell their runs apart.")
    if len(base) != len(new):
        raise UsageError(
            f"the first suite has {len(base)} runs, the second {len(new)}.", hint="Give both the same runs."
        )
    pairs = list(zip(base, new, strict=True))
    for one, other in pairs:
        if (one.workload, one.scenario) != (other.workload, other.scenario):
            raise UsageError(
                f"{one.workload} {one.scenario} would be paired with {other.workload} {other.scenario}.",
                hint="Name workloads and scenarios in the same order in both files.",
            )
    ordered: list[ResolvedRequest] = []
    seen: Counter[int] = Counter()  # pairs of each repeat: order changes from pair to pair, and from repeat to repeat
    for one, other in pairs:
        ordered += (one, other) if (seen[one.repeat] + one.repeat) % 2 else (other, one)
        seen[one.repeat] += 1
    return ordered


def differing_facts(base: Sequence[RunRequest], new: Sequence[RunRequest]) -> list[str]:
    """Return the facts in which the runs of two suites differ on purpose, as `compare` names them."""
    facts = {name: name for name in KIND} | {"suite_settings": "settings", "entry": "variant"}
    pairs = list(zip(base, new, strict=True))
    return [
        fact for name, fact in facts.items() if any(getattr(one, name) != getattr(other, name) for one, other in pairs)
    ]


def _kind(run: RunRequest | RunRecord) -> tuple[str, ...]:
    return tuple(str(getattr(run, name)) for name in KIND)


def schema_text() -> str:
    """Return the JSON Schema of suite files."""
    return json_schema_of(Suite, "validation")


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
