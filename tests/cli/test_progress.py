"""What a user sees while a run goes on, without a terminal: a line a minute."""

import pytest

from mlbench.cli import progress
from mlbench.cli.progress import Progress
from mlbench.runner import RunRequest

REQUEST = RunRequest(workload="stable-diffusion-xl", backend="pytorch", scenario="Offline")


@pytest.fixture
def printed(monkeypatch, capsys):
    """Let each message come two minutes after the last, the first when the run begins, and return the lines."""
    moments = iter(range(0, 100_000, 120))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(moments))

    def lines(*messages):
        with Progress(REQUEST, 1, 3) as shown:
            for message in ({"stage": "load"}, *messages):
                shown.on_progress(message)
        return capsys.readouterr().err.splitlines()

    return lines


def test_nothing_is_printed_before_what_is_wrong_in_the_first_stage_however_late_that_began(printed):
    assert printed() == []


def test_the_stage_and_the_samples_answered_are_shown(printed):
    lines = printed({"stage": "compile"}, {"stage": "accuracy", "answered": 3, "samples": 12, "min_duration_ms": 0})
    assert lines[0] == "[1/3] stable-diffusion-xl pytorch Offline: compile"
    assert lines[1].startswith("[1/3] stable-diffusion-xl pytorch Offline: accuracy, 3 samples")


def test_how_far_a_slow_batch_is_shows_behind_and_goes_with_its_stage(printed):
    lines = printed(
        {"stage": "warm-up", "step": 7, "steps": 20},
        {"stage": "accuracy", "answered": 0, "samples": 12, "min_duration_ms": 0},
        {"stage": "accuracy", "step": 9, "steps": 20},
        {"stage": "score"},
    )
    assert [line.split(": ")[1] for line in lines] == [
        "warm-up, step 7 of 20",
        "accuracy, 0 samples",
        "accuracy, 0 samples, step 9 of 20",
        "score",
    ]
