"""The kit as pytest classes: subclass one, give it a ``backend`` fixture, and each check is a test."""

from __future__ import annotations

import faulthandler
import os
import sys
from typing import NoReturn

import pytest

from mlbench.conformance.kit import CHECKS_OF_ENGINES, CHECKS_OF_GRAPHS
from mlbench.conformance.subject import Check, Subject
from mlbench.contracts.backend import Backend
from mlbench.contracts.graph import Precision


def _name(check: Check) -> str:
    return check.__name__


def _end_session(reason: str) -> NoReturn:
    """End the whole process: LoadGen holds its thread, and would for ever."""
    print(f"\nmlbench: {reason}", file=sys.__stderr__, flush=True)
    faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
    os._exit(3)


class EngineConformance:
    """For any backend. A subclass gives the fixture ``backend``; tests are skipped where the backend cannot run."""

    precision: Precision | None = None
    """What to compute in; None: what the backend prefers."""

    @pytest.fixture
    def subject(self, backend: Backend) -> Subject:
        """Return the backend under test."""
        probe = backend.probe()
        if not probe.is_available:
            pytest.skip(f"{backend.name}: {probe.reason}; {probe.install}")
        precision = self.precision or probe.precisions[0]
        return Subject(backend=backend, precision=precision, on_stuck=_end_session)

    @pytest.mark.parametrize("check", CHECKS_OF_ENGINES, ids=_name)
    def test_engine(self, subject: Subject, check: Check) -> None:
        """The engine keeps its contract."""
        check(subject)


class GraphBackendConformance(EngineConformance):
    """For a backend that compiles graphs."""

    @pytest.mark.parametrize("check", CHECKS_OF_GRAPHS, ids=_name)
    def test_graph(self, subject: Subject, check: Check) -> None:
        """Compiled graphs keep their contract."""
        check(subject)
