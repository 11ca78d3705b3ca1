import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from mlbench import UnavailableError
from mlbench.toolkit import Ending, Sandbox, SandboxLimits, Wall
from mlbench.toolkit.sandbox import sandbox as sandbox_module
from mlbench.toolkit.sandbox.probe import weakness
from mlbench.toolkit.sandbox.readable import readable_paths

PYTHON = (sys.executable, "-I", "-S", "-c")
MIB = 1 << 20


@pytest.fixture(scope="module")
def sandbox(any_sandbox):
    return any_sandbox


def python(sandbox, program, **limits):
    return sandbox.run([*PYTHON, program], limits=SandboxLimits(**limits))


class TestAProgram:
    def test_reads_its_input_and_its_files_and_is_heard(self, sandbox):
        program = "import sys; print(sys.stdin.read(), open('a').read()); print('aside', file=sys.stderr)"
        outcome = sandbox.run([*PYTHON, program], files={"a": "file\n"}, stdin=b"input")
        assert (outcome.stdout, outcome.stderr) == (b"input file\n\n", b"aside\n")
        assert outcome.succeeded
        assert 0 < outcome.wall_ns < 20e9

    def test_starts_in_a_folder_of_its_own_where_it_may_write(self, sandbox):
        program = "import os; open('new', 'w').write('x'); print(os.listdir(), os.getcwd() == os.environ['HOME'])"
        assert python(sandbox, program).stdout == b"['new'] True\n"

    def test_finds_what_an_earlier_one_left_in_the_same_folder(self, sandbox):
        with sandbox.folder({"script": "#!/bin/sh\necho made > made\n"}) as folder:
            assert folder.run(["sh", "script"]).succeeded
            assert folder.run(["cat", "made"]).stdout == b"made\n"

    def test_can_be_compiled_and_run(self, sandbox):
        if sandbox.run(["cc", "--version"]).returncode == 127:
            pytest.skip("no C compiler is installed")
        with sandbox.folder({"main.c": "int main(void) { return 7; }"}) as folder:
            compiled = folder.run(["cc", "main.c", "-o", "main"])
            assert (compiled.returncode, compiled.stderr) == (0, b"")
            assert folder.run(["./main"]).returncode == 7

    @pytest.mark.parametrize(
        ("program", "returncode"),
        [("raise SystemExit(3)", 3), ("import os; os.abort()", 128 + signal.SIGABRT)],
    )
    def test_ends_as_in_a_shell(self, sandbox, program, returncode):
        outcome = python(sandbox, program)
        assert (outcome.ending, outcome.returncode) == (Ending.EXIT, returncode)
        assert not outcome.succeeded

    def test_that_is_not_there_is_named(self, sandbox):
        outcome = sandbox.run(["no-such-program"])
        assert (outcome.returncode, outcome.stderr) == (127, b"no-such-program: No such file or directory\n")

    def test_has_the_variables_it_is_given(self, sandbox):
        outcome = sandbox.run([*PYTHON, "import os; print(os.environ['A'])"], environment={"A": "b"})
        assert outcome.stdout == b"b\n"

    def test_may_be_one_of_many_at_once(self, sandbox):
        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(lambda number: sandbox.run(["echo", str(number)]), range(24)))
        assert [int(outcome.stdout) for outcome in outcomes] == list(range(24))


