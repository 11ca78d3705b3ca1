import os

import pytest

from mlbench import EnginePlan, UsageError
from mlbench.execution.instances.resource_check import check_demand
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER


@pytest.fixture(autouse=True)
def four_cores(monkeypatch, no_quota):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(1000, 1004)))


@pytest.mark.parametrize(
    ("instances", "told"),
    [
        (0, r"^execution.instances is 0, and this process may use 4 physical cores\. Expected 1 to 4, or auto\.$"),
        (-2, "^execution.instances is -2,"),
        (5, "^execution.instances is 5, and this process may use 4 physical cores"),
    ],
)
def test_fewer_than_one_and_more_than_cores_are_refused_with_the_number(instances, told):
    with pytest.raises(UsageError, match=told):
        check_demand(EnginePlan(instances=instances), OFFLINE)


def test_a_sweep_needs_offline():
    with pytest.raises(UsageError, match=r"^execution\.instances is auto in Server"):
        check_demand(EnginePlan(instances="auto"), SERVER)
    check_demand(EnginePlan(instances="auto"), OFFLINE)
    check_demand(EnginePlan(instances=4), SERVER)
    check_demand(EnginePlan(instances=4, batching="inline"), MULTI_STREAM)
