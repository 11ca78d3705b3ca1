"""What a search prints: trials, the answer and the plan, of rates and of settings."""

from dataclasses import dataclass

import pytest

from mlbench.reports.tune import (
    found_lines,
    found_settings_lines,
    plan_line,
    settings_plan_line,
    settings_text,
    settings_trial_line,
    trial_line,
)

START = {"execution.workers": 1, "execution.batching": "fixed", "backend.spinning": False}


@dataclass(frozen=True)
class Trial:
    """A run of a search: at which rate, and how many queries were late."""

    rate_per_s: float = 730.0
    is_full: bool = False
    answered: int = 4380
    late: int = 53
    is_valid: bool = True
    run_id: str = "20261101T000000Z-resnet50-0001"


@pytest.fixture
def runs(a_server_run):
    """Two full runs at one rate."""
    return [a_server_run(number, value) for number, value in ((1, 728.4), (2, 731.9))]


def test_a_probe_says_its_rate_and_the_share_of_late_queries_and_has_no_verdict():
    assert trial_line(Trial(), is_stored=False) == (
        "probe at 730/s: 1.2 % of 4,380 late  [20261101T000000Z-resnet50-0001]"
    )


@pytest.mark.parametrize(("is_valid", "word"), [(True, "valid"), (False, "INVALID")])
def test_a_full_run_has_a_verdict(is_valid, word):
    line = trial_line(Trial(is_full=True, is_valid=is_valid), is_stored=False)
    assert line.startswith(f"full run at 730/s: 1.2 % of 4,380 late, {word}  [")


def test_a_stored_trial_is_said_to_be_one():
    assert "late, stored  [" in trial_line(Trial(), is_stored=True)


@pytest.mark.parametrize(
    ("late", "answered", "share"),
    [(0, 4380, "0 % of 4,380"), (5, 10, "50 % of 10"), (4380, 4380, "100 % of 4,380"), (0, 0, "0 % of 0")],
)
def test_a_share_is_one_of_the_queries_that_were_answered(late, answered, share):
    assert f": {share} late" in trial_line(Trial(late=late, answered=answered), is_stored=False)


def test_a_rate_is_told_with_what_it_rests_on(runs):
    trials = [Trial(is_full=True, late=20, run_id=runs[0].run_id), Trial(is_full=True, late=40, run_id=runs[1].run_id)]
    assert list(found_lines("resnet50 pytorch Server fp32", 730.0, trials, runs)) == [
        "resnet50 pytorch Server fp32: 730/s sustained: 2 full runs at this rate, all valid",
        "  completed  728 to 732 samples/s over the repeats",
        "  late       0.46 % and 0.91 % of the queries",
        "  shown by   run-0001, run-0002",
    ]


def test_the_slowest_repeat_comes_first_whichever_was_made_first(runs):
    trials = [Trial(is_full=True)] * 2
    assert "  completed  728 to 732 samples/s over the repeats" in found_lines("x", 730.0, trials, runs[::-1])


def test_a_valid_run_at_a_higher_rate_is_told_with_how_to_see_whether_it_holds(runs, a_server_run):
    stored = a_server_run(3)
    higher = stored.model_copy(update={"load": {**stored.load, "target_qps": 912.5}})
    assert [*found_lines("x", 730.0, [Trial(is_full=True)] * 2, runs, higher)][-2:] == [
        "  higher     a run at 912.5/s was valid too, run-0003;",
        "             --set load.target_qps=912.5 --repeat 5 shows how often",
    ]


def test_a_rate_that_is_held_with_wrong_answers_says_so(runs):
    inaccurate = [
        run.model_copy(update={"verdict": run.verdict.model_copy(update={"is_accurate": False})}) for run in runs
    ]
    *_, last = found_lines("x", 730.0, [Trial(is_full=True)] * 2, inaccurate)
    assert last == "  Its answers miss the accuracy target: see `mlbench show`."


