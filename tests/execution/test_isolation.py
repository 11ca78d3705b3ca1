import mmap
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from mlbench import DataError, GraphError, UnavailableError, UsageError
from mlbench.execution.isolation import Failure, FailureKind, Limits, call_isolated, held_bytes, raise_told, told

HERE = Path(__file__)
LIMITS = Limits(stage_timeout_s=60, memory_bytes=8 * 2**30)


def add(payload, channel):
    channel.progress("add", terms=2)
    return {"sum": payload["a"] + payload["b"]}


def take_steps(payload, channel):
    channel.progress("warm-up")
    for step in range(1, 1001):
        channel.step(step, 1000)
    return {}


def segfault(payload, channel):
    channel.progress("compile")
    print("about to fall", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(payload, channel):
    os._exit(payload["status"])


def raise_value_error(payload, channel):
    raise ValueError("bad operator")


def raise_graph_error(payload, channel):
    channel.progress("engine")
    raise GraphError("graph decoder: operator Det.", hint="Use fp32.")


def raise_data_error(payload, channel):
    raise DataError("weights are corrupt.", hint="Install again.")


def import_what_is_missing(payload, channel):
    import no_such_runtime  # noqa: F401


def raise_memory_error(payload, channel):
    raise MemoryError


def raise_allocator_error(payload, channel):
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")


def sleep_for_ever(payload, channel):
    channel.progress("warm-up")
    time.sleep(3600)


def grow(payload, channel):
    held = []
    while True:
        held.append(bytearray(b"x" * 2**24))
        time.sleep(0.01)


def read_a_mapped_file(payload, channel):
    with open(payload["file"], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        read = sum(mapped[place] for place in range(0, len(mapped), mmap.PAGESIZE))
        resident = psutil.Process().memory_info().rss
        time.sleep(2)  # the guard looks twice a second
    return {"read": read, "resident_bytes": resident}


def leave_a_child_behind(payload, channel):
    pid = os.fork()
    if not pid:
        time.sleep(3600)
        os._exit(0)
    return {"pid": pid}


def isolated(function, tmp_path, payload=(), limits=LIMITS):
    return call_isolated(f"{HERE.stem}:{function.__name__}", dict(payload), tmp_path / "log.txt", limits)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let the child import this file, by its bare name: torch-fidelity installs a package called tests."""
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent))


def test_the_outcome_of_a_child_comes_back_and_its_progress_is_heard(tmp_path):
    heard = []
    outcome = call_isolated(f"{HERE.stem}:add", {"a": 1, "b": 2}, tmp_path / "log.txt", LIMITS, heard.append)
    assert outcome == {"sum": 3}
    assert heard == [{"stage": "add", "terms": 2}]


def test_steps_of_a_batch_are_heard_in_their_stage_but_not_every_one(tmp_path):
    heard = []
    call_isolated(f"{Path(__file__).stem}:take_steps", {}, tmp_path / "log.txt", LIMITS, heard.append)
    assert heard[:2] == [{"stage": "warm-up"}, {"stage": "warm-up", "step": 1, "steps": 1000}]
    assert len(heard) < 20


def test_a_crash_is_told_by_its_signal_with_stage_and_the_end_of_the_log(tmp_path):
    failure = isolated(segfault, tmp_path)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.message) == (FailureKind.CRASH, "the process was ended by SIGSEGV")
    assert failure.stage == "compile"
    assert "about to fall" in failure.log_tail


@pytest.mark.parametrize("status", [0, 7])
def test_a_process_that_leaves_early_is_told_even_with_status_zero(tmp_path, status):
    failure = isolated(leave, tmp_path, {"status": status})
    assert failure.kind is FailureKind.EXIT
    assert f"status {status}" in failure.message


def test_an_exception_is_told_with_its_traceback_in_the_log(tmp_path):
    failure = isolated(raise_value_error, tmp_path)
    assert (failure.kind, failure.message) == (FailureKind.EXCEPTION, "ValueError: bad operator")
    assert "Traceback" in failure.log_tail


def test_a_graph_that_a_backend_cannot_compile_ends_this_child_and_no_other(tmp_path):
    failure = isolated(raise_graph_error, tmp_path)
    assert (failure.kind, failure.stage) == (FailureKind.UNSUPPORTED, "engine")
    assert failure.message == "graph decoder: operator Det. Use fp32."


def test_an_error_that_a_user_can_act_on_is_raised_again(tmp_path):
    with pytest.raises(DataError, match=r"weights are corrupt\. Install again\."):
        isolated(raise_data_error, tmp_path)


def test_a_missing_library_is_named_with_the_install_line(tmp_path):
    with pytest.raises(UnavailableError, match=r"no_such_runtime is not installed\. pip install 'mlbench\[cpu\]'"):
        isolated(import_what_is_missing, tmp_path)


@pytest.mark.parametrize("function", [raise_memory_error, raise_allocator_error])
def test_want_of_memory_is_told_as_such(tmp_path, function):
    assert isolated(function, tmp_path).kind is FailureKind.OUT_OF_MEMORY


def test_pages_of_a_mapped_file_are_not_the_runs_memory(tmp_path):
    """They are resident, and the kernel takes them back whenever it needs room."""
    file, limit = tmp_path / "table", 2**28
    with file.open("wb") as table:
        table.write(b"\0" * (2 * limit))
    limits = Limits(stage_timeout_s=60, memory_bytes=limit)
    outcome = isolated(read_a_mapped_file, tmp_path, {"file": str(file)}, limits)
    assert not isinstance(outcome, Failure), outcome
    assert outcome["resident_bytes"] > 2 * limit


def test_memory_without_a_file_is_the_runs_own_shared_or_not():
    before = held_bytes(os.getpid())
    with mmap.mmap(-1, 2**26) as shared:
        shared.write(b"x" * 2**26)
        own = bytearray(b"x" * 2**26)
        assert held_bytes(os.getpid()) - before == pytest.approx(2**27, rel=0.05)
        del own


def test_a_run_that_outgrows_its_limit_is_ended_as_out_of_memory(tmp_path):
    failure = isolated(grow, tmp_path, limits=Limits(stage_timeout_s=60, memory_bytes=2**28))
    assert failure.kind is FailureKind.OUT_OF_MEMORY
    assert "of 0.2 allowed" in failure.message


def test_a_silent_stage_is_ended_as_a_hang(tmp_path):
    failure = isolated(sleep_for_ever, tmp_path, limits=Limits(stage_timeout_s=10, memory_bytes=2**33))
    assert failure.kind is FailureKind.HANG
    assert "during warm-up" in failure.message


def test_nothing_that_a_child_started_outlives_it(tmp_path):
    pid = isolated(leave_a_child_behind, tmp_path)["pid"]
    for _ in range(600):  # init may take a moment to collect it
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.05)
    pytest.fail("the grandchild still lives")


def test_an_error_of_a_class_of_a_plugins_own_arrives_as_the_class_it_is_made_from():
    class NoLicenceError(UsageError):
        pass

    with pytest.raises(UsageError, match="no licence") as caught:
        raise_told(told(NoLicenceError("no licence.", hint="Buy one.")))
    assert caught.value.hint == "Buy one."
