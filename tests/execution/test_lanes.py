"""Parts of a machine for runs side by side. A tool's answers and the kernel's files have the documented form."""

import os

import psutil
import pytest

from mlbench import UsageError
from mlbench.execution import cores, devices, lanes
from mlbench.execution.cores import Core
from mlbench.execution.devices import Device
from mlbench.execution.lanes import Lane, make_lanes, shared_parts

SLICE, OTHER_SLICE = "MIG-63feeb45-94c6-5ef3-9ac1-c4b2cde5d0b0", "MIG-0f2b7e1d-5f54-5a3c-8a8e-2a3f3ac5c6a2"
QUERY = """0, GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77, 00000000:65:00.0
1, GPU-b1028956-cfa2-0990-bf4a-5da9abb51763, 00000000:CA:00.0
"""
LIST = f"""GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b1028956-cfa2-0990-bf4a-5da9abb51763)
  MIG 3g.20gb     Device  0: (UUID: {SLICE})
  MIG 3g.20gb     Device  1: (UUID: {OTHER_SLICE})
"""
EIGHT_CORES = [Core(number // 4, (number, number + 8)) for number in range(8)]
"""Two nodes with four cores of two threads each."""


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    monkeypatch.setattr(lanes, "physical_cores", lambda: EIGHT_CORES)


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """Lay out a machine with a GPU on node 1 and, on node 0, one that is cut into two slices."""
    tool = tmp_path / "nvidia-smi"
    (tmp_path / "query").write_text(QUERY)
    (tmp_path / "list").write_text(LIST)
    tool.write_text(f'#!/bin/sh\ncase "$1" in -L) cat {tmp_path}/list;; --query-gpu*) cat {tmp_path}/query;; esac\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "PCI_DEVICES", tmp_path / "pci")
    for address, node, processors in (("0000:65:00.0", 1, "4-7,12-15"), ("0000:ca:00.0", 0, "0-3,8-11")):
        folder = tmp_path / "pci" / address
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
        (folder / "local_cpulist").write_text(f"{processors}\n")


def processors_of(made):
    return [each.processors for each in made]


def test_lanes_are_equal_parts_of_the_cores_with_both_threads_of_each():
    assert processors_of(make_lanes(2, with_devices=False)) == [
        (0, 1, 2, 3, 8, 9, 10, 11),
        (4, 5, 6, 7, 12, 13, 14, 15),
    ]
    assert processors_of(make_lanes(8, with_devices=False)) == [(number, number + 8) for number in range(8)]


def test_a_lane_has_its_part_of_the_free_memory():
    free_bytes = psutil.virtual_memory().available
    assert make_lanes(4, with_devices=False)[0].free_bytes == pytest.approx(free_bytes / 4, rel=0.2)


def test_more_lanes_than_cores_are_refused():
    with pytest.raises(UsageError) as refused:
        make_lanes(9, with_devices=False)
    assert str(refused.value).startswith("--parallel is 9, and this process may use 8 physical cores.")


def test_a_lane_has_a_gpu_or_a_slice_and_cores_of_its_node(gpus):
    made = make_lanes(3, with_devices=True)
    assert [(each.device.name, each.processors) for each in made] == [
        ("0", (4, 5, 6, 7, 12, 13, 14, 15)),
        (SLICE, (0, 1, 8, 9)),
        (OTHER_SLICE, (2, 3, 10, 11)),
    ]
    assert made[1].environment == {"CUDA_VISIBLE_DEVICES": SLICE, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_a_gpu_that_is_cut_into_slices_is_no_device_itself(gpus):
    with pytest.raises(UsageError) as refused:
        make_lanes(4, with_devices=True)
    assert str(refused.value).startswith("--parallel is 4, and this process may use 3 devices.")


def test_a_scheduler_says_which_devices_there_are(gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{OTHER_SLICE},0")
    assert [each.device.name for each in make_lanes(2, with_devices=True)] == [OTHER_SLICE, "0"]
    with pytest.raises(UsageError, match="may use 2 devices"):
        make_lanes(3, with_devices=True)


def test_without_a_tool_that_lists_devices_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="may use 0 devices"):
        make_lanes(2, with_devices=True)


def lane_of(*places, device=None):
    return Lane(number=1, of=2, cores=tuple(EIGHT_CORES[place] for place in places), device=device, free_bytes=0)


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """Lay out caches as Linux describes them: the last level is shared by the cores of a node."""
    monkeypatch.setattr(lanes, "SYSTEM", tmp_path)
    monkeypatch.setattr(cores, "SYSTEM", tmp_path)
    for core in EIGHT_CORES:
        for number in core.processors:
            node = "0-3,8-11" if core.node == 0 else "4-7,12-15"
            for index, (level, shared) in enumerate(((1, f"{number}"), (3, node))):
                folder = tmp_path / f"cpu{number}/cache/index{index}"
                folder.mkdir(parents=True)
                (folder / "level").write_text(f"{level}\n")
                (folder / "shared_cpu_list").write_text(f"{shared}\n")


def test_lanes_of_one_node_share_its_memory_and_the_last_cache(caches):
    assert list(shared_parts(lane_of(0, 1), lane_of(2, 3))) == ["memory of NUMA node 0", "last-level cache"]
    assert list(shared_parts(lane_of(0, 1), lane_of(4, 5))) == []


def test_slices_share_their_gpu_and_gpus_the_bridge_above_both(caches, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "PCI_DEVICES", tmp_path / "pci")
    (tmp_path / "pci").mkdir()
    for path in (
        "0000:40:01.1/0000:41:00.0/0000:42:00.0/0000:43:00.0",
        "0000:40:01.1/0000:41:00.0/0000:42:01.0/0000:44:00.0",
    ):
        target = tmp_path / "devices/pci0000:40" / path
        target.mkdir(parents=True)
        (tmp_path / "pci" / target.name).symlink_to(target)
    first, second = Device("0", "0000:43:00.0"), Device("1", "0000:44:00.0")
    assert list(shared_parts(lane_of(0, device=first), lane_of(4, device=second))) == ["PCIe bridge 0000:41:00.0"]
    alone = Device("2", "0000:65:00.0")
    assert list(shared_parts(lane_of(0, device=first), lane_of(4, device=alone))) == []
    assert list(shared_parts(lane_of(0, device=first), lane_of(4, device=Device(SLICE, first.address)))) == [
        "GPU 0000:43:00.0"
    ]


def test_a_process_that_may_use_more_than_its_lane_is_seen():
    here = os.sched_getaffinity(0)
    own = Lane(number=1, of=2, cores=(Core(0, tuple(here)),), device=None, free_bytes=0)
    assert own.strayed([os.getpid(), 2**22 + 1]) == set()
    other = Lane(number=2, of=2, cores=(Core(0, (max(here) + 1,)),), device=None, free_bytes=0)
    assert other.strayed([os.getpid()]) == here
