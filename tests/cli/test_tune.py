"""``mlbench tune`` under real LoadGen, on the null backend's queue: a service of known capacity."""

import json
import os
import shutil
import tomllib
from types import SimpleNamespace

import pytest
from invoking import invoke, refusal

from mlbench.execution.export.compile_cache import build_once
from mlbench.records.run_record import read
from mlbench.records.store.run_folder import runs_in
from mlbench.tuner.tune_plan import PROBES

SERVICE_MS = 4
CAPACITY_PER_S = 1000 / SERVICE_MS


def tune(*words):
    return invoke("tune", *words)


def search(results, *words):
    """Tune a queue whose limit is far above its service time: on a busy machine too, late is what queued."""
    common = ["--backend", "null", "--tier", "smoke", "--no-accuracy", "--power", "none", "--results", str(results)]
    return tune("gptj", *common, "--set", f"backend.service_ms={SERVICE_MS}", *words)


@pytest.fixture(scope="module")
def tuned(cache, tmp_path_factory):
    """A search that was carried out and saved, once for all processes of the tests: a copy of each process's own."""

    def make(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLBENCH_SETTINGS", str(folder / "settings.toml"))
            done = search(folder / "results", "--save", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["saved"] == str(folder / "settings.tuned.toml")
        (folder / "answer.json").write_text(done.stdout)

    folder = shutil.copytree(build_once("tuned", "", make), tmp_path_factory.mktemp("tune") / "copy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_SETTINGS", str(folder / "settings.toml"))
        yield SimpleNamespace(
            folder=folder, results=folder / "results", answer=json.loads((folder / "answer.json").read_text())
        )


@pytest.mark.slow
def test_two_valid_runs_at_one_rate_show_it(tuned):
    runs = [read(tuned.results / name) for name in tuned.answer["runs"]]
    assert len(runs) == 2
    assert {run.load["target_qps"] for run in runs} == {tuned.answer["rate_per_s"]}
    assert all(run.verdict.is_valid and (run.tag, run.tier) == ("tune", "smoke") for run in runs)
    assert [run.repeat for run in runs] == [1, 2]
    values = sorted(run.result.value for run in runs)
    assert tuned.answer["completed"] == {"low": values[0], "high": values[1]}
    assert 0.1 * CAPACITY_PER_S < tuned.answer["rate_per_s"] < 1.2 * CAPACITY_PER_S


@pytest.mark.slow
def test_probes_are_stored_as_runs_and_are_no_results(tuned):
    probes = [read(folder) for folder in runs_in(tuned.results / PROBES)]
    assert {probe.tag for probe in probes} == {"tune-probe"}
    reason = "a search needs no more than the speed"
    assert {probe.not_measured["overhead"] for probe in probes} == {reason}
    runs = [read(folder) for folder in runs_in(tuned.results)]
    assert all(run.not_measured["overhead"] != reason for run in runs)
    assert {probe.verdict.not_applied["no_caching"] for probe in probes} == {reason}
    assert all(any(rule.rule == "no_caching" for rule in run.verdict.rules) for run in runs)
    assert {"Offline", "SingleStream", "Server"} == {probe.scenario for probe in probes}
    listed = invoke("query", "SELECT DISTINCT tag FROM runs", "--results", tuned.results)
    assert "tune-probe" not in listed.stdout
    assert len(probes) + len(runs_in(tuned.results)) == tuned.answer["made"]
    shown = invoke("table", "--results", tuned.results / PROBES)
    assert shown.exit_code == 0


@pytest.mark.thorough("searches")
def test_a_later_run_sends_the_rate_and_its_record_says_that_tune_found_it(tuned):
    words = ["gptj", "--backend", "null", "--scenario", "Server", "--no-accuracy", "--power", "none", "--json"]
    done = invoke("run", *words, "--results", tuned.folder / "later")
    (record,) = json.loads(done.stdout)
    setting = record["settings"]["load.target_qps"]
    assert setting == {"value": tuned.answer["rate_per_s"], "layer": f"tune {tuned.folder / 'settings.tuned.toml'}"}
    assert record["settings"]["backend.service_ms"]["value"] == SERVICE_MS
    shown = invoke("settings", "gptj", "null", "--scenario", "Server", "--json")
    assert json.loads(shown.stdout)["load.target_qps"]["layer"] == setting["layer"]
    others = invoke("settings", "gptj", "null", "--scenario", "Offline", "--json")
    assert json.loads(others.stdout)["load.target_qps"]["layer"] == "default"


@pytest.mark.slow
def test_the_entry_says_how_it_was_found(tuned):
    (entry,) = tomllib.loads((tuned.folder / "settings.tuned.toml").read_text())["settings"]
    assert entry["when"] == {
        **{"workload": "gptj", "backend": "null", "scenario": "Server", "profile": "mini", "precision": "fp32"}
    }
    assert (entry["found"]["by"], entry["found"]["runs"]) == ("mlbench tune", tuned.answer["runs"])


@pytest.mark.slow
def test_running_it_again_uses_what_is_there(tuned):
    done = search(tuned.results, "--json")
    again = json.loads(done.stdout)
    assert (again["made"], again["runs"]) == (0, tuned.answer["runs"])
    planned = search(tuned.results, "--plan", "--json")
    assert json.loads(planned.stdout)["is_done"]


@pytest.mark.slow
def test_a_search_goes_on_where_it_was_left_off(tuned):
    """Without the last full run, that one alone is made."""
    last = tuned.results / tuned.answer["runs"][-1]
    hidden = tuned.folder / last.name
    last.rename(hidden)
    done = search(tuned.results, "--json", "--plan")
    assert json.loads(done.stdout)["stored"] == tuned.answer["made"] - 3  # the two speeds are no trials
    assert not json.loads(done.stdout)["is_done"]
    hidden.rename(last)


@pytest.mark.slow
def test_other_conditions_have_runs_of_their_own(tuned):
    done = search(tuned.results, "--plan", "--json", "--set", "backend.service_spread=0.2")
    assert json.loads(done.stdout)["stored"] == 0
    done = search(tuned.results, "--plan", "--json", "--fresh")
    assert json.loads(done.stdout)["stored"] == 0


def test_a_plan_runs_nothing(tmp_path):
    done = search(tmp_path / "results", "--plan")
    assert done.exit_code == 0
    assert done.stdout.startswith("gptj null Server fp32: about ")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["gptj", "--limit", "ttft=1"], "--limit 'ttft=1' has no unit"),
        (["gptj", "--limit", "ttft=1s"], "load.ttft_limit_ms is 1000, and that is not judged in such a run"),
        (["gptj", "--limit", "latency=30s"], "load.latency_limit_ms is 30000, larger than the limit of the rules"),
        (["llama2-70b", "--limit", "latency=1s"], "load.latency_limit_ms is 1000, and that is not judged"),
        (["gptj", "--budget", "0.1"], "--budget 0.1 is too short: the search takes at least"),
        (["gptj", "--budget", "nan"], "nan"),
        (
            ["gptj", "--scenario", "Offline", "--limit", "latency=1s"],
            "Offline is not judged by a latency, so --limit has no meaning there.",
        ),
        (["3d-unet"], "3d-unet has no Server scenario, which mlbench tune needs"),
        (["3d-unet", "--scenario", "Server"], "the rules do not define 3d-unet in Server"),
        (["gptj", "--set", "load.target_qps=5"], "load.target_qps is given with --set. `tune` chooses it."),
        (["gpt-j"], "unknown workload 'gpt-j'"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_line(tmp_path, words, problem):
    assert problem in refusal(tune(*words, "--backend", "null", "--results", str(tmp_path / "results")))
    assert os.listdir(tmp_path) == []


def test_a_settings_file_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "file" / "settings.toml"))
    done = search(tmp_path / "results", "--save")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "settings file cannot be written" in done.stderr
    assert not (tmp_path / "results").exists()
