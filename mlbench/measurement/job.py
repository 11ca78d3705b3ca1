"""A run, resolved: names become objects, settings become dataclasses, limits a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlbench.contracts.backend import Backend, EnginePlan
from mlbench.contracts.graph import Precision
from mlbench.contracts.model import Model
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.contracts.workload import Profile, Variant, Weights, Workload
from mlbench.discovery import Plugins
from mlbench.execution.channel import Channel
from mlbench.loadgen.settings import Mode, Seeds, Test, TokenRules
from mlbench.loadgen.watchdog import ProgressCallbacks
from mlbench.rules.official import SEEDS, Tokens, official_rules
from mlbench.rules.tiers import RunLimits, Tier
from mlbench.tuning import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run, resolved: what the parent process decided, as objects."""

    workload: Workload
    backend: Backend
    scenario: Scenario
    tier: Tier
    variant: Variant
    plan: EnginePlan
    load: LoadSettings
    wants_accuracy: bool
    uncounted: str
    """Why the work of graph calls is not counted, which takes a process and some seconds; empty: it is."""
    folder: Path

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any], plugins: Plugins) -> Job:
        """Rebuild a job in the child: plugins by name, settings by key."""
        settings = Settings.of_plain(payload["settings"])
        workload, backend = plugins.workload(payload["workload"]), plugins.backend(payload["backend"])
        plan = settings.fill("execution", EnginePlan(precision=Precision(payload["precision"])))
        return cls(
            workload=workload,
            backend=backend.with_options(settings.fill("backend", backend.options)),
            scenario=plugins.scenario(payload["scenario"]),
            tier=Tier(payload["tier"]),
            variant=Variant(
                profile=Profile(payload["profile"]),
                weights=Weights(payload["weights"]),
                options=settings.fill("workload", workload.options),
            ),
            plan=plan,
            load=settings.fill("load", LoadSettings()),
            wants_accuracy=payload["wants_accuracy"],
            uncounted=payload["uncounted"],
            folder=Path(payload["folder"]),
        )


def callbacks_to(channel: Channel, stage: str) -> ProgressCallbacks:
    """Return callbacks that tell the parent process how a test goes; where LoadGen will not return, this one ends."""
    return ProgressCallbacks(answered=lambda count: channel.progress(stage, answered=count), stuck=channel.stuck)


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
            accuracy_log=SEEDS.accuracy_log,
        ),
        server_latency_ms=limits.server_latency_ms,
        tokens=tokens if limits.tokens is Tokens.MEASURED else None,
        inferred_tokens=official_rules(job.workload.rules).tokens_per_sample,
        equal_issue=limits.equal_issue,
    )
