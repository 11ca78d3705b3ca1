"""Attacks are made twice: without a sandbox, where they must succeed or they show nothing, and behind each wall."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mlbench.toolkit import Sandbox, SandboxLimits, Wall
from mlbench.toolkit.sandbox.probe import weakness

PYTHON = (sys.executable, "-I", "-S", "-c")

ATTACKS = {
    "connect to a server of the machine": "socket.create_connection(('127.0.0.1', port), 5)",
    "send a datagram": "assert socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', port))",
    "connect to an abstract socket": "socket.socket(socket.AF_UNIX).connect(chr(0) + abstract)",
    "connect to a named socket": "socket.socket(socket.AF_UNIX).connect(named)",
    "read a file": "open(secret).read()",
    "read a file through a link": "os.symlink(secret, 'link'); open('link').read()",
    "give a file another name": "os.link(secret, outside + '/another')",
    "overwrite a file": "open(secret, 'r+').write('x')",
    "empty a file": "os.truncate(secret, 0)",
    "make a file": "open(outside + '/new', 'w')",
    "make a file through a link": "os.symlink(outside, 'folder'); open('folder/new', 'w')",
    "remove a file": "os.remove(secret)",
    "move a file": "os.rename(secret, outside + '/moved')",
    "make a folder": "os.mkdir(outside + '/folder')",
    "change a file's mode": "os.chmod(secret, 0o600)",
    "change a file's time": "os.utime(secret, (0, 0))",
    "list a folder": "assert 'secret' in os.listdir(outside)",
    "list the home folder": "assert home_entry in os.listdir(home)",
    "see another process": "open(f'/proc/{victim}/cmdline').read()",
    "read another process's environment": "assert b'TOKEN' in open(f'/proc/{victim}/environ', 'rb').read()",
    "lower another process's limits": "resource.prlimit(victim, resource.RLIMIT_CPU, (9, 9))",
    "slow another process down": "os.setpriority(os.PRIO_PROCESS, victim, 19)",
    "reach another's shared memory": "assert libc.shmat(libc.shmget(memory_key, 0, 0), None, 0) != -1",
    "trace another process": "assert libc.ptrace(16, victim, None, None) == 0",
    "make a namespace": "assert libc.unshare(0x10000000) == 0",
    "make a file that no limit counts": "os.memfd_create('x')",
    "write to another process's memory": "open(f'/proc/{victim}/mem', 'r+b')",
    "list another process's files": "assert os.listdir(f'/proc/{victim}/fd')",
    "take another process's file": "assert libc.syscall(438, libc.syscall(434, victim, 0), 1, 0) != -1",
    "lift its own limits": "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
    "watch a folder": "assert libc.inotify_add_watch(libc.inotify_init(), outside.encode(), 0x100) != -1",
    "stop another process": "os.kill(victim, 15)",
}
FORBIDDEN_BY_SOME = {
    "trace another process",
    "write to another process's memory",
    "take another process's file",
    "make a namespace",
}
"""By some systems, to all users or to all but root."""

PROGRAM = """
import ctypes, json, os, resource, socket, sys
surroundings, attacks = json.load(sys.stdin)
surroundings["libc"] = ctypes.CDLL(None, use_errno=True)
escaped = []
for number, (name, attack) in enumerate(attacks.items()):
    outside = f"{surroundings['folder']}/{number}"
    try:
        exec(attack, {**globals(), **surroundings, "outside": outside, "secret": outside + "/secret"})
    except (OSError, AssertionError, ValueError):
        continue
    escaped.append(name)
