"""How descendants are found and ended, where the kernel lists children and where it does not."""

import subprocess
import sys

import psutil
import pytest

from mlbench.execution.processes import supervisor

TREE = """
import os, subprocess, sys
inner = [sys.executable, "-I", "-S", "-c", "print(flush=True); input()"]
hidden = [sys.executable, "-I", "-S", "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *inner]
subprocess.Popen(inner, start_new_session=True)
subprocess.run(hidden, start_new_session=True)
"""


@pytest.fixture
def tree():
    """A process with two below it, and one more below one of these; all are there."""
    command = [sys.executable, "-I", "-S", "-c", TREE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for _ in range(2):
            process.stdout.readline()
        yield process
        process.communicate()


@pytest.mark.parametrize("lists_children", [True, False])
def test_all_that_a_process_started_is_found(tree, monkeypatch, lists_children):
    known = {each.pid for each in psutil.Process(tree.pid).children(recursive=True)}
    if not lists_children:
        monkeypatch.setattr(supervisor, "_listed_children", lambda parent: pytest.fail("the kernel lists no children"))
        monkeypatch.setattr(supervisor.os.path, "exists", lambda path: False)
    assert supervisor.descendants(tree.pid) == known
    assert len(known) == 3


ENDING = """
import os, subprocess, sys
from mlbench.execution.processes import supervisor
supervisor.adopt_orphans()
nested = "import os, subprocess, sys\\nsubprocess.Popen(['sleep', '3600'], start_new_session=True)\\nos._exit(5)"
subprocess.run([sys.executable, "-I", "-S", "-c", nested])
ended = {}
assert supervisor.end_descendants(60.0, ended.__setitem__)
print(len(ended), supervisor.descendants(os.getpid()))
"""


def test_what_has_lost_its_parent_is_ended_too():
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=False)
    assert done.stdout == "1 set()\n", done.stderr


def test_a_refused_prctl_is_an_error_that_names_it():
    with pytest.raises(OSError, match="naming: Invalid argument"):
        supervisor.prctl("naming", 1 << 20)
