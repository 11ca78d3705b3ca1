"""Standard output that is full or closed: of the real command, whose streams are the process's."""

import os
import subprocess
import sys

import pytest

LARGE = "published", "resnet50"
"""A table of more than a buffer."""


def run(redirection, *words, **environment):
    script = f'exec "$@" {redirection}'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "mlbench", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.thorough("command line", but=["with a buffer---help"])
@pytest.mark.parametrize("words", [["--version"], ["--help"], LARGE], ids=" ".join)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["with a buffer", "without one"])
def test_a_full_disk_is_one_line_and_a_status_of_its_own(words, unbuffered):
    done = run(">/dev/full", *words, PYTHONUNBUFFERED=unbuffered)
    assert done.stderr == "Error: standard output cannot be written: No space left on device.\n"
    assert done.returncode == 74


@pytest.mark.thorough("command line", but=["<&- >&- 2>&-"])
@pytest.mark.parametrize("redirection", [">&-", "<&- >&- 2>&-"])
def test_without_streams_a_command_does_its_work(redirection):
    done = run(redirection, *LARGE)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path):
    system = tmp_path / "system.json"
    done = run(">&- 2>&-", "system", "describe", "-o", str(system))
    assert done.returncode == 1  # fields are left for a person
    assert system.read_text().startswith("{")
    assert system.read_text().endswith("}\n")


def test_a_reader_that_has_seen_enough_ends_a_command_silently():
    done = run("| head -n 1", *LARGE)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