print(json.dumps(escaped))
"""


def hidden_in_home(otherwise: Path) -> dict[str, str]:
    """Return the home folder and an entry that no interpreter lies in; another folder where there is none."""
    home = Path.home()
    shown = [Path(sys.prefix), Path(sys.base_prefix)]
    for entry in home.iterdir() if home.is_dir() else ():
        if not any(path.is_relative_to(entry) for path in shown):
            return {"home": str(home), "home_entry": entry.name}
    return {"home": str(otherwise), "home_entry": "0"}


class Surroundings:
    """What attacks are directed at: for each a folder with a secret, and servers, shared memory and a process."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        for number in range(len(ATTACKS)):
            secret = folder / str(number) / "secret"
            secret.parent.mkdir()
            secret.write_text("secret")
        self.folder = folder
        self.victim = stack.enter_context(subprocess.Popen(["sleep", "600"], env={"TOKEN": "secret"}))
        stack.callback(self.victim.kill)
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract, named = f"mlbench-{self.victim.pid}", str(folder / "socket")
        for name in (f"\0{abstract}", named):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(name)
            unix.listen()
        libc = ctypes.CDLL(None)
        memory = libc.shmget(self.victim.pid, 4096, 0o1666)
        stack.callback(libc.shmctl, memory, 0, None)
        facts = {
            "folder": str(folder),
            "port": server.getsockname()[1],
            "abstract": abstract,
            "named": named,
            "victim": self.victim.pid,
            "memory_key": self.victim.pid,
            **hidden_in_home(folder),
        }
        self.message = json.dumps([facts, ATTACKS]).encode()

    def state(self) -> list[tuple[str, int, int, str]]:
        """Return all that an attack on files could change."""
        entries = sorted(path for path in self.folder.rglob("*") if not path.is_socket())
        return [
            (str(path), path.stat().st_mode, path.stat().st_mtime_ns, path.read_text() if path.is_file() else "")
            for path in entries
        ]


