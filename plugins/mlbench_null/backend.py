"""The null backend: answers every sample with zeros, at once or after a set delay."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlbench import Backend, Engine, EnginePlan, Model, Precision, Probe, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class NullOptions:
    """What can be set on the null backend."""

    delay_ms: float = 0
    """How long after its arrival a query is answered; 0: at once, on the thread that brings it."""


class Null(Backend):
    """Answers with zeros of the right form: misses every accuracy target, and shows what the harness costs."""

    name = "null"
    title = "answers zeros without computing: measures the harness itself"
    options = NullOptions()

    def probe(self) -> Probe:
        """Say that it runs anywhere, and that it is never to be chosen by default."""
        return Probe(is_available=True, devices=("none",), precisions=(Precision.FP32,), rank=-100)

    def engine(self, model: Model, plan: EnginePlan) -> Engine:
        """Return an engine that answers in the model's form; graphs, batching and precision are nothing to it."""
        from mlbench_null.engine import DelayedEngine, NullEngine, Zeros

        delay_ms = self.options.delay_ms
        if not (math.isfinite(delay_ms) and delay_ms >= 0):
            raise UsageError(f"backend.delay_ms is {delay_ms}.", hint="Give milliseconds, 0 or more.")
        answers = Zeros(model.program.reply)
        return DelayedEngine(answers, round(delay_ms * 1e6)) if delay_ms else NullEngine(answers)
