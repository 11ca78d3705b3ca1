"""What a user sees while a run goes on, with a terminal and without."""

import io
import re
import threading
import time
from functools import partial

import pytest
from rich.console import Console

from mlbench.cli import progress
from mlbench.cli.progress import Progress
from mlbench.wire.progress import ProgressMessage

COMPILE = ProgressMessage(stage="compile")
UP = "\x1b[1A"


class Run:
    """Stands for a run; its line is counted."""

    def __init__(self):
        self.lines_asked = threading.Semaphore(0)
        self.heard = []

    def on_progress(self, message, now_s):
        self.heard.append(message)

    def line(self, now_s):
        self.lines_asked.release()
        return "bert pytorch Offline: compile"


@pytest.fixture
def run():
    return Run()


def test_a_stage_that_says_nothing_for_long_gets_its_line_all_the_same(run, capsys):
    with Progress(quiet_period_s=0.01) as all_runs, all_runs.follow(run) as shown:
        shown.on_progress(COMPILE)
        for _ in range(3):
            assert run.lines_asked.acquire(timeout=60)
    assert capsys.readouterr().err.splitlines()[:2] == ["bert pytorch Offline: compile"] * 2


def test_nothing_is_printed_before_the_first_sign_of_life(run, capsys):
    with Progress(quiet_period_s=0.001) as all_runs, all_runs.follow(run):
        assert not run.lines_asked.acquire(timeout=0.05)
    assert capsys.readouterr().err == ""


def test_lines_end_with_the_run(run, capsys):
    with Progress(quiet_period_s=0.001) as all_runs, all_runs.follow(run) as shown:
        shown.on_progress(COMPILE)
        assert run.lines_asked.acquire(timeout=60)
    capsys.readouterr()
    assert not any(thread.name == "mlbench-progress" for thread in threading.enumerate())


def test_a_line_comes_once_a_minute():
    assert progress.QUIET_PERIOD_S == 60


def test_a_quiet_one_prints_nothing_however_long_a_run_takes(run, capsys):
    with Progress(quiet_period_s=0.001, is_quiet=True) as all_runs, all_runs.follow(run) as shown:
        shown.on_progress(COMPILE)
        assert not run.lines_asked.acquire(timeout=0.05)
    assert capsys.readouterr().err == ""


@pytest.fixture
def terminal(monkeypatch):
    """Return what is written to a terminal of 40 columns."""
    written = io.StringIO()
    console = partial(Console, file=written, force_terminal=True, width=40)
    monkeypatch.setattr(progress, "Console", lambda **how: console())
    return written


def test_a_line_that_is_printed_meanwhile_stays_on_the_terminal(terminal):
    with Progress() as shown, shown.follow(LaneRun("bert", "run 1 of 2")):
        with shown.paused():
            terminal.write("the plan\n")
    before, _, after = terminal.getvalue().partition("the plan\n")
    assert before.endswith("\x1b[1A\x1b[2K" * 2)  # up and erased, a line after the other
    assert UP not in after.partition("run 1 of 2")[0]


def test_no_line_reaches_the_edge_where_the_terminal_adds_the_users_interrupt(terminal):
    with Progress() as shown, shown.follow(LaneRun("bert", "run 1 of 2 " + "#" * 40)):
        pass
    lines = [re.sub(r"\x1b\[[?\d]*\w", "", line) for line in re.split(r"[\r\n]", terminal.getvalue())]
    assert max(map(len, lines)) == 38


class LaneRun:
    """Stands for a run on a lane."""

    def __init__(self, name, whole):
        self.name, self.whole, self.heard = name, whole, []

    def on_progress(self, message, now_s):
        self.heard.append(message)

    def lines(self, now_s):
        return [self.whole, "not shown"]

    def stage(self, now_s):
        return f"{self.name}: compile"


def test_lanes_have_a_line_each_below_how_far_the_whole_is():
    first, second = LaneRun("bert", "run 3 of 9"), LaneRun("resnet50", "run 4 of 9")
    with Progress() as shown:
        assert shown.lines(0.0) == []
        with shown.follow(first, 2) as followed:
            followed.on_progress(COMPILE)
            with shown.follow(second, 1):
                assert shown.lines(0.0) == ["run 4 of 9", "lane 1: resnet50: compile", "lane 2: bert: compile"]
            assert shown.lines(0.0) == ["run 4 of 9", "lane 2: bert: compile"]
    assert (first.heard, second.heard) == ([COMPILE], [])


def test_lanes_without_a_terminal_are_told_once_in_a_period(capsys):
    told = LaneRun("bert", "run 3 of 9")
    with Progress(quiet_period_s=0.01) as shown, shown.follow(told, 1) as followed:
        followed.on_progress(COMPILE)
        until_s = time.monotonic() + 60
        while "lane 1: bert: compile" not in (said := capsys.readouterr().err):
            assert time.monotonic() < until_s
    assert "run 3 of 9\n" in said
