"""Requests for runs, as typed and after checking every name and setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mlbench.cluster.cluster_check import check_cluster
from mlbench.cluster.demand import NetworkDemand, check_network
from mlbench.contracts.backend import EnginePlan, GraphBackend, Probe
from mlbench.contracts.power import AUTO, NONE
from mlbench.contracts.precision import Precision
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.contracts.workload import Memory, Profile, Weights
from mlbench.discovery import Plugins
from mlbench.discovery.guard import call_plugin
from mlbench.errors import PluginError, UnavailableError, UsageError
from mlbench.execution.instances.resource_check import check_demand
from mlbench.fetching.fetched_settings import fetched_settings
from mlbench.records.job_spec import JobSpec
from mlbench.records.origin_record import AuditRecord, ReplayRecord
from mlbench.rules.entry_demand import ANY_ENTRY, Division, EntryDemand
from mlbench.rules.official import Round, WorkloadRules, round_named
from mlbench.rules.own import rules_of
from mlbench.rules.round_files import rounds_with
from mlbench.rules.round_parts import Category
from mlbench.rules.tiers import Tier
from mlbench.settings.layers import RunConditions, Settings, resolve_settings
from mlbench.settings.transforms import choose_transforms, spell_chain
from mlbench.system.folders import data_folder, results_folder, system_settings_file, tuned_settings_file


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A request for a run. Names are as typed; `resolve` checks them."""

    workload: str
    backend: str
    scenario: str
    profile: Profile = Profile.MINI
    tier: Tier = Tier.SMOKE
    weights: Weights = Weights.TRAINED
    round: str = DEFAULT_ROUND
    """Name of the round whose rules hold."""
    precision: Precision | None = None
    """None: the backend's first."""
    transform: str = ""
    """Transforms of the model, in the order in which they apply, with a space between them; empty: none."""
    wants_accuracy: bool = True
    entry: EntryDemand = ANY_ENTRY
    """The entry of a submission that it is made for."""
    power: str = AUTO
    """A power meter's name; ``auto``: all that can measure here; ``none``."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the command line, as text, or of a function's caller."""
    suite_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the suite file that the run stands in."""
    results: Path = field(default_factory=results_folder)
    tag: str = ""
    """The set of runs that it belongs to."""
    repeat: int = 1
    """Number of the repeat, from 1."""
    network: NetworkDemand | None = None
    """The nodes that answer its samples; None: this machine does."""
    is_probe: bool = False
    """Whether a search makes it, for its speed alone: the overhead is not measured."""
    partner: JobSpec | None = None
    """The stored other run of an interleaved pair: both engines compute side by side once this run is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRequest(RunRequest):
    """A request that `resolve` looked into: what a run, its claim and its record go by from there on.

    `settings` follow from the fields of the request. A copy may have another ``tag`` or ``repeat``; for other changes
    the request is to be resolved again.
    """

    precision: Precision
    settings: Settings
    accuracy_of: Path | None = None
    """The folder of an earlier run whose accuracy test stands for this run's; None: it makes its own."""
    audit: AuditRecord | None = None
    """The compliance test that the run is; None: a run for a result."""
    replay: ReplayRecord | None = None
    """The run that it replays; None: it replays none."""

    def spec(self, folder: Path) -> JobSpec:
        """Return what its processes are asked, as far as the request alone says it; ``folder`` is the run's."""
        return JobSpec(
            workload=self.workload,
            backend=self.backend,
            scenario=self.scenario,
            profile=self.profile,
            tier=self.tier,
            weights=self.weights,
            precision=self.precision,
            round=self.round,
            transform=self.transform,
            settings=self.settings.plain() | (self.replay.chosen if self.replay else {}),
            folder=str(folder.resolve()),
            variant=self.entry.variant,
            division=self.entry.division,
        )

    @property
    def has_nodes(self) -> bool:
        """Whether other machines answer its samples, over a network or as nodes of a cluster."""
        nodes = self.settings.by_key.get("execution.nodes")
        return self.network is not None or bool(nodes and nodes.value)


@dataclass(frozen=True, slots=True)
class Undefined:
    """A combination of a workload and a scenario that the rules do not define."""

    workload: str
    scenario: str
    category: Category | None = None
    """The category of the entries that were asked for."""
    round: str = DEFAULT_ROUND
    elsewhere: tuple[str, ...] = ()
    """Rounds that define it."""

    def __str__(self) -> str:
        where = f" for {self.category} systems" if self.category else ""
        of = "" if self.round == DEFAULT_ROUND else f" of {self.round}"
        others = f" Those of {', '.join(self.elsewhere)} do: see --round." if self.elsewhere else ""
        return f"{self.workload} {self.scenario}: the rules{of} do not define this combination{where}.{others}"


