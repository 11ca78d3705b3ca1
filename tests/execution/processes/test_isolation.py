import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import isolated_children
import pytest
from isolated_children import (
    Bill,
    Order,
    add,
    bill,
    fill_memory,
    grow,
    import_what_is_missing,
    kill_the_supervisor,
    leave,
    leave_processes_behind,
    look_around_in_a_grandchild,
    press_ctrl_c,
    raise_allocator_error,
    raise_base_exception,
    raise_data_error,
    raise_graph_error,
    raise_memory_error,
    raise_value_error,
    raise_what_has_no_text,
    raise_with_odd_text,
    read_a_mapped_file,
    return_odd_values,
    say_where_numpy_is,
    segfault,
    sleep_a_while,
    sleep_for_ever,
    take_steps,
    write_strays,
)

from mlbench import DataError, GraphCalls, InvalidRunError, UnavailableError, UsageError
from mlbench.execution.processes.isolation import ChildFunction, Failure, FailureKind, ProcessLimits, call_isolated
from mlbench.wire.progress import ProgressMessage, Steps

CHILDREN = Path(isolated_children.__file__)
LIMITS = ProcessLimits(stage_timeout_s=60, memory_bytes=8 * 2**30)


MODULES: tuple[str, ...] = ()
"""With which the child is forked; none: it is a new interpreter."""


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param((), id="a new interpreter", marks=pytest.mark.thorough("engines")),
        pytest.param(("tabnanny",), id="a fork"),
    ],
)
def modules(request, monkeypatch):
    """Start each child both ways."""
    monkeypatch.setattr(sys.modules[__name__], "MODULES", request.param)


def in_child(function, answer=dict):
    return ChildFunction(f"{CHILDREN.stem}:{function.__name__}", answer, MODULES)


