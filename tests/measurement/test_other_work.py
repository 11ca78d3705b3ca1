"""What others used of the processors during a test: the kernel's counts without the run's own processes."""

import os
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest

from mlbench.measurement.other_work import OtherWork
from mlbench.records.machine.other_work import OtherWorkRecord, count_beside

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FIRST = min(os.sched_getaffinity(0))


def write_stat(path, *, user=0, nice=0, system=0, idle=0, waiting=0, interrupts=0, soft=0, stolen=0):
    """Write the lines of a processor that this process may use, and of a busy one that it may not; proc_stat(5)."""
    counts = (user, nice, system, idle, waiting, interrupts, soft, stolen, 0, 0)
    ours, others = " ".join(map(str, counts)), f"{100 * sum(counts)} 0 0 0 0 0 0 0 0 0"
    path.write_text(f"cpu  {others}\ncpu{FIRST} {ours}\ncpu99999 {others}\nintr 1\n")


def section_between(stat, before, after, work=lambda: None):
    write_stat(stat, **before)
    others = OtherWork(nullcontext(), stat=stat)
    with others:
        work()
        write_stat(stat, **after)
    return others.record()


def test_what_no_process_of_the_run_used_was_used_by_others(tmp_path):
    before = {"user": 10_000, "idle": 10_000}
    after = {"user": 14_000, "nice": 1_000, "system": 1_000, "idle": 24_000}
    assert section_between(tmp_path / "stat", before, after) == OtherWorkRecord(processes=0.3, stolen=0.0)


def test_interrupts_and_waiting_are_not_counted(tmp_path):
    after = {"waiting": 3_000, "interrupts": 3_000, "soft": 3_000, "idle": 1_000}
    assert section_between(tmp_path / "stat", {}, after) == OtherWorkRecord(processes=0.0, stolen=0.0)


def test_what_the_host_took_is_told_apart(tmp_path):
    after = {"user": 5_000, "idle": 14_000, "stolen": 1_000}
    assert section_between(tmp_path / "stat", {}, after) == OtherWorkRecord(processes=0.25, stolen=0.05)


@pytest.mark.thorough("engines", but=["in a child"])
@pytest.mark.parametrize("where", ["here", "in a child", "in a child that has ended"])
def test_the_runs_own_work_is_not_others(tmp_path, where):
    spin = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\nimport sys; sys.stdin.read()"

    def work():
        if where == "here":
            begin = time.process_time()
            while time.process_time() < begin + 0.5:
                pass
            return
        child = subprocess.Popen([sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout and child.stdout.readline()
        children.append(child)
        if where == "in a child that has ended":
            child.communicate()

    children = []
    after = {"user": round(0.5 * TICKS_PER_S), "idle": round(0.5 * TICKS_PER_S)}
    try:
        found = section_between(tmp_path / "stat", {}, after, work)
    finally:
        for child in children:
            child.communicate()
    assert found and found.processes <= 0.05


def test_a_process_that_is_not_the_runs_is_seen_by_the_kernels_own_counts():
    spin = f"{sys.executable} -c 'import time\nend = time.time() + 60\nwhile time.time() < end: pass'"
    started = subprocess.run(
        ["sh", "-c", f"{spin} >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, check=True, text=True
    )
    spinning = int(started.stdout)  # its parent has ended: it is no child of this test
    try:
        others = OtherWork(nullcontext())
        with others:
            time.sleep(1)
    finally:
        os.kill(spinning, 9)
    found = others.record()
    assert found and found.processes > 0.1 / len(os.sched_getaffinity(0))


def test_a_kernel_without_counts_leaves_it_open(tmp_path):
    others = OtherWork(nullcontext(), stat=tmp_path / "none")
    with others:
        pass
    assert others.record() is None and others.reason.startswith("the kernel has no /proc/stat")


def test_where_servers_answer_their_work_is_not_called_others(tmp_path):
    write_stat(tmp_path / "stat", idle=1)
    others = OtherWork(nullcontext(), stat=tmp_path / "stat")
    with others:
        write_stat(tmp_path / "stat", user=9)
    assert others.record(is_elsewhere=True) is None
    assert others.reason == "the samples were answered by processes that are not the run's"


def test_no_tick_of_the_clock_leaves_it_open(tmp_path):
    assert section_between(tmp_path / "stat", {"idle": 5}, {"idle": 5}) is None


def test_a_power_meter_is_on_inside():
    seen = []

    class Meter:
        def __enter__(self):
            seen.append("on")

        def __exit__(self, *_):
            seen.append("off")

    others = OtherWork(Meter())
    for _ in range(2):
        with others:
            seen.append("test")
    assert seen == ["on", "test", "off"] * 2


def test_runs_beside_other_work_are_counted_from_a_tenth_on():
    quiet, noticeable = OtherWorkRecord(processes=0.05, stolen=0.04), OtherWorkRecord(processes=0.0, stolen=0.1)
    assert count_beside([quiet, None]) == ""
    assert count_beside([quiet, noticeable, OtherWorkRecord(processes=0.4, stolen=0.08), None]) == (
        "2 of 4 runs were made under other load, which took up to 48% of the processors"
    )
