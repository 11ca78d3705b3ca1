"""A workload on trial: its mini profile, answered by a backend in several ways."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mlbench.conformance.damage import DamagedGraph
from mlbench.conformance.preparation import mini_variant
from mlbench.conformance.recording import RecordingReply
from mlbench.contracts.backend import Backend, EnginePlan
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Samples
from mlbench.contracts.graph import Graph
from mlbench.contracts.metric import LoggedReply, Metric
from mlbench.contracts.model import Model
from mlbench.contracts.precision import Precision
from mlbench.contracts.workload import Workload
from mlbench.errors import ConformanceError, InvalidRunError
from mlbench.execution.engine_choice import engine_of
from mlbench.rules.scoring import Accuracy, score

if TYPE_CHECKING:
    from mlbench.conformance.damage import Change

BATCH = 16

REPORT_PERIOD_S = 1.0
"""How often answers are reported as a sign of life, at most."""


class WorkloadTrial:
    """A workload with a backend that computes it; what was answered once is kept for the checks after."""

    def __init__(self, workload: Workload, backend: Backend, settings: Mapping[str, str]) -> None:
        """Store what is on trial."""
        self.workload = workload
        self.backend = backend
        self.settings = settings
        self.variant = mini_variant(workload, settings)
        self.on_progress: Callable[[], None] = lambda: None
        self._next_report_s = 0.0

    @cached_property
    def dataset(self) -> Dataset:
        """The data, all of it loaded."""
        dataset = self.workload.dataset(self.variant)
        dataset.load(range(dataset.count))
        return dataset

    @cached_property
    def honest(self) -> list[LoggedReply]:
        """The backend's answer to each sample."""
        return self.answer()

    def metric(self) -> Metric:
        """Return the metric.

        Raises:
            ConformanceError: there is none, though the weights are trained.
        """
        metric = self.workload.metric(self.variant, self.dataset)
        if metric is None:
            raise ConformanceError("metric() returned None for trained weights.", hint="Return the metric.")
        return metric

    def answer(  # noqa: PLR0913 - the ways to answer
        self,
        *,
        backend: Backend | None = None,
        model: Model | None = None,
        change: Change | None = None,
        samples: int | None = None,
        batch: int = BATCH,
        patience_s: float = 3600.0,
    ) -> list[LoggedReply]:
        """Return the answers to all samples, in their order.

        Args:
            backend: another one than the trial's.
            model: another one than the workload's.
            change: what is done to the modules of all graphs.
            samples: the first ones alone; None: all.
            batch: of how many samples.
            patience_s: how long all of them may take.

        Raises:
            ConformanceError: a sample was given up, or not answered.
        """
        model = model or self.workload.model(self.variant)
        if change:
            graphs: Mapping[str, Graph] = {name: DamagedGraph(each, change) for name, each in model.graphs.items()}
            model = dataclasses.replace(model, graphs=graphs)
        plan = EnginePlan(precision=Precision.FP32, batch=batch, batching="bucketed")
        indices = range(self.dataset.count)[:samples]
        query, reply = Samples(indices, indices, self.dataset), RecordingReply(self._report_progress)
        with engine_of(backend or self.backend, model, plan) as engine:
            self.on_progress()
            engine.submit(query, reply)
            engine.flush()
            is_done = reply.wait(query, patience_s)
        if not is_done or reply.failures:
            reason = next(iter(reply.failures.values()), [f"not all was answered in {patience_s:g} s"])[0]
            raise ConformanceError(f"the program gave no answer: {reason}.", hint="The log has its output.")
        return [
            LoggedReply(index=index, data=np.asarray(answer).tobytes(), token_count=np.size(answer))
            for index, (answer,) in sorted(reply.answers.items())
        ]

    def _report_progress(self) -> None:
        """Give a sign of life, at most once in a while: an answer may come every few microseconds."""
        if (now_s := time.monotonic()) >= self._next_report_s:
            self._next_report_s = now_s + REPORT_PERIOD_S
            self.on_progress()

    def score(self, replies: Sequence[LoggedReply]) -> Accuracy | None:
        """Return the metric's scores of some answers; None if it refuses them."""
        try:
            return score(self.metric(), replies, Precision.FP32)
        except InvalidRunError:
            return None


@dataclass(frozen=True, kw_only=True)
class TrialSubject:
    """A workload that is computed for checks."""

    trial: WorkloadTrial
    timeout_s: float = 60.0
    """For each check, from one answer to the next."""
    on_compiled: Callable[[], None] = lambda: None
    """Called when an engine is ready, and as answers come."""
    on_stuck: Callable[[str], None] = lambda reason: None

    def __post_init__(self) -> None:
        self.trial.on_progress = self.on_compiled


@dataclass(frozen=True, kw_only=True)
class WorkloadSubject(TrialSubject):
    """What a check of a workload looks at."""

    null: Backend
    """Computes nothing."""

    @property
    def plugin(self) -> Workload:
        """The workload."""
        return self.trial.workload