def isolated(function, tmp_path, payload=(), limits=LIMITS):
    return call_isolated(in_child(function), dict(payload), tmp_path / "log.txt", limits)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let the child import what it does by its bare name: torch-fidelity installs a package called tests."""
    monkeypatch.setenv("PYTHONPATH", str(CHILDREN.parent), prepend=os.pathsep)


def test_the_outcome_of_a_child_comes_back_and_its_progress_is_heard(tmp_path):
    heard = []
    outcome = call_isolated(in_child(add), {"a": 1, "b": 2}, tmp_path / "log.txt", LIMITS, heard.append)
    assert outcome == {"sum": 3}
    assert heard == [ProgressMessage.of("add", Steps(done=1, of=2))]


def test_a_request_arrives_as_the_function_takes_it_and_its_answer_as_it_was_made(tmp_path):
    order = Order(tmp_path / "x", (GraphCalls(graph="g", shapes={"x": [4, 3]}, count=41),))
    function = in_child(bill, Bill)
    assert call_isolated(function, order, tmp_path / "log.txt", LIMITS) == Bill(42)


def test_an_answer_of_another_form_is_refused_by_the_field(tmp_path):
    function = in_child(add, Bill)
    with pytest.raises(InvalidRunError, match="returned an invalid Bill: total: Field required"):
        call_isolated(function, {"a": 1, "b": 2}, tmp_path / "log.txt", LIMITS)


def test_steps_of_a_batch_are_heard_in_their_stage_but_not_every_one(tmp_path):
    heard = []
    call_isolated(in_child(take_steps), {}, tmp_path / "log.txt", LIMITS, heard.append)
    assert heard[:2] == [ProgressMessage.of("warm-up", fact) for fact in (None, Steps(done=1, of=1000))]
    assert len(heard) < 20


def test_a_crash_is_recognised_by_its_signal_with_stage_and_the_end_of_the_log(tmp_path):
    failure = isolated(segfault, tmp_path)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.message) == (FailureKind.CRASH, "the process was ended by SIGSEGV")
    assert failure.stage == "compile"
    assert "about to fall" in failure.log_tail


@pytest.mark.parametrize("status", [0, 7])
def test_a_process_that_leaves_early_is_reported_even_with_status_zero(tmp_path, status):
    failure = isolated(leave, tmp_path, {"status": status})
    assert failure.kind is FailureKind.EXIT
    assert f"status {status}" in failure.message


def test_an_exception_is_reported_with_its_traceback_in_the_log(tmp_path):
    failure = isolated(raise_value_error, tmp_path)
    assert (failure.kind, failure.message) == (FailureKind.EXCEPTION, "ValueError: bad operator")
    assert "Traceback" in failure.log_tail


@pytest.mark.parametrize(
    ("function", "name"), [(press_ctrl_c, "KeyboardInterrupt"), (raise_base_exception, "BaseException")]
)
def test_an_error_that_is_no_exception_is_reported_too(tmp_path, function, name):
    failure = isolated(function, tmp_path)
    assert (failure.kind, failure.message) == (FailureKind.EXCEPTION, f"{name}: of its own")
    assert "Traceback" in failure.log_tail


def test_a_graph_that_a_backend_cannot_compile_ends_this_child_and_no_other(tmp_path):
    failure = isolated(raise_graph_error, tmp_path)
    assert (failure.kind, failure.stage) == (FailureKind.UNSUPPORTED, "engine")
    assert failure.message == "graph decoder: operator Det. Use fp32."


def test_an_error_that_a_user_can_act_on_is_raised_again(tmp_path):
    with pytest.raises(DataError, match=r"weights are corrupt\. Install again\."):
        isolated(raise_data_error, tmp_path)


def test_a_missing_library_is_named_with_the_install_line(tmp_path):
    with pytest.raises(
        UnavailableError, match=r"no_such_runtime is not installed\. pip install 'mlbench-inference\[cpu\]'"
    ):
        isolated(import_what_is_missing, tmp_path)


@pytest.mark.parametrize("function", [raise_memory_error, raise_allocator_error])
def test_running_out_of_memory_is_reported_as_such(tmp_path, function):
    assert isolated(function, tmp_path).kind is FailureKind.OUT_OF_MEMORY


@pytest.mark.thorough("engines")
def test_pages_of_a_mapped_file_are_not_the_runs_memory(tmp_path):
    """They are resident, and the kernel takes them back whenever it needs room."""
    file, limit = tmp_path / "table", 2**28
    with file.open("wb") as table:
        table.write(b"\0" * (2 * limit))
    limits = ProcessLimits(stage_timeout_s=60, memory_bytes=limit)
    outcome = isolated(read_a_mapped_file, tmp_path, {"file": str(file)}, limits)
    assert not isinstance(outcome, Failure), outcome
    assert outcome["resident_bytes"] > 2 * limit


def test_memory_without_a_file_is_the_runs_own_shared_or_not(tmp_path):
    grown = isolated(fill_memory, tmp_path, {"bytes": 2**26})
    assert grown["bytes"] == pytest.approx(2**27, rel=0.05)


def test_a_run_that_outgrows_its_limit_is_ended_as_out_of_memory(tmp_path):
    failure = isolated(grow, tmp_path, limits=ProcessLimits(stage_timeout_s=60, memory_bytes=2**28))
    assert failure.kind is FailureKind.OUT_OF_MEMORY
    assert "of 0.2 allowed" in failure.message


def test_a_silent_stage_is_ended_as_a_hang(tmp_path):
    failure = isolated(sleep_for_ever, tmp_path, limits=ProcessLimits(stage_timeout_s=10, memory_bytes=2**33))
    assert failure.kind is FailureKind.HANG
    assert "during warm-up" in failure.message


def has_ended(pid, within_s=0):
    """Return whether a process ends in time, which its descriptor signals, also of one that is nobody's child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended = select.select([descriptor], [], [], within_s)[0]
    os.close(descriptor)
    return bool(ended)


def read_pids(pipe):
    """Return the list that a process writes to a named pipe."""
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
        text = b""
        while not text.endswith(b"]"):
            assert select.select([file], [], [], 60)[0], "nothing was written"
            text += file.read(4096)
    return json.loads(text)


def test_nothing_that_a_child_started_outlives_it_in_whatever_session(tmp_path):
    pids = isolated(leave_processes_behind, tmp_path)["pids"]
    assert len(pids) == 3
    assert [pid for pid in pids if not has_ended(pid)] == []


def test_nothing_outlives_a_parent_that_is_killed(tmp_path):
    told = tmp_path / "pids"
    os.mkfifo(told)
    script = (
        "import sys; from pathlib import Path;"
        "from mlbench.execution.processes.isolation import ChildFunction, ProcessLimits, call_isolated;"
        f"leaving = ChildFunction('{CHILDREN.stem}:leave_processes_behind', dict, {MODULES});"
        "call_isolated(leaving, {'tells': sys.argv[1]}, Path(sys.argv[2]),"
        "ProcessLimits(stage_timeout_s=600, memory_bytes=2**40))"
    )
    parent = subprocess.Popen([sys.executable, "-P", "-c", script, str(told), str(tmp_path / "log.txt")])
    pids = read_pids(told)
    parent.kill()
    parent.wait()
    assert len(pids) == 5
    assert all(has_ended(pid, within_s=60) for pid in pids)


