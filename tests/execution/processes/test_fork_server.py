"""Runs' processes that are forks of one that has imported what they need."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from mlbench.execution.processes import fork_server
from mlbench.execution.processes.failures import Failure
from mlbench.execution.processes.isolation import ChildFunction, ProcessLimits, ProcessPlace, call_isolated

HERE = Path(__file__)
LIMITS = ProcessLimits(stage_timeout_s=60, memory_bytes=8 * 2**30)
THREADED = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"


def look(asked, channel):
    """Return what this process started with."""
    import numpy

    return {
        "server": psutil.Process(os.getppid()).ppid(),
        "imported": sorted({"tabnanny", "threaded", "sqlite3"} & set(sys.modules)),
        "folder": os.getcwd(),
        "variable": os.environ.get(asked["variable"]),
        "torch_asks": os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK"),
        "random": [float(numpy.random.random()), os.urandom(1)[0]],
        "cores": sorted(os.sched_getaffinity(0)),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def leave_a_process(asked, channel):
    """Start a process that outlives this one, say which, and who supervises this one."""
    left = subprocess.Popen(["sleep", "600"], start_new_session=True).pid
    Path(asked["told"]).write_text(f"{left} {os.getppid()}")
    signal.pause()


def server_processes():
    return [server._process.pid for server in fork_server._servers.values()]


def wait_for(condition):
    """Return what a condition returns once that is true; fail after a minute."""
    until_s = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < until_s
        time.sleep(0.01)
    return found


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Let the child import this file and the modules of a test, and end the servers after each."""
    monkeypatch.setenv("PYTHONPATH", f"{HERE.parent}:{tmp_path}", prepend=os.pathsep)
    yield
    fork_server.close_servers()


@pytest.fixture
def start(tmp_path):
    def start(*modules, variable="MLBENCH_X"):
        function = ChildFunction(f"{HERE.stem}:look", dict, modules)
        return call_isolated(function, {"variable": variable}, tmp_path / "log.txt", LIMITS)

    return start


def test_what_is_imported_once_is_there_in_each_process_and_nothing_else_is_shared(start):
    first, second = start("tabnanny"), start("tabnanny")
    assert first["server"] == second["server"] != os.getpid()
    assert first["imported"] == second["imported"] == ["tabnanny"]
    assert first["random"] != second["random"]
    assert first["descriptors"] == second["descriptors"]
    assert second["torch_asks"] is None


@pytest.mark.thorough("engines")
def test_other_modules_have_a_server_of_their_own(start):
    assert start("tabnanny")["imported"] == ["tabnanny"]
    assert start("sqlite3")["imported"] == ["sqlite3"]


@pytest.mark.thorough("engines")
def test_only_a_few_servers_are_kept(start, monkeypatch):
    monkeypatch.setattr(fork_server, "_MOST_SERVERS", 4)
    servers = [start("tabnanny", f"of_no_module_{number}")["server"] for number in range(5)]
    assert [psutil.pid_exists(pid) for pid in servers] == [False, False, *[True] * 3]
    assert len(set(server_processes())) == 4


@pytest.mark.thorough("engines")
def test_what_two_lists_of_modules_begin_with_is_imported_once(start, tmp_path):
    (tmp_path / "slow.py").write_text("import os\nopen(os.environ['MLBENCH_COUNT'], 'a').write('imported ')\n")
    counted = tmp_path / "count.txt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_COUNT", str(counted))
        found = [start("slow", *more) for more in (("tabnanny",), (), ("sqlite3",), ("tabnanny", "sqlite3"))]
    assert [each["imported"] for each in found] == [["tabnanny"], [], ["sqlite3"], ["sqlite3", "tabnanny"]]
    assert counted.read_text() == "imported "
    assert len({each["server"] for each in found}) == 4


def test_imports_that_begin_before_the_first_run_are_those_of_its_server(start):
    fork_server.begin_imports()
    begun = server_processes()
    found = start(fork_server.FIRST_MODULE, "tabnanny")
    assert len(begun) == 1
    assert {*begun, found["server"]} == set(server_processes())


def test_what_a_killed_supervisor_leaves_is_ended_and_servers_with_more_modules_are_not(start, tmp_path):
    with_more = start("tabnanny", "sqlite3")["server"]
    server = start("tabnanny")["server"]
    told = tmp_path / "told.txt"
    function = ChildFunction(f"{HERE.stem}:leave_a_process", dict, ("tabnanny",))
    found = []

    def kill_supervisor():
        found.extend(map(int, wait_for(lambda: told.exists() and told.read_text().split())))
        os.kill(found[1], signal.SIGKILL)

    killer = threading.Thread(target=kill_supervisor)
    killer.start()
    assert isinstance(call_isolated(function, {"told": str(told)}, tmp_path / "other.txt", LIMITS), Failure)
    killer.join()
    left, _ = found
    wait_for(lambda: not psutil.pid_exists(left))
    assert (start("tabnanny")["server"], start("tabnanny", "sqlite3")["server"]) == (server, with_more)


