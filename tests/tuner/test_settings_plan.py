"""What a search of settings varies, and the runs that it makes."""

from dataclasses import replace
from pathlib import Path

import pytest

from mlbench import UsageError
from mlbench.discovery import Plugins
from mlbench.rules.tiers import Tier
from mlbench.tuner import settings_plan
from mlbench.tuner.search.settings_search import SettingsTrial
from mlbench.tuner.settings_plan import plan_settings, searches_settings, values_to_save
from mlbench.tuner.tune_plan import PROBES, TuneRequest


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(settings_plan, "physical_cores", lambda: ["a core", "another"])


@pytest.fixture
def plan_of(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))

    def plan_of(workload, backend="null", scenario="Offline", **asked):
        request = TuneRequest(
            workload=workload, backend=backend, scenario=scenario, power="none", results=Path("results"), **asked
        )
        return plan_settings(request, Plugins.discover())

    return plan_of


def values(plan):
    return {knob.key: knob.values for knob in plan.knobs}


def test_a_batch_program_varies_how_it_is_batched_and_no_more_workers_than_cores(plan_of):
    assert values(plan_of("resnet50")) == {
        "execution.batching": ("dynamic", "bucketed", "fixed"),
        "execution.workers": (1, 2),
        "execution.instances": (1, 2),
    }


def test_a_generation_program_varies_how_it_reads_prompts(plan_of):
    assert values(plan_of("llama2-70b")) == {
        "execution.instances": (1, 2),
        "execution.prefill_tokens": (128, 256, 512, 1024, 2048),
    }


def test_a_backend_says_what_of_its_options_may_vary(plan_of):
    found = values(plan_of("bert", "onnxruntime"))
    assert found["backend.optimization"] == ("basic", "extended", "all")
    assert found["backend.spinning"] == (False, True)
    assert "backend.threads" not in found


def test_the_search_begins_at_what_a_run_has_today_where_that_is_no_usual_value_too(plan_of, tmp_path, monkeypatch):
    (tmp_path / "settings.toml").write_text(
        '[[settings]]\nexecution.workers = 3\nexecution.batching = "inline"\nexecution.instances = "auto"\n'
    )
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "settings.toml"))
    request = TuneRequest(workload="resnet50", backend="null", scenario="Offline", power="none", results=tmp_path)
    plan = plan_settings(request, Plugins.discover())
    found = values(plan)
    assert found["execution.workers"] == (1, 2, 3)
    assert found["execution.batching"][0] == plan.start["execution.batching"] == "inline"
    assert found["execution.instances"] == ("auto", 1, 2)


def test_what_is_given_is_not_varied_and_if_all_is_given_nothing_is_left_to_find(plan_of):
    given = {"execution.workers": 2, "execution.batching": "fixed"}
    assert list(values(plan_of("resnet50", overrides=given))) == ["execution.instances"]
    with pytest.raises(UsageError, match="null has no setting that may vary, but those given with --set"):
        plan_of("resnet50", overrides={**given, "execution.instances": 1})


def test_a_limit_of_a_latency_means_nothing_there(plan_of):
    with pytest.raises(UsageError, match="Offline is not judged by a latency, so --limit has no meaning there"):
        plan_of("resnet50", limits={"load.latency_limit_ms": 10.0})


@pytest.mark.parametrize(("scenario", "is_so"), [("", False), ("Server", False), ("Offline", True), ("offline", True)])
def test_settings_are_searched_for_where_a_named_scenario_sends_no_rate(scenario, is_so):
    request = TuneRequest(workload="resnet50", backend="null", scenario=scenario, power="none", results=Path("results"))
    assert searches_settings(request, Plugins.discover()) is is_so


def test_a_probe_is_short_hidden_and_scores_nothing_and_a_full_run_is_as_asked(plan_of):
    plan, plugins = plan_of("resnet50", tier=Tier.DEV, overrides={"load.reply_checks": 16}), Plugins.discover()
    changed = plan.start.changed("execution.workers", 2)
    probe = plan.run_of(SettingsTrial(settings=changed, is_full=False), plugins)
    assert (probe.tier, probe.wants_accuracy, probe.results) == (Tier.SMOKE, False, Path("results") / PROBES)
    full = plan.run_of(SettingsTrial(settings=changed, is_full=True, repeat=2), plugins)
    assert (full.tier, full.wants_accuracy, full.repeat, full.tag) == (Tier.DEV, True, 2, "tune")
    assert full.results == Path("results")
    for run in (probe, full):
        assert run.settings.by_key["execution.workers"].value == 2
        assert run.settings.by_key["load.reply_checks"].value == 16


def test_what_is_saved_is_what_differs_and_what_an_earlier_search_kept(plan_of):
    plan = plan_of("resnet50", overrides={"load.reply_checks": 16})
    other = 1 if plan.start["execution.workers"] == 2 else 2
    best = plan.start.changed("execution.workers", other)
    assert values_to_save(plan, best) == {"load.reply_checks": 16, "execution.workers": other}
    assert values_to_save(plan, plan.start) == {}
    settings = plan.base.settings
    kept = replace(settings.by_key["execution.batching"], layer="tune")
    tuned = replace(settings, by_key={**settings.by_key, "execution.batching": kept})
    again = replace(plan, base=replace(plan.base, settings=tuned))
    assert values_to_save(again, plan.start) == {"load.reply_checks": 16, "execution.batching": kept.value}