@pytest.fixture
def surroundings(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Surroundings(tmp_path, stack)


def test_without_the_sandbox_every_attack_succeeds(surroundings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    done = subprocess.run([*PYTHON, PROGRAM], input=surroundings.message, capture_output=True, check=True, cwd=folder)
    held = ATTACKS.keys() - json.loads(done.stdout)
    assert held <= FORBIDDEN_BY_SOME
    surroundings.victim.send_signal(signal.SIGCONT)  # being traced has halted it
    assert surroundings.victim.wait() == -signal.SIGTERM


def test_in_the_sandbox_none_does(sandbox, surroundings):
    before = surroundings.state()
    outcome = sandbox.run([*PYTHON, PROGRAM], stdin=surroundings.message)
    assert (outcome.stdout, outcome.stderr) == (b"[]\n", b"")
    assert surroundings.state() == before
    assert surroundings.victim.poll() is None


SHOWN = """
import os, sys
for attack in (
    lambda: open(sys.argv[1] + "/file", "w"),
    lambda: open(sys.argv[1] + "/new", "w"),
    lambda: os.remove(sys.argv[1] + "/file"),
):
    try:
        attack()
    except OSError:
        continue
    print("escaped")
print(os.listdir(sys.argv[1]))
"""


def test_what_is_shown_cannot_be_changed(sandbox, tmp_path):
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "file").write_text("kept")
    for path, mode in ((tmp_path, 0o755), (shown, 0o777), (shown / "file", 0o666)):
        path.chmod(mode)
    with Sandbox(sandbox.wall, readable=[shown]) as showing:
        assert showing.run([*PYTHON, SHOWN, str(shown)]).stdout == b"['file']\n"
    assert (shown / "file").read_text() == "kept"
    free = subprocess.run([*PYTHON, SHOWN, str(shown)], capture_output=True, check=True)
    assert free.stdout == b"escaped\nescaped\nescaped\n['new']\n"


def test_the_environment_is_empty(sandbox, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    program = "import os; print(*sorted(os.environ))"
    with Sandbox(sandbox.wall) as fresh:
        assert fresh.run([*PYTHON, program]).stdout.split() == [b"HOME", b"LANG", b"PATH", b"TMPDIR"]
    assert b"TOKEN" in subprocess.run([*PYTHON, program], capture_output=True, check=True).stdout


NEIGHBOURS = """
import glob
for path in glob.glob("/proc/[0-9]*"):
    for name, mode in (("environ", "rb"), ("mem", "r+b"), ("fd/0", "r+b")):
        try:
            if path.endswith(f"/{__import__('os').getpid()}"):
                continue
            if name != "environ" or b"TOKEN" in open(f"{path}/environ", mode).read():
                open(f"{path}/{name}", mode)
                print(path, name)
        except OSError:
            pass
"""


def test_no_process_that_is_seen_can_be_read_or_written_to(sandbox, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    with Sandbox(sandbox.wall) as fresh:
        outcome = fresh.run([*PYTHON, NEIGHBOURS])
    assert (outcome.stdout, outcome.stderr) == (b"", b"")


def test_no_open_file_is_inherited(sandbox, tmp_path):
    program = "import os; print(len(os.listdir('/proc/self/fd')))"
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        with Sandbox(sandbox.wall) as fresh:
            assert fresh.run([*PYTHON, program]).stdout == b"4\n"  # the streams, and the one that lists
        done = subprocess.run([*PYTHON, program], capture_output=True, check=True, close_fds=False)
    assert int(done.stdout) > 4


PARENT = """
import os, signal
try:
    os.kill({target}, signal.SIGKILL)
except OSError:
    pass
print("lives")
"""


def test_a_program_cannot_end_its_parent(sandbox):
    program = PARENT.format(target="os.getppid()")
    assert sandbox.run([*PYTHON, program]).stdout == b"lives\n"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {program!r}])"
    assert subprocess.run([*PYTHON, parent], capture_output=True, check=False).returncode == -9


def test_a_program_cannot_end_all_others(sandbox, surroundings):
    outcome = sandbox.run([*PYTHON, PARENT.format(target="-1")])
    assert outcome.returncode in {0, 128 + 9}  # nobody else is left to be ended
    assert surroundings.victim.poll() is None
    assert sandbox.run(["true"]).succeeded


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for descriptor in range(3):
            os.close(descriptor)
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", sys.argv[1]])
    os._exit(0)
os.wait()
time.sleep(float(sys.argv[2]))
"""


def processes_with(marker):
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if marker in process.cmdline():
                found.append(process)
    return found


@pytest.mark.parametrize(("lasts_s", "ending"), [(0, "exit"), (60, "wall time")])
def test_a_daemon_ends_with_the_program(sandbox, tmp_path, lasts_s, ending):
    marker = str(tmp_path)
    outcome = sandbox.run([*PYTHON, DAEMON, marker, str(lasts_s)], limits=SandboxLimits(wall_s=0.5))
    assert outcome.ending == ending
    assert processes_with(marker) == []


def test_without_the_sandbox_a_daemon_outlives_the_program(tmp_path):
    subprocess.run([*PYTHON, DAEMON, str(tmp_path), "0"], check=True)
    daemons = processes_with(str(tmp_path))
    for daemon in daemons:
        daemon.kill()
    assert len(daemons) == 1


BOMB = """
import os, time
end, generations = time.monotonic() + 5, 0
while generations < 9 and time.monotonic() < end:
    try:
        os.fork()
        generations += 1
    except OSError:
        pass
time.sleep(60)
"""
"""512 processes at most: one that a broken sandbox lets go would take the machine with it."""


def test_a_program_that_multiplies_is_ended_with_all_its_children(sandbox, tmp_path):
    outcome = sandbox.run([*PYTHON, BOMB, str(tmp_path)], limits=SandboxLimits(wall_s=0.5, processes=40))
    assert outcome.timed_out
    assert processes_with(str(tmp_path)) == []


CHILDREN = """
import os, time
started = 0
try:
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(60)
        started += 1
except OSError:
    pass
print(started, flush=True)
os.kill(0, 9)
"""


def test_there_are_only_so_many_processes(any_sandbox):
    outcome = any_sandbox.run([*PYTHON, CHILDREN], limits=SandboxLimits(wall_s=10, processes=20))
    assert 10 < int(outcome.stdout) < 40


def test_without_the_sandbox_there_are_more():
    free = subprocess.run([*PYTHON, CHILDREN], capture_output=True, check=False, start_new_session=True)
    assert int(free.stdout) == 60


@pytest.mark.slow
def test_when_the_caller_is_killed_its_programs_end(sandbox, tmp_path):
    caller = f"""
from mlbench.toolkit import Sandbox, Wall
with Sandbox(Wall.{sandbox.wall.name}) as sandbox:
    sandbox.run({[*PYTHON, "import time; time.sleep(600)", str(tmp_path)]!r})
"""
    with subprocess.Popen([sys.executable, "-c", caller]) as process:
        while not (programs := [one for one in processes_with(str(tmp_path)) if one.pid != process.pid]):
            assert process.poll() is None
        process.kill()
    _, alive = psutil.wait_procs(programs, timeout=20)
    assert alive == []


def test_a_wall_that_does_not_hold_is_noticed():
    with Sandbox(Wall.NONE) as sandbox:
        found = weakness(sandbox)
    assert "read a file" in found
    assert "connect" in found
