"""A log that a process floods."""

import subprocess
import sys

import pytest

from mlbench.execution.processes import bounded_log
from mlbench.execution.processes.bounded_log import BoundedLog


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_log, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(bounded_log, "KEPT_BYTES", 1 << 19)
    (tmp_path / "log").write_text("the first word\n")
    log = BoundedLog(tmp_path / "log")
    yield log
    log.close()


def printing(log, text, times):
    """Have another process print to both of its streams."""
    code = f"import os\nfor _ in range({times}): os.write(1, {text.encode()!r}); os.write(2, {text.encode()!r})"
    subprocess.run([sys.executable, "-ISc", code], stdout=log, stderr=log, check=True)


def test_a_log_within_its_bound_stays_as_it_is(log, tmp_path):
    printing(log, "all is well\n", 10)
    log.cut()
    assert (tmp_path / "log").read_text() == "the first word\n" + "all is well\n" * 20


def test_a_flooded_log_keeps_its_beginning_and_its_end_and_says_how_much_is_left_out(log, tmp_path):
    for _ in range(3):
        printing(log, "x" * 1023 + "\n", 1024)  # 2 MiB
        log.cut()
        assert (tmp_path / "log").stat().st_size < 1 << 20
    printing(log, "the last word\n", 1)
    text = (tmp_path / "log").read_text()
    assert text.startswith("the first word\n")
    assert text.endswith("the last word\nthe last word\n")
    assert text.count("are left out here") == 1
    assert "(a log contains 1 MiB: 5.4 MiB are left out here)" in text  # 6 MiB, but for 1/2 MiB and the end


def test_it_is_the_file_itself_that_is_cut_whatever_stands_under_its_name(log, tmp_path):
    other = tmp_path / "other"
    (tmp_path / "log").rename(other)
    (tmp_path / "log").write_text("y" * (2 << 20))
    printing(log, "x" * 1024, 1024)
    log.cut()
    assert other.stat().st_size < 1 << 20
    assert (tmp_path / "log").stat().st_size == 2 << 20
