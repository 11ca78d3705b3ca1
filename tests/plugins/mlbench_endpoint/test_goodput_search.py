"""The search for goodput, of servers whose good requests follow from the rate, and its words on the command line."""

from types import SimpleNamespace

import pytest
from invoking import invoke, refusal
from mlbench_endpoint.sweep.goodput_search import find_goodput, goal_of

from mlbench import UnavailableError


def search(good_share, *, share=0.9, begin_per_s=40.0, seconds=10, most_per_s=1e6, problem=""):
    """Search where ``good_share`` gives the share of good requests at a rate; return the outcome and the trials."""
    trials = []

    def measure(step):
        trials.append(step)
        within = round(step.queries * good_share(step.rate_per_s))
        found = {"requests": step.queries, "within": within, "share": {"value": within / step.queries}}
        return SimpleNamespace(run_id=str(len(trials)), goodput=found, problem=problem)

    goal = goal_of(share, seconds=seconds, requests=44)
    return find_goodput(goal, begin_per_s, most_per_s, measure, lambda seen: None), trials


@pytest.mark.parametrize("begin_per_s", [5.0, 40.0, 400.0])
def test_the_rate_is_just_below_the_one_where_requests_become_late(begin_per_s):
    outcome, trials = search(lambda rate_per_s: 1.0 if rate_per_s <= 50 else 0.5, begin_per_s=begin_per_s)
    assert 40 <= outcome.rate_per_s <= 50
    assert len(outcome.runs) == 2
    assert all(each.is_full for each in trials[-2:])
    assert outcome.line("ttft=1s").startswith("Highest rate at which 0.9 of the requests are within ttft=1s: ")


def test_a_full_run_has_as_many_requests_as_the_share_needs_to_be_sure():
    """459 for 99 % without one outside: tables of early stopping."""
    _, trials = search(lambda rate_per_s: 1.0 if rate_per_s <= 50 else 0.5, share=0.99, seconds=2)
    assert trials[-1].queries == 459


def test_no_rate_above_what_can_be_sent_is_tried():
    outcome, trials = search(lambda rate_per_s: 1.0, most_per_s=80)
    assert 60 <= outcome.rate_per_s <= 80
    assert max(each.rate_per_s for each in trials) <= 80


def test_no_rate_is_found_where_none_is_good():
    outcome, _ = search(lambda rate_per_s: 0.5)
    assert outcome.rate_per_s is None
    assert outcome.line("ttft=1s").startswith("No rate was found")


def test_a_rate_whose_runs_are_invalid_does_not_count():
    outcome, _ = search(lambda rate_per_s: 1.0 if rate_per_s <= 50 else 0.5, problem="INVALID by some rule")
    assert outcome.rate_per_s is None


def test_a_run_without_an_answer_ends_the_search():
    goal = goal_of(0.9, seconds=10, requests=44)
    silent = SimpleNamespace(run_id="1", goodput=None, problem="the server is gone")
    with pytest.raises(UnavailableError, match="the server is gone"):
        find_goodput(goal, 10.0, 100.0, lambda step: silent, lambda seen: None)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--find-goodput",), "needs the limits"),
        (("--find-goodput", "0.9", "--slo", "ttft=1s", "--rate", "5"), "chooses the loads"),
        (("--find-goodput", "0.9", "--slo", "ttft=1s", "--repeat", "2"), "chooses the loads"),
        (("--find-goodput", "1", "--slo", "ttft=1s"), "not in the range"),
        (("--slo", "ttft=1"), "has no time above 0"),
    ],
)
def test_a_search_without_limits_or_with_loads_is_refused_before_anything_is_sent(words, problem):
    assert problem in refusal(invoke("bench-endpoint", "http://127.0.0.1:9/v1", *words))
