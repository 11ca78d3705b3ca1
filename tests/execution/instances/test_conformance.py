"""The kit's checks of engines, on the null backend in two processes."""

import os
from dataclasses import asdict
from pathlib import Path

import pytest
from mlbench_null.backend import Null

from mlbench import GenerationProgram, Precision, UsageError
from mlbench.conformance.engine_checks import ENGINE_CHECKS, LIFE_CHECKS
from mlbench.conformance.known_answers import TokenLists
from mlbench.conformance.loadgen_checks import LOADGEN_CHECKS
from mlbench.conformance.subject import Subject
from mlbench.execution.cores import Core
from mlbench.execution.instances import engine as module
from mlbench.execution.instances.engine import Building, ReplicatedEngine

pytestmark = pytest.mark.thorough("kit")


class Loaded(ReplicatedEngine):
    """Has every sample loaded where it answers, as the kit has where it asks."""

    def __enter__(self):
        super().__enter__()
        self.library.load(range(self.library.count))
        return self


class ReplicatedNull(Null):
    def engine(self, model, plan):
        if isinstance(model.program, GenerationProgram):
            raise UsageError("the parts build engines of batches alone.")
        building = Building(builder="replicated_parts:null", payload=asdict(plan))
        return Loaded(building, 2, model, plan, TokenLists())


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    """Let instances import the parts, and have a core each whatever this machine has."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    core = Core(0, (min(os.sched_getaffinity(0)),))
    monkeypatch.setattr(module, "cores_for", lambda count: [core] * count)


@pytest.mark.parametrize("check", [*LIFE_CHECKS, *ENGINE_CHECKS, *LOADGEN_CHECKS], ids=lambda check: check.__name__)
def test_two_processes_keep_the_contract_of_an_engine(check):
    check(Subject(backend=ReplicatedNull(), precision=Precision.FP32))
