"""Which device an instance sees, whatever it makes of it."""

import os
from pathlib import Path

import pytest

from mlbench import EnginePlan, UsageError
from mlbench.execution import devices
from mlbench.execution.cores import Core
from mlbench.execution.instances import engine as module
from mlbench.execution.instances.engine import Building, ReplicatedEngine
from mlbench.execution.instances.resource_check import check_demand
from mlbench.loadgen.scenarios import OFFLINE

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def two_gpus(tmp_path, monkeypatch):
    """Let the parts be imported, and nvidia-smi list two GPUs; let there be cores enough, all on one node."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\ncase $1 in --query*) echo '0, GPU-a, 00000000:01:00.0'; echo '1, GPU-b, 00000000:02:00.0';; esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "PCI_DEVICES", tmp_path / "pci")
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    allowed = sorted(os.sched_getaffinity(0))
    monkeypatch.setattr(
        module, "cores_for", lambda count: [Core(0, (allowed[place % len(allowed)],)) for place in range(count)]
    )


def opened(count, **plan):
    import replicated_parts

    plan = {"instances": count, **plan}
    building = Building(builder="replicated_parts:seeing", payload=plan)
    return ReplicatedEngine(building, count, replicated_parts.model(), EnginePlan(**plan), replicated_parts.Numbers())


def test_each_instance_sees_a_device_alone_and_those_beyond_the_devices_share_them():
    with opened(3, devices="1,GPU-a") as engine:
        runtime, counted = engine.runtime(), engine.statistics()
    assert [each["seen"] for each in runtime.extra["by_instance"]] == ["1", "0", "1"]
    assert runtime.extra["place"] == [0, 1], "the one device that it sees is its first"
    assert [each.device for each in counted.by_instance] == ["1", "0", "1"]


@pytest.mark.thorough("engines")
def test_without_names_each_instance_sees_all_and_is_told_its_number():
    with opened(2) as engine:
        runtime, counted = engine.runtime(), engine.statistics()
    assert runtime.extra["seen"] is None
    assert [each["place"] for each in runtime.extra["by_instance"]] == [[0, 2], [1, 2]]
    assert [each.device for each in counted.by_instance] == ["", ""]


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"devices": "0,1"}, r"^execution.instances is 1, and execution.devices names 2\. Give at least as many"),
        ({"devices": "0", "instances": "auto"}, r"^execution.instances is auto, and execution.devices names 1\."),
        ({"devices": "7"}, "^execution.devices has 7, and nvidia-smi lists 0, GPU-a, 1, GPU-b"),
    ],
)
def test_a_device_without_an_instance_and_one_that_is_not_there_are_refused(plan, told):
    with pytest.raises(UsageError, match=told):
        check_demand(EnginePlan(**plan), OFFLINE)
    check_demand(EnginePlan(devices="1"), OFFLINE)