def test_a_rate_searched_for_without_accuracy_is_not_said_to_miss_it(runs):
    unscored = [
        run.model_copy(update={"verdict": run.verdict.model_copy(update={"is_accurate": None})}) for run in runs
    ]
    assert not any("accuracy" in line for line in found_lines("x", 730.0, [Trial(is_full=True)] * 2, unscored))


@pytest.mark.parametrize(
    ("stored", "ending"),
    [
        (0, "at least 2 min."),
        (1, "at least 2 min; 1 run of earlier searches is stored and would be reused."),
        (12, "at least 2 min; 12 runs of earlier searches are stored and would be reused."),
    ],
)
def test_a_plan_says_how_long_a_search_takes_and_what_is_there(stored, ending):
    line = plan_line("resnet50 null Server fp32", least_s=120.0, usual_s=1500.0, stored=stored)
    assert line == f"resnet50 null Server fp32: about 25 min, {ending}"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "the current settings"),
        ({"execution.workers": 2}, "execution.workers=2"),
        ({"backend.spinning": True}, "backend.spinning=true"),
        (
            {"execution.batching": "dynamic", "backend.spinning": True},
            "execution.batching=dynamic backend.spinning=true",
        ),
    ],
)
def test_settings_are_named_by_what_differs_from_todays_as_set_takes_them(changes, text):
    assert settings_text(START | changes, START) == text


def test_a_trial_of_settings_says_its_result(a_server_run):
    run = a_server_run(1, 1210.4)
    line = settings_trial_line("execution.workers=2", run, is_full=False, is_stored=False, reason="")
    assert line == "probe, execution.workers=2: 1,210 samples/s  [run-0001]"


def test_a_full_run_that_does_not_count_says_why_beside_its_result(a_server_run):
    run = a_server_run(1, 1210.4)
    line = settings_trial_line("the current settings", run, is_full=True, is_stored=True, reason="INVALID")
    assert line == "full run, the current settings: 1,210 samples/s, INVALID, stored  [run-0001]"


def test_a_trial_without_a_result_says_why(a_server_run):
    failed = a_server_run(1).model_copy(update={"result": None})
    lines = [
        settings_trial_line("execution.workers=2", None, is_full=False, is_stored=False, reason="out of memory"),
        settings_trial_line("execution.workers=2", failed, is_full=False, is_stored=False, reason=""),
    ]
    assert lines == [
        "probe, execution.workers=2: out of memory",
        "probe, execution.workers=2: no result  [run-0001]",
    ]


def test_the_best_settings_stand_beside_todays(a_server_run):
    best, start = (
        [a_server_run(number, value) for number, value in runs]
        for runs in (
            ((1, 900.0), (2, 880.0)),
            ((3, 700.0), (4, 710.0)),
        )
    )
    assert list(found_settings_lines("bert null Offline fp32", "execution.workers=2", best, start)) == [
        "bert null Offline fp32: the best settings tried are execution.workers=2",
        "  result     880 to 900 samples/s over 2 full runs",
        "  current    700 to 710 samples/s over 2 full runs",
        "  shown by   run-0001, run-0002",
    ]


def test_where_todays_settings_are_the_best_they_stand_there_once(a_server_run):
    start = [a_server_run(1, 700.0)]
    assert list(found_settings_lines("x", "the current settings", start, start)) == [
        "x: the best settings tried are the current settings",
        "  result     700 samples/s (1 full run)",
        "  shown by   run-0001",
    ]


def test_settings_whose_full_runs_gave_nothing_have_no_result(a_server_run):
    failed = a_server_run(3).model_copy(update={"result": None})
    lines = list(found_settings_lines("x", "execution.workers=2", [a_server_run(1, 700.0)], [failed]))
    assert "  current    none" in lines


def test_a_plan_of_settings_names_what_is_varied():
    line = settings_plan_line("x", usual_s=300.0, keys=["execution.workers", "backend.spinning"], trials=16)
    assert line == "x: about 5 min, 16 runs at most; varies execution.workers, backend.spinning."
