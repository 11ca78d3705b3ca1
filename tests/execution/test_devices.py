"""Devices as nvidia-smi and Linux's files say they are. The tool's answers have the form of NVIDIA's own documents."""

import pytest

from mlbench import UsageError
from mlbench.execution import devices
from mlbench.execution.cores import Core
from mlbench.execution.devices import Device, environment_of, named_devices, near_cores

SLICE, OTHER_SLICE = "MIG-63feeb45-94c6-5ef3-9ac1-c4b2cde5d0b0", "MIG-0f2b7e1d-5f54-5a3c-8a8e-2a3f3ac5c6a2"
QUERY = """0, GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77, 00000000:65:00.0
1, GPU-b1028956-cfa2-0990-bf4a-5da9abb51763, 00000001:CA:00.0
"""
LIST = f"""GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b1028956-cfa2-0990-bf4a-5da9abb51763)
  MIG 3g.20gb     Device  0: (UUID: {SLICE})
  MIG 3g.20gb     Device  1: (UUID: {OTHER_SLICE})
"""
FIRST, SECOND = Device("0", "0000:65:00.0"), Device("1", "0001:ca:00.0")


@pytest.fixture(autouse=True)
def nvidia_smi(tmp_path, monkeypatch):
    """Install a tool that answers as one on a machine with two GPUs, the second one with slices."""
    (tmp_path / "query").write_text(QUERY)
    (tmp_path / "list").write_text(LIST)
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\ncase "$1" in -L) cat {tmp_path}/list;; --query-gpu*) cat {tmp_path}/query;; esac\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tool


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" ", []),
        ("1", [SECOND]),
        ("1, 0", [SECOND, FIRST]),
        ("GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", [FIRST]),
        (f"{OTHER_SLICE},0", [Device(OTHER_SLICE, "0001:ca:00.0"), FIRST]),
    ],
)
def test_a_device_has_nvidias_name_and_linuxs_address(text, found):
    assert list(named_devices(text)) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2", "execution.devices has 2, and nvidia-smi lists 0, GPU-5d5ba0d6"),
        ("cuda:0:1", "execution.devices has 'cuda:0:1'. Expected 0, GPU-... or MIG-..."),
        ("0,,1", "execution.devices has ''."),
        ("0,0", "execution.devices has 0 twice."),
        (
            "0,GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77",
            "execution.devices has GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77 twice.",
        ),
        ("MIG-none", "execution.devices has MIG-none, and nvidia-smi lists"),
        ("٣", "execution.devices has '٣'."),
    ],
)
def test_what_names_no_device_is_refused(text, told):
    with pytest.raises(UsageError) as refused:
        named_devices(text)
    assert str(refused.value).startswith(told)


def test_numbers_count_among_the_devices_that_a_scheduler_left(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"1,{SLICE}")
    assert [each.name for each in named_devices(f"0,{SLICE}")] == ["1", SLICE]
    for name in ("2", "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"):
        with pytest.raises(UsageError, match=f"has {name}, and CUDA_VISIBLE_DEVICES has 1, MIG-63feeb45"):
            named_devices(name)


@pytest.mark.parametrize(("left", "names"), [("", "none"), ("NoDevFiles", "NoDevFiles"), ("-1", "-1"), ("7", "7")])
def test_a_scheduler_may_leave_none(monkeypatch, left, names):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", left)
    with pytest.raises(UsageError, match=f"has 0, and CUDA_VISIBLE_DEVICES has {names}"):
        named_devices("0")


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'"])
def test_where_no_tool_lists_devices_there_are_none(nvidia_smi, script):
    nvidia_smi.write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(UsageError, match="has 0, and nvidia-smi lists none"):
        named_devices("0")


def test_a_process_sees_its_device_alone_by_the_tools_number():
    assert environment_of("1") == {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.fixture
def pci(tmp_path, monkeypatch):
    """Lay out the kernel's files: for each address its node, and the processors that are local to it."""
    monkeypatch.setattr(devices, "PCI_DEVICES", tmp_path / "pci")

    def pci(**places):
        for address, (node, processors) in places.items():
            folder = tmp_path / "pci" / address
            folder.mkdir(parents=True)
            (folder / "numa_node").write_text(f"{node}\n")
            (folder / "local_cpulist").write_text(f"{processors}\n")

    return pci


EIGHT = [Core(number // 4, (number, number + 8)) for number in range(8)]
"""Cores of two nodes, each with two threads."""


def processors(groups):
    return [[core.processors[0] for core in group] for group in groups]


def test_cores_are_those_of_the_devices_node_shared_out_among_its_devices(pci):
    pci(a=(1, "4-7,12-15"), b=(0, "0-3,8-11"), c=(1, "4-7,12-15"))
    assert processors(near_cores(EIGHT, ["a", "b", "c"])) == [[4, 5], [0, 1, 2, 3], [6, 7]]


def test_instances_on_one_device_share_its_cores_out(pci):
    pci(a=(0, "0-3,8-11"))
    assert processors(near_cores(EIGHT, ["a", "a", "a"])) == [[0], [1], [2, 3]]


@pytest.mark.parametrize(
    "places",
    [
        {"a": (-1, "0-3,8-11"), "b": (1, "4-7,12-15")},
        {"a": (0, "0-7,8-15"), "b": (1, "4-7,12-15")},
        {"a": (0, "0,8"), "b": (0, "0,8")},
        {"a": (0, ""), "b": (1, "4-7,12-15")},
        {"a": (0, "many"), "b": (1, "4-7,12-15")},
        {"b": (1, "4-7,12-15")},
        {"a": (2, "16-19"), "b": (1, "4-7,12-15")},
    ],
    ids=["no node", "nodes overlap", "too few", "no list", "no numbers", "no folder", "none of this process's"],
)
def test_no_core_is_given_out_twice_where_the_files_do_not_say_which_are_near(pci, places):
    pci(**places)
    assert near_cores(EIGHT, ["a", "b"]) is None
