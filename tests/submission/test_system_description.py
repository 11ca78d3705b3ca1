"""The description of a system, on machines made of a few files."""

import json
from pathlib import Path

import pytest
from whole_tree import SYSTEM, WholeTree, write

from mlbench.records.environment import observe_environment
from mlbench.records.machine.accelerators import Accelerator
from mlbench.records.machine.host_hardware import observe_host_hardware
from mlbench.submission.checking.whole_tree import check_tree
from mlbench.submission.system_description import describe_system, empty_fields

CPU = "sys/devices/system/cpu/cpu0"
SERVER = {
    "proc/cpuinfo": "".join(
        f"processor\t: {thread}\nmodel name\t: EPYC 9654\nphysical id\t: {thread // 4}\ncore id\t: {thread % 2}\n\n"
        for thread in range(8)
    ),
    "proc/meminfo": "MemTotal:       1584915456 kB\n",
    "etc/os-release": 'PRETTY_NAME="Ubuntu 24.04 LTS"\n',
    f"{CPU}/cpufreq/cpuinfo_max_freq": "3707812\n",
    f"{CPU}/cache/index0/level": "1\n",
    f"{CPU}/cache/index0/type": "Data\n",
    f"{CPU}/cache/index0/size": "32K\n",
    f"{CPU}/cache/index3/level": "3\n",
    f"{CPU}/cache/index3/type": "Unified\n",
    f"{CPU}/cache/index3/size": "32768K\n",
    **{
        f"sys/block/{disk}/{name}": text
        for disk, sectors, rotates in (
            *(("nvme0n1", 7501476528, 0), ("nvme1n1", 7501476528, 0)),
            *(("sda", 35156656128, 1), ("sdb", 1875385008, 0), ("vda", 2000, 1)),
        )
        for name, text in (("size", sectors), ("queue/rotational", rotates), ("device/model", "x"))
    },
    "sys/block/loop0/size": "2000\n",
    "sys/class/net/lo/speed": "",
    **{
        f"sys/class/net/{port}/{name}": text
        for port, kind, speed in (("eth0", 1, 25000), ("eth1", 1, 25000), ("ib0", 32, 400000), ("eth2", 1, -1))
        for name, text in (("type", kind), ("speed", speed), ("device/vendor", "x"))
    },
}
GPU = Accelerator(
    name="NVIDIA H200",
    memory_bytes=141 * 2**30,
    driver="570.1",
    power_limit_w=700,
    max_clock_mhz=1980,
    ecc=True,
    mig=False,
)


@pytest.fixture
def machine(tmp_path):
    for name, text in SERVER.items():
        write(tmp_path / name, f"{text}")
    return tmp_path


def describe(root, **changes):
    environment = observe_environment(root).model_copy(update={"accelerators": [], "devices": [], **changes})
    return describe_system(environment, observe_host_hardware(root))


def test_what_the_kernel_says_is_filled_in(machine):
    fields = describe(machine)
    assert fields["host_processor_model_name"] == "EPYC 9654"
    assert (fields["host_processors_per_node"], fields["host_processor_core_count"]) == ("2", "2")
    assert fields["host_processor_frequency"] == "3.71 GHz"
    assert fields["host_processor_caches"] == "L1 data 32K, L3 32768K"
    assert fields["host_memory_capacity"] == "1511 GiB"
    assert fields["host_storage_type"] == "2x NVMe SSD, HDD, SSD, virtual disk"
    assert fields["host_storage_capacity"] == "26642 GB"
    assert fields["host_network_card_count"] == "4"
    assert fields["host_networking"] == "2x Ethernet 25 Gbit/s, InfiniBand 400 Gbit/s"
    assert fields["operating_system"] == "Ubuntu 24.04 LTS"


def test_what_only_a_person_knows_is_empty_and_named(machine):
    assert empty_fields(describe(machine)) == [
        *("division", "submitter", "status", "system_name", "system_type"),
        *("host_memory_configuration", "host_networking_topology", "cooling"),
    ]


def test_without_accelerators_their_number_is_text_and_not_empty(machine):
    fields = describe(machine)
    assert fields["accelerators_per_node"] == "0"
    assert fields["accelerator_model_name"] == fields["accelerator_interconnect"] == "N/A"


def test_accelerators_are_described_and_how_they_are_connected_is_left_to_a_person(machine):
    fields = describe(machine, accelerators=[GPU] * 8)
    assert fields["accelerators_per_node"] == "8"
    assert fields["accelerator_model_name"] == "NVIDIA H200"
    assert fields["accelerator_memory_capacity"] == "141 GiB"
    assert fields["accelerator_frequency"] == "1980 MHz"
    assert "driver 570.1" in fields["other_software_stack"]
    assert {"accelerator_host_interconnect", "accelerator_interconnect", "accelerator_memory_configuration"} <= {
        *empty_fields(fields)
    }


def test_of_a_device_that_no_driver_describes_nothing_is_claimed(machine):
    fields = describe(machine, devices=["/dev/accel/accel0"])
    assert fields["accelerators_per_node"] == fields["accelerator_model_name"] == ""


def test_where_the_driver_does_not_answer_no_number_of_accelerators_is_claimed(machine):
    fields = describe(machine, accelerator_problem="nvidia-smi did not answer within 10 s")
    assert fields["accelerators_per_node"] == fields["accelerator_model_name"] == ""
    assert "accelerators_per_node" in empty_fields(fields)


def test_a_machine_that_says_nothing_has_nothing_filled_in_that_it_did_not_say(tmp_path):
    fields = describe(tmp_path, memory_bytes=None)
    names = ("host_memory_capacity", "host_storage_capacity", "host_storage_type", "host_networking")
    assert {fields[name] for name in names} == {""}
    assert fields["host_processor_frequency"] == fields["host_processors_per_node"] == ""


def test_a_description_that_a_person_completed_passes_the_check(machine, tmp_path):
    own = {"division": "closed", "submitter": "Fixture", "status": "available", "system_type": "edge"}
    own |= {"system_name": "anvil", "host_memory_configuration": "24x 64 GB DDR5", "cooling": "air"}
    own |= {"host_networking_topology": "one switch"}
    fields = describe(machine) | own
    assert {*fields} == {*SYSTEM} | {"division", "system_type"}
    tree = WholeTree(tmp_path / "tree").add("anvil", "edge", {"resnet50": ("SingleStream", "MultiStream", "Offline")})
    file = tree.submitter / "systems/anvil.json"
    write(file, json.dumps(fields))
    assert check_tree(tree.root).is_accepted
    write(file, json.dumps(describe(machine) | own | {"cooling": ""}))
    assert not check_tree(tree.root).is_accepted


def test_this_machine_can_be_observed():
    hardware = observe_host_hardware(Path("/"))
    assert all(disk.size_bytes > 0 for disk in hardware.disks)