def test_nothing_outlives_the_supervisor_and_its_end_is_named(tmp_path):
    told = tmp_path / "pids.json"
    failure = isolated(kill_the_supervisor, tmp_path, {"tells": str(told)})
    assert failure.message == "the run's supervisor process was ended"
    assert (failure.kind, failure.stage) == (FailureKind.CRASH, "work")
    assert all(has_ended(pid, within_s=60) for pid in json.loads(told.read_text()))


def test_where_no_process_can_be_started_a_line_says_so(tmp_path):
    with pytest.raises(UsageError, match="the run's process cannot be started: No such file or directory"):
        isolated(add, tmp_path / "no such folder")


@pytest.mark.parametrize("size", [0, 10, 2**24], ids=["none", "some", "16 MiB in a line"])
def test_what_is_on_the_pipe_and_no_message_is_log_text_and_the_outcome_arrives(tmp_path, size):
    stages = []
    outcome = call_isolated(in_child(write_strays), {"bytes": size}, tmp_path / "log.txt", LIMITS, stages.append)
    assert outcome == {"sum": 3, "long": "y" * 200_000}
    assert [(each.stage, each.facts) for each in stages] == [("load", {}), ("compile", {})]
    log = (tmp_path / "log.txt").read_bytes()
    assert b'{"outcome": {"forged": true}}' in log
    assert b"\xff\xfe\nno end of line" in log
    assert b"x" * min(size, 1000) in log
    assert len(log) < 2**20 + 10_000


def test_a_byte_in_an_error_that_is_no_text_is_replaced(tmp_path):
    failure = isolated(raise_with_odd_text, tmp_path)
    assert (failure.kind, failure.message) == (FailureKind.EXCEPTION, "ValueError: byte ?")


def test_an_error_that_has_no_text_is_recognised_by_its_class(tmp_path):
    failure = isolated(raise_what_has_no_text, tmp_path)
    assert failure.message == "Untold: (its text cannot be read: RuntimeError)"


@pytest.mark.parametrize(
    ("value", "told"),
    [("nan", "ValueError: Out of range float"), ("object", "TypeError: Object of type object"), ("list", "TypeError")],
)
def test_an_outcome_that_cannot_be_sent_is_a_failure_that_says_why(tmp_path, value, told):
    failure = isolated(return_odd_values, tmp_path, {"value": value})
    assert failure.kind is FailureKind.EXCEPTION
    assert failure.message.startswith(told)


def test_what_a_child_starts_inherits_neither_its_pipe_nor_its_input(tmp_path):
    found = isolated(look_around_in_a_grandchild, tmp_path)
    descriptors, _, read = found["printed"].rpartition(" ")
    assert read.strip() == "''"
    assert found["pipe"] not in json.loads(descriptors)


def test_nothing_is_imported_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit('this is not a library')")
    monkeypatch.chdir(tmp_path)
    assert Path(isolated(say_where_numpy_is, tmp_path)["file"]).parent != tmp_path


def test_a_silent_stage_that_works_on_a_busy_machine_is_let_go_on(tmp_path, monkeypatch):
    """A fifth of a processor is all that it gets; how long it takes to start is not what is tested."""
    monkeypatch.setattr("mlbench.execution.processes.patience.processor_time_s", lambda pids: time.monotonic() / 5)
    monkeypatch.setattr("mlbench.execution.processes.patience.LONGEST_WAIT", 100.0)
    limits = ProcessLimits(stage_timeout_s=1.5, memory_bytes=2**33)
    assert isolated(sleep_a_while, tmp_path, {"seconds": 2.25}, limits) == {}


def test_a_silent_stage_that_spins_is_a_hang(tmp_path, monkeypatch):
    monkeypatch.setattr("mlbench.execution.processes.patience.processor_time_s", lambda pids: time.monotonic())
    failure = isolated(
        sleep_a_while, tmp_path, {"seconds": 3600}, ProcessLimits(stage_timeout_s=1.5, memory_bytes=2**33)
    )
    assert failure.kind is FailureKind.HANG
    assert "of processor time" in failure.message
