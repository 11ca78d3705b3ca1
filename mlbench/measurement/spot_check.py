"""Unseen content, sent right after the measurement.

LoadGen sends the same samples again and again, and the accuracy test sends them all. An engine that remembers answers,
by index or by content, is fast without computing. Here it gets samples that never existed: its own answers continued as
prompts, or samples changed at equal cost. New content and content that was answered before are timed alternately, and
the answers are checked as far as they are known. None of this is in LoadGen's time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from itertools import count

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.metric import LoggedReply
from mlbench.contracts.model import Model
from mlbench.contracts.scenario import LoadSettings
from mlbench.execution.processes.channel import Channel
from mlbench.loadgen.drive import Traffic
from mlbench.loadgen.logs import DETAIL, read_accuracy, read_detail, samples_per_s
from mlbench.loadgen.settings import Mode
from mlbench.measurement.job import Job
from mlbench.measurement.running_engine import RunningEngine
from mlbench.measurement.spot_contents import CHANCE, Asked, Known, can_continue, contents
from mlbench.measurement.spot_times import Measured, Times, times
from mlbench.rules.facts import SpotCheck

logger = logging.getLogger(__name__)

SPOT_CHECK = "spot check"
"""The stage of a run."""

NO_MORE_THAN_SPEED = "a search needs no more than the speed"
"""Reason why a probe of a search has no spot check and no overhead."""

_LEAST_BUDGET_S = 1.0
_BUDGET_SHARE = 0.02
"""Time of a burst at the measured speed, as a share of the performance test's duration. An honest run has two
bursts."""

_MOST_PROMPTS = 64
_MOST_SAMPLES = 16


def spot_check(  # noqa: PLR0913, PLR0917 - a run has these parts
    ready: RunningEngine,
    job: Job,
    model: Model,
    dataset: Dataset,
    load: LoadSettings,
    traffic: Traffic,
    channel: Channel,
) -> tuple[SpotCheck | None, str, Times]:
    """Return how the engine handles unseen content, or why that was not tested, and what was timed.

    Args:
        ready: the engine, measured just now.
        job: the run.
        model: says what kind of answers there are.
        dataset: of this process.
        load: how LoadGen drove the performance test.
        traffic: the performance test's.
        channel: to the parent, which times bursts.
    """
    if job.spec.is_probe:
        return None, NO_MORE_THAN_SPEED, Times()
    if traffic.faults:
        return None, "there were invalid replies", Times()
    folder = job.folder / Mode.PERFORMANCE
    rate_per_s = samples_per_s(read_detail(folder / DETAIL), job.scenario)
    kept = {reply.index: reply for reply in read_accuracy(folder / "mlperf_log_accuracy.json") if reply.data}
    if not kept or not rate_per_s:
        return None, "no reply of the performance run was kept", Times()
    is_generated = isinstance(model.program, GenerationProgram)
    bases = CHANCE.sample(sorted(kept), min(len(kept), _MOST_PROMPTS if is_generated else _MOST_SAMPLES))
    asked = Asked(
        engine=ready.engine,
        dataset=ready.dataset,
        vary=ready.vary,
        look_at=dataset.sample,
        model=model,
        timeout_s=job.load.stall_timeout_s,
        new_indices=count(dataset.count),
        note=partial(channel.progress, SPOT_CHECK),
    )
    measured = Measured(
        samples_per_s=rate_per_s,
        query=job.scenario.query_size(load) if job.scenario.waits_for_answers else None,
        budget_s=max(_LEAST_BUDGET_S, _BUDGET_SHARE * load.min_duration_ms / 1000),
    )
    started_s = time.monotonic()
    loaders = {id(loader): loader for loader in (ready.dataset, dataset)}.values()
    for loader in loaders:
        loader.load(bases)
    fit = [base for base in bases if not is_generated or can_continue(asked, kept[base])]
    found, timed = _found(asked, measured, {base: kept[base] for base in fit}) if fit else (None, Times())
    for loader in loaders:
        loader.unload(bases)
    logger.info("%s, in %.1f s", found, time.monotonic() - started_s)
    return found, "" if found else "no answer kept while measuring can be continued", timed


def _found(asked: Asked, measured: Measured, kept: Mapping[int, LoggedReply]) -> tuple[SpotCheck, Times]:
    bases = list(kept)
    answered = contents(asked, kept, bases, most=int(measured.budget_s * measured.samples_per_s))
    timed = times(asked, measured, kept, bases)
    known = answered.worst
    if timed.failed:
        known = Known(kind="changed", asked=len(timed.failed), wrong=list(timed.failed))
    found = SpotCheck(
        repeated=timed.repeated,
        claimed=timed.claimed,
        untimed_reason=timed.reason,
        asked=known.asked,
        wrong=tuple(known.wrong),
        kind=known.kind,
        first_token_steps=max(answered.steps, default=None),
    )
    return found, timed
