"""The same traffic from the real LoadGen, through the same path as a run: no reply may be at fault."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from mlbench.conformance.known_answers import Scoring
from mlbench.conformance.subject import BATCH, Check, Subject, demand
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine
from mlbench.contracts.reply_spec import ReplySpec
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.toolkit.language import TokenProgram

_SAMPLES_AT_ONCE = 64
_QUERIES = 24
_SERVER_QPS = 400.0
_SERVER_LATENCY_MS = 1000
_TOKEN_LATENCY_MS = 1000


def passes_loadgen_single_stream(subject: Subject) -> None:
    """A short SingleStream test under LoadGen ends without a fault."""
    from mlbench.loadgen.scenarios import SINGLE_STREAM

    _demand_no_faults(subject, SINGLE_STREAM)


def passes_loadgen_multi_stream(subject: Subject) -> None:
    """A short MultiStream test under LoadGen ends without a fault."""
    from mlbench.loadgen.scenarios import MULTI_STREAM

    _demand_no_faults(subject, MULTI_STREAM)


def passes_loadgen_server(subject: Subject) -> None:
    """A short Server test under LoadGen ends without a fault."""
    from mlbench.loadgen.scenarios import SERVER

    _demand_no_faults(subject, SERVER)


def passes_loadgen_offline(subject: Subject) -> None:
    """A short Offline test under LoadGen ends without a fault."""
    from mlbench.loadgen.scenarios import OFFLINE

    _demand_no_faults(subject, OFFLINE)


def passes_loadgen_with_tokens(subject: Subject) -> None:
    """A short Server test of prompts, judged by tokens under LoadGen, ends without a fault."""
    from mlbench.loadgen.scenarios import SERVER

    faults = token_faults(subject, SERVER)
    demand(
        not faults,
        f"LoadGen's test by tokens has {len(faults)} faults, the first: {faults and faults[0]}.",
        "Report first tokens as integers, (n, 1), before the answers, and the lengths of answers as token_counts.",
    )


def loadgen_faults(subject: Subject, scenario: Scenario) -> list[str]:
    """Let LoadGen drive the subject for a moment in performance mode, and return a line for each unsound reply."""
    batching = scenario.settings["execution.batching"]
    batch: int | Literal["auto"] = "auto" if batching == "inline" else BATCH
    with subject.engine(batching, batch=batch) as (engine, dataset):
        faults = _drive(subject, scenario, engine, dataset, Scoring.reply)
    return faults()  # the engine has stopped: what it answered while it did counts too


def token_faults(subject: Subject, scenario: Scenario) -> list[str]:
    """Do the same with prompts."""
    with subject.generating_engine() as (engine, dataset):
        faults = _drive(subject, scenario, engine, dataset, TokenProgram.reply, is_judged_by_tokens=True)
    return faults()


def _drive(  # noqa: PLR0913 - a test has these parts
    subject: Subject,
    scenario: Scenario,
    engine: Engine,
    dataset: Dataset,
    reply: ReplySpec,
    *,
    is_judged_by_tokens: bool = False,
) -> Callable[[], list[str]]:
    """Run a short test; what is returned gives its faults, those too that come later."""
    from mlbench.loadgen.drive import drive
    from mlbench.loadgen.settings import Mode, Seeds, Test, TokenRules
    from mlbench.loadgen.watchdog import ProgressCallbacks

    load = LoadSettings(
        min_duration_ms=1,
        min_query_count=_SAMPLES_AT_ONCE if scenario.sends_all_at_once else _QUERIES,
        target_qps=_SERVER_QPS,
        expected_latency_ns=1_000_000,
        stall_timeout_s=subject.patience_s,
    )
    test = Test(
        scenario=scenario,
        mode=Mode.PERFORMANCE,
        load=load,
        reply=reply,
        seeds=Seeds(qsl=1, sample_index=2, schedule=3, accuracy_log=4),
        server_latency_ms=_SERVER_LATENCY_MS,
        tokens=TokenRules(ttft_ms=_TOKEN_LATENCY_MS, tpot_ms=_TOKEN_LATENCY_MS) if is_judged_by_tokens else None,
    )
    with tempfile.TemporaryDirectory() as folder:
        traffic = drive(test, engine, dataset, Path(folder) / "logs", ProgressCallbacks(stuck=subject.on_stuck))
    return lambda: traffic.faults


def _demand_no_faults(subject: Subject, scenario: Scenario) -> None:
    faults = loadgen_faults(subject, scenario)
    demand(
        not faults,
        f"LoadGen's {scenario.name} test has {len(faults)} faults, the first: {faults and faults[0]}.",
        "Such a run is INVALID. The other checks narrow down the cause.",
    )


LOADGEN_CHECKS: tuple[Check, ...] = (
    passes_loadgen_single_stream,
    passes_loadgen_multi_stream,
    passes_loadgen_server,
    passes_loadgen_offline,
)
"""With batches of samples."""

TOKEN_LOADGEN_CHECKS: tuple[Check, ...] = (passes_loadgen_with_tokens,)
"""With prompts."""
