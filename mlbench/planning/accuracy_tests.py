"""The accuracy tests that runs of one command share: in ``smoke`` an engine is tested once, not in each scenario."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from mlbench.planning.requests import ResolvedRequest
from mlbench.records.run_record import RunRecord
from mlbench.rules.tiers import Tier

_KIND = ("workload", "backend", "profile", "weights", "precision", "transform", "round", "tag", "repeat", "results")
_ENGINE = ("backend.", "workload.")
"""Settings that an engine's replies depend on. Those of batching and load differ between scenarios: each run's own
replies are compared with the accuracy test's."""


class AccuracyTests:
    """Tests that met their targets, by the engine that was tested."""

    def __init__(self) -> None:
        self._folders: dict[str, Path] = {}

    def with_earlier(self, request: ResolvedRequest) -> ResolvedRequest:
        """Return a request whose run takes over an earlier test of its engine, where there is one."""
        key = engine_key(request)
        return replace(request, accuracy_of=self._folders.get(key)) if key else request

    def add(self, request: ResolvedRequest, record: RunRecord) -> None:
        """Take in the test of a run that made its own; later runs are to repeat one that missed a target."""
        if record.accuracy and record.accuracy.is_met and not record.accuracy.tested_in:
            self._folders.setdefault(engine_key(request), request.results / record.run_id)


def engine_key(request: ResolvedRequest) -> str:
    """Return a key of the engine that a request asks for; empty where its run shares no accuracy test."""
    if request.tier is not Tier.SMOKE or not request.wants_accuracy:
        return ""
    kind = [str(getattr(request, name)) for name in _KIND]
    chosen = {key: value for key, value in request.settings.plain().items() if key.startswith(_ENGINE)}
    return json.dumps([kind, str(request.entry), chosen], sort_keys=True, default=str)