def combinations(  # noqa: PLR0913 - the axes of a matrix
    plugins: Plugins,
    workloads: Sequence[str],
    backends: Sequence[str],
    scenarios: Sequence[str],
    precision: Precision | None = None,
    *,
    transform: str = "",
    entry: EntryDemand = ANY_ENTRY,
    round: str = DEFAULT_ROUND,
    **common: Any,
) -> Iterator[RunRequest | Undefined]:
    """Yield a request for each combination, workload by workload.

    An empty axis stands for all workloads that have the entry, the best backend that offers the precision, or all
    scenarios that the rules define or its category requires: first the one that sends all samples at once, in which an
    accuracy test that others may share takes least.

    Raises:
        MlbenchError: a name is unknown, its plugin broken, or a workload that is named has no such entry.
    """
    named = [plugins.scenario(name) for name in scenarios]
    every = sorted(plugins.scenarios.values(), key=lambda each: not each.sends_all_at_once)
    default = [name for name, each in plugins.workloads.items() if each.is_default]
    given = {**common.get("suite_settings", {}), **common.get("overrides", {})}
    chosen = workloads or _having(entry, default, plugins, round_named(round))
    transform = spell_chain(transform, plugins)
    for workload in [plugins.workload_of(name, given) for name in chosen]:
        rules = rules_of(workload, round_named(round))
        settled, defined = _entry_of(entry, transform, plugins, rules), entry.scenarios(rules)
        settled = settled.settle(workload.name, rules)
        for backend in [plugins.backend(name) for name in backends] or [plugins.best_backend(precision)]:
            for scenario in named or every:
                is_possible = scenario.official in defined or (scenario.is_beyond_rules and not entry.category)
                if is_possible and (named or scenario.name in (workload.default_scenarios or defined)):
                    yield RunRequest(
                        workload=workload.name,
                        backend=backend.name,
                        scenario=scenario.name,
                        precision=precision,
                        transform=transform,
                        entry=settled,
                        round=round,
                        **common | ({"profile": workload.only_profile} if workload.only_profile else {}),
                    )
                elif named:
                    others = rounds_with(rules.name, scenario=scenario.official, category=entry.category or "")
                    elsewhere = tuple(others) if rules.is_official else ()
                    yield Undefined(workload.name, scenario.name, entry.category, round, elsewhere)


def _entry_of(entry: EntryDemand, transform: str, plugins: Plugins, rules: WorkloadRules) -> EntryDemand:
    """Return the entry that a run of transforms is made for: an open one, unless the closed division allows them all.

    A workload with its own rules has no entries.
    """
    is_allowed = all(each.is_closed for each in choose_transforms(transform, plugins))
    is_open = rules.variants and not is_allowed and entry.division is Division.CLOSED
    return replace(entry, division=Division.OPEN) if is_open else entry


def _having(entry: EntryDemand, names: Sequence[str], plugins: Plugins, of: Round) -> Sequence[str]:
    """Return the workloads that have an entry in a round."""
    found, errors = [], []
    for name in names:
        try:
            entry.settle(name, rules_of(plugins.workload(name), of))
        except UsageError as error:
            errors.append(error)
        else:
            found.append(name)
    if errors and not found:
        raise errors[0]
    return found


def settings_of(request: RunRequest, plugins: Plugins) -> Settings:
    """Return every setting of a run, and where it comes from.

    Raises:
        MlbenchError: a name is unknown, or a setting unknown or of the wrong type.
    """
    backend, given = plugins.backend(request.backend), {**request.suite_settings, **request.overrides}
    workload = plugins.workload_of(request.workload, given)
    if "workload.perplexity" in given and not hasattr(workload.options, "perplexity"):
        raise UsageError(f"{request.workload} has no perplexity to measure.", hint="Leave out --also perplexity.")
    run_conditions = RunConditions(
        workload=workload,
        backend=backend,
        scenario=plugins.scenario(request.scenario),
        profile=request.profile,
        tier=request.tier,
        round=request.round,
        precision=request.precision or _probe(request, plugins).precisions[0],
    )
    settings = _resolve_layers(request, run_conditions)
    if _memory_of(request, settings, plugins) is Memory.DEVICE:
        settings = _resolve_layers(request, replace(run_conditions, memory=Memory.DEVICE))
    return settings


def _resolve_layers(request: RunRequest, run_conditions: RunConditions) -> Settings:
    """Return the settings from every layer."""
    reads_fetched = request.profile is Profile.FULL and request.weights is Weights.TRAINED
    return resolve_settings(
        run_conditions,
        tuned_file=tuned_settings_file(),
        system_file=system_settings_file(),
        data=fetched_settings(run_conditions.workload, data_folder()) if reads_fetched else {},
        suite=request.suite_settings,
        command_line=request.overrides,
    )


