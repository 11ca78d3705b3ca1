"""When silence is a hang. By hand: the limit is 60 s."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from mlbench.execution.processes.patience import Silence, is_hung
from mlbench.execution.processes.processor_waits import ProcessorWaits, thread_waited_ns
from mlbench.execution.processes.usage import processor_time_s


@pytest.mark.parametrize(
    ("silent_s", "computed_s", "waited_s", "hung"),
    [
        (60, 0, 0, False),  # within the limit
        (61, 0, 0, True),  # it waits
        (61, 6, 0, True),  # less than a tenth
        (61, 0, 6, True),  # wakes now and then, and is not served at once
        (61, 1, 60, False),  # it gets next to nothing of a processor
        (61, 3, 4, False),
        (60.5, 22, 0, False),  # a conversion on a machine that is busy with others
        (100, 22, 70, False),
        (150, 59, 0, False),
        (150, 60, 0, True),  # it has had its 60 s of a processor
        (150, 60, 90, True),
        (61, 61, 0, True),  # it spins, on a machine of its own
        (61, 240, 0, True),  # and on four processors
        (230, 23, 0, False),
        (230, 22, 0, True),  # it has slowed down to waiting
        (239, 50, 900, False),
        (240, 50, 0, True),  # enough is enough
        (240, 1, 900, True),
    ],
)
def test_a_silent_process_is_hung_when_it_waits_or_spins_or_for_very_long(silent_s, computed_s, waited_s, hung):
    assert is_hung(silent_s, computed_s, waited_s, 60) is hung


@pytest.mark.parametrize(
    ("silent_s", "computed_s", "waited_s", "hung"),
    [
        (10, 0, 0, False),
        (11, 0, 0, True),
        (11, 1.0, 0, True),
        (11, 1.2, 0, False),
        (11, 0, 1.2, False),
        (61, 60, 0, True),
    ],
)
def test_where_waiting_has_a_limit_of_10_s_work_keeps_the_one_of_60(silent_s, computed_s, waited_s, hung):
    assert is_hung(silent_s, computed_s, waited_s, 60, 10) is hung


SPIN = "while True: pass"


@pytest.mark.skipif(not os.path.exists("/proc/thread-self/schedstat"), reason="counted by Linux")
def test_a_thread_has_waited_while_another_process_had_its_only_processor():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # of this thread, and of what it starts
    try:
        with subprocess.Popen([sys.executable, "-c", SPIN]) as other:
            before_ns, began_s = thread_waited_ns(), time.monotonic()
            while thread_waited_ns() == before_ns and time.monotonic() - began_s < 60:
                pass
            other.kill()
    finally:
        os.sched_setaffinity(0, allowed)
    assert 0 < thread_waited_ns() - before_ns < 60e9


WAIT_FOR_A_LOCK = "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()"
WAIT_UNDER_A_NAME = f"open('/proc/self/comm', 'w').write('x) R (x')\n{WAIT_FOR_A_LOCK}"


@pytest.fixture
def crowded_core():
    """Return a function that runs Python code on one core, on which four other processes spin; it returns the id."""
    core, processes = {min(os.sched_getaffinity(0))}, []

    def start(code, nice):
        prologue = f"import os\nos.sched_setaffinity(0, {core})\nos.nice({nice})\nprint('ready', flush=True)\n"
        process = subprocess.Popen([sys.executable, "-ISc", prologue + code], stdout=subprocess.PIPE)
        processes.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    for _ in range(4):
        start(SPIN, nice=0)
    yield start
    for process in processes:
        process.kill()
        process.communicate()


def look_for(seconds, silence, pids, timeout_s):
    while silence.seconds < seconds:
        time.sleep(0.1)
        is_hang = silence.is_hang(timeout_s, pids)
    return is_hang


def waits_of(waits, pids, *, least_s):
    """Return how long processes have waited, in seconds, as soon as it is so much."""
    while (waited_ns := waits.total_ns(pids)) < least_s * 1e9:
        time.sleep(0.01)
    return waited_ns / 1e9


def test_a_process_that_gets_next_to_nothing_of_a_processor_is_at_work_for_four_times_its_limit(crowded_core):
    pids = [crowded_core(SPIN, nice=10)]
    silence = Silence(pids)
    assert not look_for(0.5, silence, pids, timeout_s=0.3), silence.work
    assert processor_time_s(pids) < 0.1, "it had a processor after all"
    assert look_for(1.2, silence, pids, timeout_s=0.3)


@pytest.mark.parametrize("code", [WAIT_FOR_A_LOCK, WAIT_UNDER_A_NAME], ids=["plain", "under a name"])
def test_a_process_that_waits_for_a_lock_on_a_crowded_core_is_hung_at_its_limit(crowded_core, code):
    pids = [crowded_core(code, nice=0)]
    while psutil.Process(*pids).status() != psutil.STATUS_SLEEPING:
        time.sleep(0.01)
    silence = Silence(pids)
    assert look_for(0.5, silence, pids, timeout_s=0.3), silence.work


def test_a_thread_waits_no_longer_than_time_passes_and_the_waits_of_threads_add_up(crowded_core):
    pids = [crowded_core(SPIN, nice=5), crowded_core(SPIN, nice=5)]
    began_s, waits = time.monotonic(), ProcessorWaits(pids)
    waited_s, passed_s = waits_of(waits, pids, least_s=1), time.monotonic() - began_s
    assert passed_s < waited_s < 2 * passed_s


def test_the_wait_of_a_process_that_has_ended_stays_counted(crowded_core):
    pid = crowded_core(SPIN, nice=5)
    waits = ProcessorWaits([pid])
    waited_s = waits_of(waits, [pid], least_s=0.1)
    assert waits.total_ns([]) == waits.total_ns([2**22 + 1]) == round(1e9 * waited_s)
