"""Plans the runs of commands and Python functions, with all checks before the first run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypeVar

from mlbench.cluster.demand import NetworkDemand
from mlbench.comparison.backends import FasterBackend
from mlbench.contracts.power import AUTO
from mlbench.contracts.precision import Precision
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.contracts.scenario import LONGEST_TAG, MOST_REPEATS, is_tag
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.execution.lanes import Lane
from mlbench.planning.backend_choice import faster_than_ranked
from mlbench.planning.lane_demand import lanes_for
from mlbench.planning.requests import ResolvedRequest, RunRequest, Undefined, combinations, resolve
from mlbench.planning.suite import (
    SharedRuns,
    Suite,
    answers,
    differing_facts,
    in_pairs,
    missing,
    read_suite,
    requests_of,
)
from mlbench.planning.user_model import UserModel
from mlbench.records.run_record import RunRecord
from mlbench.records.store.reading import read_runs
from mlbench.records.store.run_folder import remove_abandoned, runs_in
from mlbench.rules.entry_demand import ANY_ENTRY, EntryDemand
from mlbench.rules.tiers import Tier
from mlbench.settings.transforms import BETWEEN

_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Requested runs, all of which are possible."""

    requests: tuple[ResolvedRequest, ...]
    """Those to make, in their order."""
    done: tuple[RunRecord, ...] = ()
    """Stored records of the other requested runs."""
    undefined: tuple[Undefined, ...] = ()
    """Combinations that the rules do not define; they are left out."""
    shared: SharedRuns | None = None
    """Where given, other processes may be making the same runs."""
    lanes: tuple[Lane, ...] = ()
    """Parts of this machine for runs at the same time; none: one run at a time."""
    suite: str = ""
    """Name of the suite whose runs they are; empty: of none."""
    ranked: str = ""
    """The backend of the highest rank, if the plan chose backends."""
    faster: tuple[FasterBackend, ...] = ()
    """Earlier runs for which it chose another one."""

    @property
    def asked(self) -> int:
        """Return the number of requested runs."""
        return len(self.requests) + len(self.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsPlan:
    """Runs of two suites, to be made interleaved."""

    requests: tuple[ResolvedRequest, ...]
    tags: tuple[str, str]
    """The tag of the base's runs, and that of the new side's."""
    differing: tuple[str, ...]
    """Facts in which the two files differ, as `compare` names them."""

    def sides(self, records: Sequence[RunRecord]) -> tuple[list[RunRecord], list[RunRecord]]:
        """Return the records of the base and of the new side."""
        base, new = self.tags
        return [each for each in records if each.tag == base], [each for each in records if each.tag == new]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMatrix:
    """The combinations that `mlbench run` and `mlbench.run` measure. Names are as typed; `plan_runs` checks them.

    For an empty axis `combinations` chooses the values.
    """

    workloads: Sequence[str] = ()
    backends: Sequence[str] = ()
    scenarios: Sequence[str] = ()
    precisions: Sequence[Precision] = ()
    transforms: Sequence[str] = ()
    """Applied to each model, in this order."""
    repeats: int = 1
    parallel: int = 1
    profile: str
    tier: str
    weights: str
    round: str = DEFAULT_ROUND
    wants_accuracy: bool = True
    entry: EntryDemand = ANY_ENTRY
    overrides: Mapping[str, object]
    results: Path
    tag: str = ""
    power: str = AUTO
    network: NetworkDemand | None = None
    model: UserModel | None = None
    """A model of the user's own, instead of workloads."""

    def for_model(self, plugins: Plugins) -> Self:
        """Return the matrix with the workload and the settings of the user's model, if there is one.

        Raises:
            UsageError: workloads are named as well, or the model cannot be found.
        """
        if not self.model:
            return self
        if self.workloads:
            raise UsageError(f"workload {self.workloads[0]} is named besides a model.", hint="Name one of the two.")
        name = self.model.workload_name(plugins)
        return replace(self, workloads=(name,), overrides={**self.model.settings(), **self.overrides}, model=None)

    def combinations(self, plugins: Plugins) -> Iterator[RunRequest | Undefined]:
        """Yield a request for each combination; raises as `combinations`, and `UsageError` for an unknown name."""
        common: dict[str, Any] = {
            "profile": choose(Profile, "profile", self.profile),
            "tier": choose(Tier, "tier", self.tier),
            "weights": choose(Weights, "weights", self.weights),
            "transform": BETWEEN.join(self.transforms),
            **{name: getattr(self, name) for name in _AS_REQUESTED},
        }
        for precision in (*self.precisions,) or (None,):
            yield from combinations(
                plugins, self.workloads, self.backends, self.scenarios, precision=precision, **common
            )


_AS_REQUESTED = ("round", "wants_accuracy", "entry", "overrides", "results", "tag", "power", "network")
"""Fields of a matrix that a `RunRequest` has, too."""


def choose(kind: type[_Choice], name: str, value: str) -> _Choice:
    """Return the member of an enumeration; raises `UsageError` for other text."""
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{name} is {value!r}.", hint=f"It is one of: {', '.join(kind)}.") from None


def plan_runs(matrix: RunMatrix, plugins: Plugins) -> RunPlan:
    """Return a run of each combination, all once, then all again, ``parallel`` of them side by side.

    Raises:
        MlbenchError: a name or setting is wrong, a backend cannot run here, or the rules define no combination.
    """
    if not is_tag(matrix.tag):
        given = repr(matrix.tag[:LONGEST_TAG])
        raise UsageError(f"tag is {given}.", hint=f"It is plain text of up to {LONGEST_TAG} characters.")
    if not 1 <= matrix.repeats <= MOST_REPEATS:
        raise UsageError(f"repeat is {matrix.repeats}.", hint=f"It lies from 1 to {MOST_REPEATS}.")
    found = list(matrix.for_model(plugins).combinations(plugins))
    asked = [each for each in found if isinstance(each, RunRequest)]
    faster = {} if matrix.backends else faster_than_ranked(asked, plugins, matrix.results)
    ranked = asked[0].backend if asked and not matrix.backends else ""
    for position, evidence in faster.items():
        asked[position] = replace(asked[position], backend=evidence.other.backend)
    requests = [resolve(each, plugins) for each in asked]
    if not requests and (undefined := next((each for each in found if isinstance(each, Undefined)), None)):
        raise UsageError(str(undefined), hint="`mlbench list` prints the scenarios of each workload.")
    return RunPlan(
        requests=tuple(replace(each, repeat=repeat) for repeat in range(1, matrix.repeats + 1) for each in requests),
        undefined=tuple(each for each in found if isinstance(each, Undefined)),
        lanes=lanes_for(requests, plugins, matrix.parallel),
        ranked=ranked,
        faster=tuple(faster.values()),
    )


def plan_suite(  # noqa: PLR0913 - the options of `mlbench run --suite`
    suite: Suite,
    plugins: Plugins,
    *,
    results: Path,
    overrides: Mapping[str, object],
    fresh: bool = False,
    parallel: int = 1,
) -> RunPlan:
    """Return the runs of a suite that are missing or failed, or with ``fresh`` all, ``parallel`` side by side.

    Raises:
        MlbenchError: something that it names is wrong.
    """
    requests = requests_of(suite, plugins, results=results, overrides=overrides)
    lanes = lanes_for(requests, plugins, parallel)
    remove_abandoned(results)
    shared = None if fresh else SharedRuns(results)
    stored = [] if fresh else read_runs(runs_in(results))
    return RunPlan(
        requests=tuple(missing(requests, stored)),
        done=tuple(answers(requests, stored)),
        shared=shared,
        lanes=lanes,
        suite=suite.name,
    )


def plan_turns(base: Path, new: Path, plugins: Plugins, *, results: Path) -> TurnsPlan:
    """Return the runs of two suite files interleaved, A B B A.

    Raises:
        MlbenchError: a file, or something that it names, is wrong, or the two do not pair up.
    """
    ours, theirs = (requests_of(read_suite(file), plugins, results=results) for file in (base, new))
    return TurnsPlan(
        requests=tuple(in_pairs(ours, theirs)),
        tags=(ours[0].tag, theirs[0].tag),
        differing=tuple(differing_facts(ours, theirs)),
    )