@pytest.mark.thorough("engines", but=["MLBENCH_X"])
@pytest.mark.parametrize("variable", ["MLBENCH_X", "TORCHINDUCTOR_CACHE_DIR"])
def test_a_process_has_the_folder_and_the_variables_of_its_request(start, monkeypatch, tmp_path, variable):
    server = start("tabnanny")["server"]
    monkeypatch.setenv(variable, "of the second")
    monkeypatch.chdir(tmp_path)
    second = start("tabnanny", variable=variable)
    assert (second["variable"], second["folder"], second["server"]) == ("of the second", str(tmp_path), server)


def test_a_variable_that_an_import_may_have_read_needs_another_server(start, monkeypatch):
    server = start("tabnanny")["server"]
    with monkeypatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "3")
        second = start("tabnanny", variable="OMP_NUM_THREADS")
    assert second["variable"] == "3"
    assert second["server"] != server
    assert start("tabnanny")["server"] == server, "it is kept for runs like the first"


@pytest.mark.thorough("engines")
def test_other_cores_need_another_server(start):
    allowed, server = os.sched_getaffinity(0), start("tabnanny")["server"]
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert start("tabnanny")["server"] != server
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.thorough("engines", but=["starts a thread"])
@pytest.mark.parametrize(
    "source",
    [THREADED, "made = open('/dev/shm/mlbench-test', 'w')\n"],
    ids=["starts a thread", "opens a device"],
)
def test_a_module_after_whose_import_no_fork_is_safe_is_imported_by_each_process_itself(
    start, tmp_path, caplog, source
):
    caplog.set_level("INFO", logger="mlbench.execution.processes.supervised")
    (tmp_path / "threaded.py").write_text(source)
    try:
        for _ in range(2):
            found = start("threaded", "tabnanny")
            assert (found["server"], found["imported"]) == (os.getpid(), [])
    finally:
        Path("/dev/shm/mlbench-test").unlink(missing_ok=True)
    (said,) = caplog.records
    assert said.getMessage().endswith(
        "no fork of one with threaded, tabnanny: importing them starts a thread or opens a device"
    )
    assert (said.levelname, said.exc_info) == ("INFO", None)  # nothing to be done: one line in the log


def test_a_module_that_cannot_be_imported_is_left_to_the_run(start, tmp_path):
    (tmp_path / "broken.py").write_text("raise RuntimeError")
    assert start("no_such_module", "broken", "tabnanny")["imported"] == ["tabnanny"]


def test_a_server_that_was_killed_is_replaced(start):
    server = start("tabnanny")["server"]
    descriptor = os.pidfd_open(server)
    os.kill(server, signal.SIGKILL)
    assert select.select([descriptor], [], [], 60)[0]
    found = start("tabnanny")
    assert found["imported"] == ["tabnanny"]
    assert found["server"] != server


def test_a_server_ends_with_the_process_that_started_it():
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        fork_server.fork_server(["tabnanny", "sqlite3"])
        os.write(write_end, " ".join(map(str, server_processes())).encode())
        signal.pause()
    servers = [os.pidfd_open(int(each)) for each in os.read(read_end, 64).split()]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert len(servers) == 2
    for descriptor in servers:
        assert select.select([descriptor], [], [], 60)[0]


@pytest.mark.thorough("engines")
def test_a_thread_has_servers_on_its_own_cores_and_with_its_own_variables(tmp_path):
    here = os.sched_getaffinity(0)
    own, found = min(here), {}

    def in_lane():
        os.sched_setaffinity(0, {own})
        place = ProcessPlace(variables={"OF_A_LANE": "yes"})
        limits = ProcessLimits(stage_timeout_s=60, memory_bytes=8 * 2**30, place=place)
        function = ChildFunction(f"{HERE.stem}:look", dict, ("tabnanny",))
        found.update(call_isolated(function, {"variable": "OF_A_LANE"}, tmp_path / "lane.txt", limits))
        fork_server.close_servers_of_thread()

    function = ChildFunction(f"{HERE.stem}:look", dict, ("tabnanny",))
    first = call_isolated(function, {"variable": "OF_A_LANE"}, tmp_path / "log.txt", LIMITS)
    thread = threading.Thread(target=in_lane)
    thread.start()
    thread.join()
    again = call_isolated(function, {"variable": "OF_A_LANE"}, tmp_path / "log.txt", LIMITS)
    assert (first["cores"], found["cores"]) == (sorted(here), [own])
    assert (first["variable"], found["variable"]) == (None, "yes")
    assert first["server"] == again["server"] != found["server"], "the thread ends its own servers alone"
    assert not psutil.pid_exists(found["server"])
