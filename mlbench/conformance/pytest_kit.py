"""The kit as pytest classes: subclass one, give it a ``backend`` fixture, and each check is a test."""

from __future__ import annotations

import faulthandler
import os
import sys
from typing import NoReturn

import pytest

from mlbench.conformance.kit import CHECKS_OF_ENGINES, CHECKS_OF_GRAPHS, CHECKS_OF_TEXT
from mlbench.conformance.subject import Check, ModelKind, ModelRefusedError, Subject
from mlbench.contracts.backend import Backend
from mlbench.contracts.precision import Precision


def _name(check: Check) -> str:
    return check.__name__


def _end_session(reason: str) -> NoReturn:
    """End the whole process: LoadGen holds its thread, and would for ever."""
    print(f"\nmlbench: {reason}", file=sys.__stderr__, flush=True)
    faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
    os._exit(3)


class _Conformance:
    """A subclass gives the fixture ``backend``; tests are skipped where the backend cannot run."""

    precision: Precision | None = None
    """Precision to compute in; None: the backend's first."""

    kind: ModelKind
    """Kinds of models that the backend must run; a refusal of others skips the test."""

    @pytest.fixture
    def subject(self, backend: Backend) -> Subject:
        """Return the backend under test."""
        probe = backend.probe()
        if not probe.is_available:
            pytest.skip(f"{backend.name}: {probe.reason}; {probe.install}")
        precision = self.precision or probe.precisions[0]
        return Subject(backend=backend, precision=precision, on_stuck=_end_session)

    def run(self, subject: Subject, check: Check) -> None:
        """Run a check."""
        try:
            check(subject)
        except ModelRefusedError as refusal:
            if refusal.kind is self.kind:
                raise
            pytest.skip(f"{subject.backend.name} refuses {refusal.kind}: {refusal}")


class EngineConformance(_Conformance):
    """For any backend whose engine answers batches. Where it refuses prompts, those tests are skipped."""

    kind = ModelKind.BATCHES

    @pytest.mark.parametrize("check", CHECKS_OF_ENGINES, ids=_name)
    def test_engine(self, subject: Subject, check: Check) -> None:
        """The engine keeps its contract."""
        self.run(subject, check)


class GraphBackendConformance(EngineConformance):
    """For a backend that compiles graphs. Where it refuses those with state, their tests are skipped."""

    @pytest.mark.parametrize("check", CHECKS_OF_GRAPHS, ids=_name)
    def test_graph(self, subject: Subject, check: Check) -> None:
        """Compiled graphs keep their contract."""
        self.run(subject, check)


class TextEngineConformance(_Conformance):
    """For a backend whose engine answers prompts by the files of a language model. It needs ``[workloads]``."""

    kind = ModelKind.PROMPTS

    @pytest.mark.parametrize("check", CHECKS_OF_TEXT, ids=_name)
    def test_text(self, subject: Subject, check: Check) -> None:
        """The engine says what the model says."""
        self.run(subject, check)
