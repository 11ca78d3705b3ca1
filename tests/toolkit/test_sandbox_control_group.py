"""Control groups by a folder that looks like the kernel's: which group is chosen, what is written, what is read."""

import os
from pathlib import Path

import pytest

from mlbench.toolkit import SandboxLimits
from mlbench.toolkit.sandbox.control_group import ControlGroup

LIMITS = SandboxLimits(memory_bytes=1 << 28, folder_bytes=1 << 25)


@pytest.fixture
def machine(tmp_path):
    """Return the group of a session with a service in it, as systemd makes them."""
    top = tmp_path / "cgroup"
    service = top / "user" / "app.service"
    service.mkdir(parents=True)
    for group, handed_down in ((top, "cpu memory"), (top / "user", "memory pids"), (service, "")):
        (group / "cgroup.subtree_control").write_text(handed_down)
    process = tmp_path / "self"
    process.mkdir()
    (process / "cgroup").write_text("4:memory:/old\n0::/user/app.service\n")
    (process / "mounts").write_text(f"proc /proc proc rw 0 0\ncgroup2 {top} cgroup2 rw 0 0\n")
    return tmp_path


@pytest.fixture
def kernel(monkeypatch):
    """Make the files of a new group appear with it, as the kernel does."""
    made = []
    mkdir = os.mkdir

    def make(path, *arguments, **options):
        mkdir(path, *arguments, **options)
        if os.path.basename(path).startswith("mlbench-"):
            made.append(path)
            for name in ("cgroup.procs", "memory.max", "memory.events"):
                with open(f"{path}/{name}", "w"):
                    pass

    monkeypatch.setattr(os, "mkdir", make)
    return made


def test_a_group_is_made_beside_ones_own_with_the_limits(machine, kernel):
    group = ControlGroup.create(LIMITS, process=machine / "self")
    (path,) = kernel
    path = Path(path)
    assert path.parent == machine / "cgroup" / "user"
    limits = {name: (path / name).read_text() for name in ("memory.max", "memory.swap.max", "memory.oom.group")}
    assert limits == {"memory.max": str((1 << 28) + (1 << 25)), "memory.swap.max": "0", "memory.oom.group": "1"}
    group.enter()
    assert (path / "cgroup.procs").read_text() == "0"
    group.kill()
    assert (path / "cgroup.kill").read_text() == "1"


@pytest.mark.parametrize(
    ("events", "ran_out"), [("", False), ("max 9\noom_kill 0", False), ("max 9\noom_kill 2", True)]
)
def test_the_kernel_tells_whether_memory_ran_out(machine, kernel, events, ran_out):
    group = ControlGroup.create(LIMITS, process=machine / "self")
    Path(kernel[0], "memory.events").write_text(events)
    assert group.ran_out_of_memory() is ran_out


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("self/cgroup", "4:memory:/old\n"),
        ("self/cgroup", "0::/../elsewhere\n"),
        ("self/mounts", "proc /proc proc rw 0 0\n"),
        ("cgroup/user/cgroup.subtree_control", "pids"),
    ],
    ids=["of the old kind", "outside of what is seen", "not mounted", "memory is not handed down"],
)
def test_without_a_group_that_limits_memory_there_is_none(machine, kernel, file, text):
    (machine / file).write_text(text)
    group = ControlGroup.create(LIMITS, process=machine / "self")
    group.enter()
    group.kill()
    group.close()
    assert not group.ran_out_of_memory()
    assert kernel == []


def test_a_group_goes_with_its_program(tmp_path):
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "cgroup.procs").touch()
    group = ControlGroup(tmp_path / "group")
    (tmp_path / "group" / "cgroup.procs").unlink()  # the kernel's go with their folder
    group.close()
    group.close()
    assert not (tmp_path / "group").exists()