def _memory_of(request: RunRequest, settings: Settings, plugins: Plugins) -> Memory:
    """Return where the backend computes by these settings; its runtime is asked only where it has more than a CPU.

    What other machines have is not known; a device that is not here is the run's to report.
    """
    if request.network or settings.by_key["execution.nodes"].value or set(_probe(request, plugins).devices) <= {"cpu"}:
        return Memory.HOST
    backend = plugins.backend(request.backend)
    with suppress(PluginError):
        return call_plugin(backend.with_options(settings.fill("backend", backend.options)).memory)
    return Memory.HOST


def resolve(request: RunRequest, plugins: Plugins) -> ResolvedRequest:
    """Return a request with its precision and settings, after checking it before anything runs.

    Raises:
        MlbenchError: a name or setting is wrong, the backend cannot run here, or does not offer the precision.
    """
    return resolve_with(settings_of(request, plugins), request, plugins)


def resolve_with(settings: Settings, request: RunRequest, plugins: Plugins) -> ResolvedRequest:
    """Return a request with its precision and these settings; raises as `resolve`."""
    scenario, plan = plugins.scenario(request.scenario), settings.fill("execution", EnginePlan())
    check_network(request.network, request.entry, scenario, plan)
    check_cluster(plan, scenario, has_network=request.network is not None)
    if not plan.nodes:  # else each node looks at its own cores
        check_demand(plan, scenario)
    if request.network:
        request.network.check_served(request.workload, request.backend, request.profile, request.weights)
    if request.power not in (AUTO, NONE) and (request.network or plan.nodes):
        raise UsageError(f"power meter {request.power} cannot measure other machines.", hint="Use --power none.")
    if request.power not in (AUTO, NONE) and (reason := plugins.meter_fault(request.power)):
        raise UnavailableError(f"power meter {request.power} cannot measure here: {reason}.")
    probe = _probe(request, plugins)
    if not probe.is_available:
        raise UnavailableError(f"backend {request.backend} cannot run here: {probe.reason}.", hint=probe.install)
    if request.precision and request.precision not in probe.precisions:
        offered = ", ".join(probe.precisions)
        raise UsageError(
            f"{request.backend} does not offer precision {request.precision}.", hint=f"It offers: {offered}."
        )
    _check_transforms(request, plugins)
    if "workload.perplexity" in settings.by_key and settings.by_key["workload.perplexity"].value is True:
        _check_perplexity(request, plan, plugins)
    return ResolvedRequest(
        **{each.name: getattr(request, each.name) for each in fields(RunRequest)}
        | {
            "precision": request.precision or probe.precisions[0],
            "transform": spell_chain(request.transform, plugins),
            "settings": settings,
            "entry": request.entry.settle(request.workload, request_rules(request, plugins)),
        }
    )


def _check_transforms(request: RunRequest, plugins: Plugins) -> None:
    """Raise `UsageError` where an engine would run the untouched model."""
    if not request.transform:
        return
    if request.network:
        reason = f"transform {request.transform} is asked of nodes, which serve their own models."
        raise UsageError(reason, hint="Leave out --transform, or the nodes.")
    backend = plugins.backend(request.backend)
    for each in choose_transforms(request.transform, plugins):
        if each.writes_files and not backend.loads_files:
            reason = f"transform {each.text} writes a folder of weights, which {request.backend} does not load."
            raise UsageError(reason, hint="Choose a backend that does: vllm.")
        if not each.writes_files and not isinstance(backend, GraphBackend):
            reason = f"{request.backend} compiles no graphs, so transform {each.text} would change nothing."
            raise UsageError(reason, hint="Choose a backend that does: pytorch, onnxruntime.")


def _check_perplexity(request: RunRequest, plan: EnginePlan, plugins: Plugins) -> None:
    """Raise `UsageError` where no perplexity can be measured."""
    if request.network or plan.nodes:
        raise UsageError("perplexity is asked of nodes, which return answers alone.", hint="Leave one of them out.")
    if not isinstance(plugins.backend(request.backend), GraphBackend):
        reason = f"{request.backend} compiles no graphs, so it has no logits to measure a perplexity by."
        raise UsageError(reason, hint="Choose a backend that does: pytorch, onnxruntime.")
    if request.weights is Weights.RANDOM:
        raise UsageError("perplexity is asked of random weights, whose data has no right answers.")


def request_rules(request: RunRequest, plugins: Plugins) -> WorkloadRules:
    """Return the rules of a request's workload in its round.

    Raises:
        UsageError: there is no such round, or it does not have the workload.
        MlbenchError: the workload is unknown, or its plugin broken.
    """
    return rules_of(plugins.workload(request.workload), round_named(request.round))


def _probe(request: RunRequest, plugins: Plugins) -> Probe:
    """Return the precisions that the backend offers where it will run."""
    return request.network.probe if request.network else plugins.probe(request.backend)
