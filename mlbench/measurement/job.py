"""A run, resolved: names become objects, settings become dataclasses, limits a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlbench.contracts.backend import Backend, EnginePlan
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.contracts.precision import Precision
from mlbench.contracts.rules import Tokens
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.contracts.transform import Transform
from mlbench.contracts.workload import Memory, Profile, Variant, Weights, Workload
from mlbench.discovery import Plugins
from mlbench.execution.processes.channel import Channel
from mlbench.execution.transforming import apply_transforms
from mlbench.loadgen.settings import Mode, Seeds, Test, TokenRules, demand_of
from mlbench.loadgen.watchdog import ProgressCallbacks
from mlbench.records.facts import TRANSFORMED
from mlbench.records.job_spec import JobSpec, ModelSpec
from mlbench.rules.entry_demand import Division
from mlbench.rules.official import WorkloadRules, round_named
from mlbench.rules.own import rules_of
from mlbench.rules.tiers import RunLimits, Tier, latency_limits, with_own_limits
from mlbench.settings.layers import Settings
from mlbench.settings.transforms import choose_transforms
from mlbench.toolkit.language.hugging_face import weights_fingerprint
from mlbench.wire.load_progress import LoadProgress, SampleCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A resolved run: the parent process's decisions, as objects."""

    spec: JobSpec
    """The same run as names and values."""
    workload: Workload
    rules: WorkloadRules
    """The workload's in the run's round."""
    backend: Backend
    scenario: Scenario
    tier: Tier
    division: Division
    variant: Variant
    plan: EnginePlan
    load: LoadSettings
    folder: Path
    transforms: Sequence[Transform] = ()
    """Changes of the workload's model, in the order in which they apply."""

    def model(self) -> Model:
        """Return the model that is run: the workload's, transformed; raises as `apply_transforms`."""
        return apply_transforms(self.workload.model(self.variant), self.transforms)

    @classmethod
    def of_spec(
        cls, spec: JobSpec, plugins: Plugins, backend: Backend | None = None, memory: Memory | None = None
    ) -> Job:
        """Find plugins by name, and fill dataclasses with settings by key.

        ``backend`` stands for the one that is named; its settings are left alone. ``memory`` stands for the backend's,
        where nothing is computed: its device may be on another machine.

        Raises:
            MlbenchError: a plugin is not installed here, or broken; or a limit of the user's is not stricter.
            ValueError: a setting is of the wrong type.
        """
        settings = Settings.of_plain(spec.settings)
        workload = plugins.workload_of(spec.workload, spec.settings)
        if backend is None:
            named = plugins.backend(spec.backend)
            backend = named.with_options(settings.fill("backend", named.options)).in_folder(Path(spec.folder))
        load, rules = settings.fill("load", LoadSettings()), rules_of(workload, round_named(spec.round))
        scenario = rules.adapt(plugins.scenario(spec.scenario))
        plan = settings.fill("execution", EnginePlan(precision=Precision(spec.precision)))
        if not plan.longest_batch_ms:
            limits = with_own_limits(latency_limits(rules, workload, scenario, Profile(spec.profile)), load)
            plan = replace(plan, longest_batch_ms=limits.server_latency_ms or 0.0)
        return cls(
            spec=spec,
            workload=workload,
            rules=rules,
            backend=backend,
            scenario=scenario,
            tier=Tier(spec.tier),
            division=Division(spec.division),
            variant=replace(workload_variant(workload, spec), memory=memory or backend.memory()),
            plan=plan,
            load=load,
            folder=Path(spec.folder),
            transforms=choose_transforms(spec.transform, plugins),
        )


def workload_variant(workload: Workload, spec: JobSpec | ModelSpec) -> Variant:
    """Return the variant of a workload that is asked for.

    Raises:
        ValueError: a setting is of the wrong type.
    """
    return Variant(
        profile=Profile(spec.profile),
        weights=Weights(spec.weights),
        options=Settings.of_plain(spec.settings).fill("workload", workload.options),
        precision=Precision(spec.precision) if isinstance(spec, JobSpec) else Precision.FP32,
        round=spec.round if isinstance(spec, JobSpec) else "",
    )


def model_fingerprints(job: Job) -> dict[str, str]:
    """Return the hashes of a job's untouched model, and of the graphs that transforms changed."""
    untouched = job.workload.model(job.variant)
    found = {f"graph {name}": graph.fingerprint for name, graph in untouched.graphs.items()}
    if job.transforms:
        changed = apply_transforms(untouched, job.transforms)
        found |= {f"{TRANSFORMED}{name}": graph.fingerprint for name, graph in changed.graphs.items()}
        found |= {f"{TRANSFORMED}files": weights_fingerprint(changed.files)} if changed.files else {}
    return {"weights": untouched.weights_fingerprint, **found}


def callbacks_to(channel: Channel, stage: str, test: Test, sample_count: int) -> ProgressCallbacks:
    """Return callbacks that report a test's progress to the parent process; if LoadGen hangs, this process ends.

    ``sample_count`` is the dataset's.
    """
    demand = demand_of(test, sample_count)

    def answered(counts: SampleCounts) -> None:
        channel.progress(stage, LoadProgress(counts=counts, demand=demand))

    return ProgressCallbacks(answered=answered, stuck=channel.stuck)


def test_of(job: Job, model: Model, limits: RunLimits, load: LoadSettings, mode: Mode) -> Test:
    """Return the test that a job asks of LoadGen under these limits."""
    seeds = limits.seeds
    tokens = TokenRules(ttft_ms=limits.ttft_ms or 0, tpot_ms=limits.tpot_ms or 0)
    return Test(
        scenario=job.scenario,
        mode=mode,
        load=load,
        reply=model.program.reply,
        seeds=Seeds(
            qsl=seeds.qsl,
            sample_index=seeds.sample_index,
            schedule=seeds.schedule,
            accuracy_log=job.rules.round.seeds.accuracy_log,
        ),
        server_latency_ms=limits.server_latency_ms,
        tokens=tokens if limits.tokens is Tokens.MEASURED else None,
        inferred_tokens=job.rules.tokens_per_sample,
        equal_issue=limits.equal_issue,
        longest_answer=_longest_answer(model),
        is_remote=job.spec.network is not None or job.plan.nodes > 0,
    )


def _longest_answer(model: Model) -> int:
    program = model.program
    return program.decoding.max_new_tokens if isinstance(program, GenerationProgram) else 1
