"""The commands as functions: `mlbench.run`, `mlbench.run_suite`, `mlbench.load` and `mlbench.compare`.

They return the commands' results as `RunRecord` and `Comparison`, and raise `MlbenchError` for the errors that a
command prints in one line. Heavy modules are imported at the first call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.errors import UsageError
from mlbench.system.folders import check_results_folder, results_folder

if TYPE_CHECKING:
    from mlbench.comparison.compare import Comparison
    from mlbench.contracts.precision import Precision
    from mlbench.discovery import Plugins
    from mlbench.planning.requests import ResolvedRequest
    from mlbench.planning.run_plan import RunPlan
    from mlbench.records.run_record import RunRecord
    from mlbench.running.lane_log import LanePlace

    Place = str | os.PathLike[str]
    Names = str | Iterable[str]
    Runs = Place | RunRecord | Iterable[RunRecord]
    OnRecord = Callable[[RunRecord], object]

_NO_SETTINGS: Mapping[str, object] = MappingProxyType({})


def run(  # noqa: PLR0913 - the options of `mlbench run`
    workload: Names = (),
    *,
    model: Place | None = None,
    name: str = "",
    shape: Names = (),
    dim: Names = (),
    inputs: Place | None = None,
    reference: str = "",
    backend: Names = (),
    scenario: Names = (),
    precision: Names = (),
    transform: Names = (),
    profile: str = "mini",
    tier: str = "smoke",
    weights: str = "trained",
    accuracy: bool = True,
    round: str = DEFAULT_ROUND,
    variant: str = "",
    category: str = "",
    division: str = "closed",
    repeat: int = 1,
    parallel: int = 1,
    tag: str = "",
    power: str = "auto",
    settings: Mapping[str, object] = _NO_SETTINGS,
    results: Place | None = None,
    on_record: OnRecord | None = None,
) -> list[RunRecord]:
    """Measure each workload on each backend in each scenario, store each run, and return their records.

    As `mlbench run`: without a workload all of them run, without a scenario all that the rules define, and without a
    backend the best available one, or one that earlier runs showed to be faster. A run that crashes, hangs or is
    INVALID has a record too: check `RunRecord.is_good`.

    Args:
        workload: a name or several, as `mlbench list` has them; so are ``backend``, ``scenario`` and ``precision``.
        model: a model of your own instead: an ONNX file, a torch exported program, or a Hugging Face folder.
        name: the model's; left out, the file's.
        shape: of its inputs, where the file leaves sizes open: ``"image=8x3x224x224"``.
        dim: an open size, or its range: ``"seq=128"``, ``"seq=16..512"``.
        inputs: the user's own, an .npz file or a folder of .npy; prompts in a .jsonl file. Left out, random.
        reference: the backend whose answers are right; left out, the model is computed operator by operator.
        backend: the backend to run on.
        scenario: arrival pattern of samples.
        precision: of the computation; left out, the backend's first.
        transform: changes of the model before it runs, in their order: ``"prune-layers:0.25"``.
        profile: ``mini`` or ``full``.
        tier: ``smoke``, ``dev`` or ``valid``.
        weights: ``trained`` or ``random``.
        accuracy: whether to measure accuracy too, not only speed.
        round: of MLPerf Inference, whose rules hold: ``v5.1``.
        variant: the accuracy to reach, ``99`` or ``99.9``; left out, the least strict.
        category: ``datacenter`` or ``edge``: selects scenarios and accuracies; left out, those of both.
        division: ``closed``, or ``open``, in which no accuracy is required.
        repeat: runs of each combination, interleaved.
        parallel: runs to make side by side, each on a device or on cores of its own.
        tag: names the runs as a set, for `load` and `compare`.
        power: a power meter, ``auto`` or ``none``.
        settings: by key, as `mlbench settings` lists them: ``{"execution.batch": 16}``.
        results: the folder of run folders; left out, $MLBENCH_RESULTS or ``results`` here.
        on_record: is given each record as soon as it is stored; with ``parallel`` in another thread, one at a time.

    Raises:
        MlbenchError: a name or setting is wrong, a backend cannot run here, or a run cannot be stored.
    """
    from mlbench.discovery import Plugins
    from mlbench.planning.run_plan import RunMatrix, choose, plan_runs
    from mlbench.planning.user_model import UserModel
    from mlbench.rules.entry_demand import Division, EntryDemand
    from mlbench.rules.round_parts import Category

    own: dict[str, Any] = {"name": name, "shapes": _listed(shape), "dims": _listed(dim), "reference": reference}
    own["inputs"] = Path(inputs) if inputs else None
    if not model and (alone := next((key for key, value in own.items() if value), "")):
        raise UsageError(f"{alone.removesuffix('s') if alone != 'inputs' else alone} is given without model.")
    plugins = Plugins.discover()
    matrix = RunMatrix(
        workloads=_listed(workload),
        model=UserModel(file=Path(model), **own) if model else None,
        backends=_listed(backend),
        scenarios=_listed(scenario),
        precisions=[_precision_of(each) for each in _listed(precision)],
        transforms=_listed(transform),
        repeats=repeat,
        parallel=parallel,
        profile=profile,
        tier=tier,
        weights=weights,
        wants_accuracy=accuracy,
        round=round,
        entry=EntryDemand(
            variant=variant,
            category=choose(Category, "category", category) if category else None,
            division=choose(Division, "division", division),
        ),
        overrides=dict(settings),
        results=_folder(results),
        tag=tag,
        power=power,
    )
    plan = plan_runs(matrix, plugins)
    _warn_of_undefined(plan)
    return _make(plan, plugins, on_record)


def run_suite(  # noqa: PLR0913 - the options of `mlbench run --suite`
    file: Place,
    *,
    fresh: bool = False,
    parallel: int = 1,
    settings: Mapping[str, object] = _NO_SETTINGS,
    results: Place | None = None,
    on_record: OnRecord | None = None,
) -> list[RunRecord]:
    """Make the runs of a suite file that are missing or failed, and return the records of all of them.

    Args:
        file: the suite, a TOML file.
        fresh: make all its runs.
        parallel: runs to make side by side, each on a device or on cores of its own.
        settings: by key; they override the file's.
        results: the folder of run folders; left out, $MLBENCH_RESULTS or ``results`` here.
        on_record: is given each record as soon as it is stored; with ``parallel`` in another thread, one at a time.

    Raises:
        MlbenchError: the file, or something that it names, is wrong, or a run cannot be stored.
    """
    from mlbench.discovery import Plugins
    from mlbench.planning.run_plan import plan_suite
    from mlbench.planning.suite import read_suite

    plugins = Plugins.discover()
    suite = read_suite(Path(file))
    plan = plan_suite(
        suite, plugins, results=_folder(results), overrides=dict(settings), fresh=fresh, parallel=parallel
    )
    return _make(plan, plugins, on_record)


def load(  # noqa: PLR0913 - the filters of `mlbench show`
    *runs: Place,
    workload: str | None = None,
    backend: str | None = None,
    scenario: str | None = None,
    tier: str | None = None,
    newest: int | None = None,
    results: Place | None = None,
) -> list[RunRecord]:
    """Return stored records, oldest first: all of the results folder, or the named ones.

    Args:
        runs: names of runs, folders of runs, baselines or tags.
        workload: only runs of this one; likewise ``backend``, ``scenario`` and ``tier``.
        backend: only runs on this one.
        scenario: only runs in this one.
        tier: only runs of this one.
        newest: only this number of the newest ones.
        results: the folder of run folders; left out, $MLBENCH_RESULTS or ``results`` here.

    Raises:
        UsageError: a name or the filter matches no run.
        DataError: a record cannot be read.
    """
    from mlbench.records.store.selection import Filter, select_records

    if newest is not None and newest < 1:
        raise UsageError(f"newest is {newest}.", hint="It is at least 1.")
    wanted = Filter(workload=workload, backend=backend, scenario=scenario, tier=tier, newest=newest)
    return select_records(_folder(results), [os.fspath(each) for each in runs], wanted)


def compare(  # noqa: PLR0913 - the options of `mlbench compare`
    base: Runs,
    new: Runs,
    *,
    across: Names = (),
    margin: float | Mapping[str, float] = 0.05,
    accuracy_margin: float = 0.005,
    run: bool = False,
    results: Place | None = None,
) -> Comparison:
    """Compare two sets of runs; `Comparison.is_worse` is true if a result got slower, less accurate or is missing.

    Args:
        base: a run, a folder of runs, a baseline or a tag, by its name; or a record, or several.
        new: likewise.
        across: facts that may differ though they must otherwise match: ``"backend"``, ``"hardware"``.
        margin: smaller relative changes are ignored: of a speed, or by kind, ``{"speed": 0.05, "memory": 0.1}``.
        accuracy_margin: smaller relative losses of a score are ignored.
        run: ``base`` and ``new`` are suite files: make their runs first, interleaved, and compare across their
            differences.
        results: folder of named runs, and of earlier runs that show the spread between sessions.

    Raises:
        IncomparableRunsError: the sides differ in facts that must match.
        UsageError: a name matches no run, ``across`` names an unknown fact, or a margin is not a share.
        DataError: a record cannot be read.
    """
    from mlbench.comparison.with_history import compare_with_history

    folder = _folder(results)
    if run:
        ours, theirs, differing = _measure_in_turns(base, new, folder)
    else:
        ours, theirs, differing = _records_of("base", base, folder), _records_of("new", new, folder), ()
    return compare_with_history(
        folder,
        ours,
        theirs,
        across=(*_listed(across), *differing),
        margin=margin,
        accuracy_margin=accuracy_margin,
    )


def _make(plan: RunPlan, plugins: Plugins, on_record: OnRecord | None = None) -> list[RunRecord]:
    """Make the runs of a plan that are missing, and return the records of all.

    Raises:
        MlbenchError: there is no run to make, or one cannot be made or stored.
    """
    import threading

    from mlbench.planning.suite import later_runs, run_all
    from mlbench.running.notices import suite_notices
    from mlbench.running.parallel_runs import run_on_lanes
    from mlbench.running.runner import run_benchmark

    handing_over = threading.Lock()

    def make(request: ResolvedRequest, number: int, place: LanePlace | None = None) -> RunRecord:
        claim = plan.shared.claim(request) if plan.shared else None
        record = run_benchmark(request, plugins, claim=claim, place=place, later=later_runs(plan.requests, number))
        if on_record:
            with handing_over:
                on_record(record)
        return record

    with suite_notices(plan, plugins):
        if plan.lanes:
            return [*plan.done, *run_on_lanes(plan.requests, plan.lanes, make, plan.shared)]
        return [*plan.done, *run_all(plan.requests, make, plan.shared)]


def _warn_of_undefined(plan: RunPlan) -> None:
    import logging  # a sixth of what `import mlbench` takes

    for each in plan.undefined:
        logging.getLogger(__name__).warning(str(each))


def _measure_in_turns(
    base: object, new: object, results: Path
) -> tuple[list[RunRecord], list[RunRecord], Collection[str]]:
    """Make the runs of two suite files; return both sides, and the facts in which the files differ."""
    from mlbench.discovery import Plugins
    from mlbench.planning.run_plan import RunPlan, plan_turns

    plugins = Plugins.discover()
    turns = plan_turns(_suite_file("base", base), _suite_file("new", new), plugins, results=results)
    ours, theirs = turns.sides(_make(RunPlan(requests=turns.requests), plugins))
    return ours, theirs, turns.differing


def _suite_file(side: str, given: object) -> Path:
    if not isinstance(given, str | os.PathLike):
        raise UsageError(f"{side} is not a suite file.", hint="Give its path, or leave out run.")
    return Path(given)


def _records_of(side: str, given: Runs, results: Path) -> list[RunRecord]:
    """Return the records of one side of a comparison, given by name or as records."""
    from mlbench.records.run_record import RunRecord
    from mlbench.records.store.selection import records_named

    if isinstance(given, str | os.PathLike):
        return records_named(results, os.fspath(given))
    records = [given] if isinstance(given, RunRecord) else list(given)
    if not records:
        raise UsageError(f"{side} has no runs.", hint="Give records, or the name of a run, folder, baseline or tag.")
    return records


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _folder(results: Place | None) -> Path:
    """Return the results folder; raises `UsageError` for an impossible path."""
    folder = results_folder() if results is None else Path(results)
    check_results_folder(folder)
    return folder


def _precision_of(name: str) -> Precision:
    """Return the precision of a name, even if the backend does not offer it; raises `UsageError` for other text."""
    from mlbench.contracts.precision import Precision

    try:
        return Precision(name)
    except ValueError as error:
        raise UsageError(f"precision is {name!r}.", hint=f"{error}.") from None
