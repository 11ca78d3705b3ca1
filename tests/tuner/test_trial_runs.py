"""What a record says of a trial."""

from types import SimpleNamespace

import pytest

from mlbench import InvalidRunError
from mlbench.contracts.rules import Tokens
from mlbench.discovery import Plugins
from mlbench.rules.tiers import Tier
from mlbench.toolkit.rate_search import RateTrial
from mlbench.tuner.trial_runs import TrialRuns, check_completed
from mlbench.tuner.tune_plan import TuneRequest, plan_tune


def rule(name, *, passed):
    return {
        **{"rule": name, "measured": 1, "limit": 0, "unit": "", "passed": passed, "source": "", "required": True},
        **{"fix": f"Fix {name}.", "kind": "performance"},
    }


@pytest.fixture
def observe(a_run):
    """Return the observation of a run that broke these rules."""

    def observe(*broken, tokens=Tokens.NONE, is_full=True, **lateness):
        late = {"answered": 900, "late": 9, "most": 50, "is_ended": False, **lateness}
        verdict = {"not_applied": {}, "is_valid": not broken, "is_accurate": None, "is_conformant": False}
        counts = {"queries": 1000, "late_queries": 12}
        result = {"value": 1.0, "unit": "samples/s", "higher_is_better": True, "latency_ns": {}, "counts": counts}
        record = a_run(
            scenario="Server",
            accuracy=None,
            result=result,
            lateness=late,
            verdict={**verdict, "rules": [rule("seeds", passed=True), *(rule(each, passed=False) for each in broken)]},
        )
        trial = RateTrial(rate_per_s=100.0, queries=1000, seconds=10.0, is_full=is_full, end_at_late_share=0.05)
        plan = SimpleNamespace(limits=SimpleNamespace(tokens=tokens))
        return TrialRuns(plan, None).observation(trial, record)

    return observe


def test_late_is_what_loadgen_counts(observe):
    found = observe()
    assert (found.answered, found.late, found.is_valid, found.rate_per_s) == (1000, 12, True, 100.0)


@pytest.mark.parametrize("how", [{"tokens": Tokens.MEASURED}, {"is_ended": True}])
def test_where_loadgen_does_not_count_or_was_ended_mlbench_does(observe, how):
    found = observe(**how)
    assert (found.answered, found.late) == (900, 9)


def test_a_run_that_was_too_late_is_an_observation(observe):
    assert not observe("loadgen_result", "latency_limit", "early_stopping").is_valid


def test_a_probe_may_be_too_short_and_a_full_run_not(observe):
    assert not observe("min_duration", is_full=False).is_valid
    with pytest.raises(InvalidRunError, match="for a reason that no rate changes: min_duration") as caught:
        observe("min_duration")
    assert caught.value.hint == "Fix min_duration."


@pytest.mark.parametrize("is_full", [True, False])
def test_wrong_answers_end_the_search_unless_the_run_was_ended(observe, is_full):
    with pytest.raises(InvalidRunError, match="no rate changes: replies_sound"):
        observe("replies_sound", is_full=is_full)
    assert not observe("replies_sound", "loadgen_errors", is_full=is_full, is_ended=True).is_valid


def test_a_run_that_failed_ends_the_search(a_failure):
    with pytest.raises(InvalidRunError, match="crash during warm-up: the process was ended by SIGSEGV"):
        check_completed(a_failure)


def test_probes_at_one_rate_are_repeats_so_that_a_resumed_search_finds_each(tmp_path):
    request = TuneRequest(workload="gptj", backend="null", power="none", tier=Tier.SMOKE, results=tmp_path)
    plugins = Plugins.discover()
    trial = RateTrial(rate_per_s=100.0, queries=1000, seconds=10.0, is_full=False, end_at_late_share=0.05)
    runs = TrialRuns(plan_tune(request, plugins), plugins)
    assert [runs.of(trial, number).repeat for number in (1, 2)] == [1, 2]
