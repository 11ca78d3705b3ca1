"""Which of nested limits binds a process, and by what machines are told apart."""

import pytest

from mlbench.records.environment import _machine, observe_environment
from mlbench.records.machine.accelerators import Accelerator


@pytest.fixture
def allowance(tmp_path):
    """Return what of a machine with these files may be used; the process is in group /jobs/one."""

    def allowance(**files):
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text("0::/jobs/one\n")
        for name, text in files.items():
            file = tmp_path / "sys/fs/cgroup" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return observe_environment(tmp_path).allowance

    return allowance


@pytest.mark.parametrize(
    ("outer", "inner", "binding"), [("2147483648", "1073741824", 2**30), ("1073741824", "2147483648", 2**30)]
)
def test_the_smallest_memory_limit_of_nested_groups_binds(allowance, outer, inner, binding):
    found = allowance(**{"jobs/memory.max": f"{outer}\n", "jobs/one/memory.max": f"{inner}\n"})
    assert found.memory_bytes == binding


@pytest.mark.parametrize(("outer", "inner"), [("100000 100000", "400000 100000"), ("400000 100000", "100000 100000")])
def test_the_smallest_quota_of_nested_groups_binds(allowance, outer, inner):
    assert allowance(**{"jobs/cpu.max": f"{outer}\n", "jobs/one/cpu.max": f"{inner}\n"}).cpu_quota == 1


@pytest.mark.parametrize(
    "folder",
    ["cpu,cpuacct/jobs/one", "cpu,cpuacct/jobs", "cpu/jobs/one", "cpu,cpuacct", "cpu"],
    ids=["its group", "the one around it", "by a link's name", "seen as the top", "seen as the top, by a link's name"],
)
def test_version_1_has_a_folder_for_each_controller(tmp_path, folder):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("5:memory:/jobs/one\n4:cpu,cpuacct:/jobs/one\n1:name=systemd:/\n")
    group = tmp_path / "sys/fs/cgroup" / folder
    group.mkdir(parents=True)
    (group / "cpu.cfs_quota_us").write_text("50000\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    assert observe_environment(tmp_path).allowance.cpu_quota == 0.5


def test_a_group_without_a_limit_takes_none_away(allowance):
    found = allowance(**{"jobs/memory.max": "max\n", "jobs/one/memory.max": "1073741824\n", "jobs/cpu.max": "max 1\n"})
    assert (found.memory_bytes, found.cpu_quota) == (2**30, None)


def test_a_limit_larger_than_any_machine_is_none(allowance):
    """Version 1 spells no limit as 2^63 less a page."""
    assert allowance(**{"memory/memory.limit_in_bytes": "9223372036854771712\n"}).memory_bytes is None


GIB = 2**30


def accelerator(name):
    more = {"memory_bytes": None, "power_limit_w": None, "max_clock_mhz": None, "ecc": None, "mig": None}
    return Accelerator(name=name, driver="5", **more)


def test_a_machine_is_the_same_whatever_memory_its_kernel_keeps_and_in_whatever_order_its_accelerators_are(environment):
    cpu = environment.cpu
    one = _machine(cpu, 64 * GIB, [accelerator("A"), accelerator("B")])
    assert one == _machine(cpu, 64 * GIB - 300 * 2**20, [accelerator("B"), accelerator("A")])


def test_machines_differ_in_memory_accelerators_and_processor(environment):
    cpu = environment.cpu
    machines = {
        _machine(cpu, 64 * GIB, []),
        _machine(cpu, 32 * GIB, []),
        _machine(cpu, 64 * GIB, [accelerator("A")]),
        _machine(cpu, 64 * GIB, [accelerator("A"), accelerator("A")]),
        _machine(cpu.model_copy(update={"threads": 999}), 64 * GIB, []),
    }
    assert len(machines) == 5
