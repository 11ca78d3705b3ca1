"""Machines as files say they are."""

import os
from functools import partial

import pytest

from mlbench.execution import cores
from mlbench.execution.cores import Core, core_groups, physical_cores
from mlbench.system.processor import usable_threads


@pytest.fixture
def machine(tmp_path, monkeypatch, no_quota):
    """Lay out a machine: for each processor its siblings and its node; all of it may be used."""

    def machine(*processors):
        for number, (siblings, node) in enumerate(processors):
            folder = tmp_path / f"cpu{number}"
            (folder / "topology").mkdir(parents=True)
            (folder / "topology" / "thread_siblings_list").write_text(f"{siblings}\n")
            (folder / f"node{node}").mkdir()
        monkeypatch.setattr(cores, "SYSTEM", tmp_path)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(len(processors))))

    return machine


@pytest.fixture
def quota_file(tmp_path, monkeypatch):
    """Return the file that holds the quota of this process's control group."""
    root = tmp_path / "root"
    (root / "sys/fs/cgroup").mkdir(parents=True)
    monkeypatch.setattr(cores, "usable_threads", partial(usable_threads, root))
    return root / "sys/fs/cgroup/cpu.max"


def test_two_threads_of_a_core_are_one_core(machine):
    machine(("0,2", 0), ("1,3", 0), ("0,2", 0), ("1,3", 0))
    assert physical_cores() == [Core(0, (0, 2)), Core(0, (1, 3))]


def test_cores_of_a_node_stand_together_however_they_are_numbered(machine):
    machine(("0", 0), ("1", 1), ("2", 0), ("3", 1))
    assert physical_cores() == [Core(0, (0,)), Core(0, (2,)), Core(1, (1,)), Core(1, (3,))]


def test_of_a_core_only_the_threads_count_that_the_process_may_use(machine, monkeypatch):
    machine(("0,2", 0), ("1,3", 0), ("0,2", 0), ("1,3", 0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 3})
    assert physical_cores() == [Core(0, (0,)), Core(0, (1, 3))]


@pytest.mark.parametrize(("quota", "count"), [("50000", 1), ("150000", 2), ("300000", 3), ("900000", 4), ("max", 4)])
def test_of_a_quota_there_are_as_many_cores_as_it_can_keep_busy(machine, quota_file, quota, count):
    machine(("0", 0), ("1", 0), ("2", 0), ("3", 0))
    quota_file.write_text(f"{quota} 100000\n")
    assert len(physical_cores()) == count


def on_nodes(*sizes):
    """Return cores with one processor each, so many on each node, the processors numbered through."""
    nodes = [node for node, size in enumerate(sizes) for _ in range(size)]
    return [Core(node, (number,)) for number, node in enumerate(nodes)]


@pytest.mark.parametrize(
    ("sizes", "count", "groups"),
    [
        ((4,), 1, [[0, 1, 2, 3]]),
        ((4,), 2, [[0, 1], [2, 3]]),
        ((5,), 2, [[0, 1], [2, 3, 4]]),
        ((2, 2), 2, [[0, 1], [2, 3]]),
        ((2, 2), 1, [[0, 1, 2, 3]]),
        ((1, 1, 1, 1), 2, [[0, 1], [2, 3]]),
        ((3, 3), 4, [[0], [1, 2], [3], [4, 5]]),
        ((2, 4), 3, [[0, 1], [2, 3], [4, 5]]),
        ((3, 3), 3, [[0], [1, 2], [3, 4, 5]]),
        ((1, 3), 4, [[0], [1], [2], [3]]),
    ],
)
def test_groups_are_of_like_size_and_within_a_node(sizes, count, groups):
    dealt = core_groups(on_nodes(*sizes), count)
    assert [[core.processors[0] for core in group] for group in dealt] == groups