class TestALimit:
    @pytest.mark.parametrize("program", ["while True: pass", "import time; time.sleep(60)"])
    def test_of_time(self, sandbox, program):
        outcome = python(sandbox, program, wall_s=0.3)
        assert outcome.ending is Ending.WALL_TIME
        assert outcome.timed_out
        assert 0.3e9 <= outcome.wall_ns < 30e9

    @pytest.mark.slow
    def test_of_processor_time(self, sandbox):
        outcome = python(sandbox, "while True: pass", wall_s=60, cpu_s=1)
        assert outcome.ending is Ending.CPU_TIME
        assert outcome.timed_out

    def test_of_memory_of_a_process(self, sandbox):
        outcome = python(sandbox, f"bytearray({300 * MIB})", memory_bytes=200 * MIB)
        assert outcome.stderr.endswith(b"MemoryError\n")
        assert python(sandbox, f"bytearray({100 * MIB})", memory_bytes=200 * MIB).succeeded

    @pytest.mark.slow
    def test_of_memory_of_all_together(self, sandbox):
        program = f"import os, time; [os.fork() for _ in range(3)]; x = b'x' * {100 * MIB}; time.sleep(60)"
        assert python(sandbox, program, memory_bytes=300 * MIB).ending is Ending.MEMORY

    @pytest.mark.slow
    def test_of_memory_that_is_shared(self, sandbox):
        program = (
            f"import mmap, time; m = mmap.mmap(-1, {600 * MIB}); m[::4096] = bytes({600 * MIB >> 12}); time.sleep(60)"
        )
        outcome = python(sandbox, program, memory_bytes=300 * MIB)
        if sandbox.wall is Wall.NONE:
            assert outcome.ending is Ending.MEMORY
        else:  # it can be held unseen, so that there is none
            assert outcome.stderr.endswith(b"PermissionError: [Errno 1] Operation not permitted\n")

    def test_of_a_file(self, sandbox):
        program = f"f = open('f', 'wb'); f.write(bytes({2 * MIB}))"
        assert b"File too large" in python(sandbox, program, file_bytes=MIB).stderr
        assert python(sandbox, program, file_bytes=2 * MIB).succeeded

    def test_of_a_folder(self, sandbox):
        program = f"import time\nfor n in range(9): open(str(n), 'wb').write(bytes({MIB}))\ntime.sleep(60)"
        assert python(sandbox, program, folder_bytes=4 * MIB).ending is Ending.FOLDER

    def test_of_output(self, sandbox):
        outcome = sandbox.run(["yes"], limits=SandboxLimits(output_bytes=MIB))
        assert outcome.ending is Ending.OUTPUT
        assert outcome.stdout == b"y\n" * (MIB // 2)

    def test_of_output_counts_for_a_short_program_too(self, sandbox):
        outcome = sandbox.run(["echo", "12345"], limits=SandboxLimits(output_bytes=5))
        assert (outcome.ending, outcome.stdout) == (Ending.OUTPUT, b"12345")


class TestTheEnd:
    def test_leaves_no_folder_and_follows_no_link(self, tmp_path):
        (tmp_path / "kept").touch()
        tmp_path.chmod(0o750)
        program = f"import os; os.symlink({str(tmp_path)!r}, 'link'); os.makedirs('a/b'); os.chmod('a', 0)"
        with Sandbox(Wall.NONE) as opened:
            with opened.folder({}) as folder:
                assert folder.run([*PYTHON, program]).succeeded
                home = Path(folder.run(["pwd"]).stdout.decode().strip()).parent
            assert [entry.name for entry in home.iterdir()] == ["root"]
        assert not home.exists()
        assert (tmp_path / "kept").exists()
        assert tmp_path.stat().st_mode & 0o777 == 0o750

    def test_comes_to_a_closed_sandbox_and_not_before_it_is_opened(self):
        closed = Sandbox(Wall.NONE)
        with pytest.raises(ValueError, match="context manager"):
            closed.run(["true"])
        with closed:
            assert closed.run(["true"]).succeeded
        with pytest.raises(ValueError, match="context manager"):
            closed.run(["true"])
        with closed:
            assert closed.run(["true"]).succeeded


class TestAvailability:
    def test_the_strongest_wall_that_stands_is_taken(self):
        sandbox = Sandbox.available()
        assert sandbox.wall is not Wall.NONE
        with sandbox:
            assert not weakness(sandbox)

    @pytest.mark.slow
    def test_where_namespaces_are_forbidden_the_other_wall_is_taken(self):
        with Sandbox(Wall.LANDLOCK) as landlock:
            if reason := weakness(landlock):
                pytest.skip(f"landlock does not stand here: {reason}")
        program = """
from mlbench.toolkit import Sandbox
from mlbench.toolkit.sandbox import linux, seccomp
linux.gain_no_privileges()
linux.filter_calls(seccomp.refusing({"unshare"}))
print(Sandbox.available().wall)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("landlock\n", "")

    def test_where_none_stands_code_is_refused_unless_the_user_insists(self, monkeypatch):
        monkeypatch.setattr(sandbox_module, "weakness", lambda sandbox: "a program could connect")
        with pytest.raises(UnavailableError) as caught:
            Sandbox.available(setting="--set workload.run_unprotected=true")
        assert str(caught.value) == (
            "this machine has no isolation for code that a model wrote (namespaces: a program could connect; landlock: "
            "a program could connect). Allow user namespaces, or use a kernel with Landlock, or run it unprotected "
            "with --set workload.run_unprotected=true."
        )
        assert Sandbox.available(insist=True).wall is Wall.NONE

    @pytest.mark.parametrize("wall", Wall)
    def test_a_keeper_that_was_killed_is_reported_and_the_next_program_has_another(self, wall):
        with Sandbox(wall) as opened:
            if wall is not Wall.NONE and (reason := weakness(opened)):
                pytest.skip(reason)
            with opened.folder({}) as folder:
                folder.run(["true"])
                os.kill(opened._keeper.pid, signal.SIGKILL)
                with pytest.raises(UnavailableError, match="cannot start a program: its keeper has ended"):
                    folder.run(["true"])
                if wall is Wall.NAMESPACES:
                    with pytest.raises(UnavailableError, match="its folder has gone with the keeper that made it"):
                        folder.run(["true"])
            assert opened.run(["echo", "again"]).stdout == b"again\n"

    def test_a_supervisor_that_was_killed_is_reported(self):
        with Sandbox(Wall.NONE) as opened, ThreadPoolExecutor(1) as pool:
            running = pool.submit(opened.run, ["sleep", "60"])
            while not (programs := psutil.Process(opened._keeper.pid).children(recursive=True)[1:]):
                assert not running.done()
            programs[0].parent().kill()
            with pytest.raises(UnavailableError, match="cannot start a program: its supervisor has ended"):
                running.result()
            assert opened.run(["true"]).succeeded

    def test_a_machine_without_room_is_reported(self, monkeypatch):
        with Sandbox(Wall.NONE) as opened:
            monkeypatch.setattr(opened, "_home", Path("/nowhere"))
            with pytest.raises(UnavailableError, match="cannot start a program: No such file or directory"):
                opened.run(["true"])

    def test_files_beyond_what_there_is_room_for_are_reported(self):
        with Sandbox(Wall.NAMESPACES) as opened:
            if reason := weakness(opened):
                pytest.skip(reason)
            with pytest.raises(UnavailableError, match="cannot start a program: No space left on device"):
                opened.run(["true"], files={"a": "x" * 65 * MIB})
            assert opened.run(["true"]).succeeded


class TestWhatIsShown:
    def test_links_on_the_way_and_the_place_they_lead_to(self, tmp_path):
        (tmp_path / "real" / "bin").mkdir(parents=True)
        (tmp_path / "link").symlink_to("real")
        shown = readable_paths([tmp_path / "link" / "bin"])
        assert str(tmp_path / "link") in shown
        assert str(tmp_path / "real" / "bin") in shown
        assert str(tmp_path / "real") not in shown

    def test_nothing_twice(self, tmp_path):
        (tmp_path / "a" / "b").mkdir(parents=True)
        shown = readable_paths([tmp_path / "a", tmp_path / "a" / "b"])
        assert str(tmp_path / "a") in shown
        assert str(tmp_path / "a" / "b") not in shown

    def test_no_folder_that_holds_the_home(self, tmp_path, monkeypatch):
        (tmp_path / "home" / "user").mkdir(parents=True)
        monkeypatch.setenv("HOME", str(tmp_path / "home" / "user"))
        shown = readable_paths([tmp_path / "home" / "user", tmp_path / "home"])
        assert not any(path.startswith(str(tmp_path)) for path in shown)

    def test_a_program_installed_elsewhere(self, tmp_path):
        program = tmp_path / "tool" / "bin" / "tool"
        program.parent.mkdir(parents=True)
        (tmp_path / "tool" / "word").write_text("found\n")
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/tool/word\n")
        program.chmod(0o755)
        tmp_path.chmod(0o755)
        sandbox = Sandbox.available()
        with sandbox:
            assert sandbox.run([str(program)]).returncode == 127
        with sandbox.showing([program]) as showing:
            assert showing.run([str(program)]).stdout == b"found\n"
            assert showing.run(["tool"]).stdout == b"found\n"
