"""``mlbench tune`` in a scenario without a rate, under real LoadGen."""

import json
import statistics
import tomllib
from types import SimpleNamespace

import pytest
from invoking import invoke

from mlbench.records.run_record import read
from mlbench.records.store.run_folder import runs_in
from mlbench.tuner.tune_plan import PROBES

SERVICE_MS = 2
TODAY = '[[settings]]\nexecution.batching = "dynamic"\nexecution.workers = 1\nexecution.instances = 1\n'


def tune(*words):
    return invoke("tune", "resnet50", "--backend", "null", "--scenario", "Offline", *words)


def search(results, *words):
    common = ["--tier", "smoke", "--no-accuracy", "--power", "none", "--results", str(results)]
    return tune(*common, "--set", f"backend.service_ms={SERVICE_MS}", *words)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A search that was carried out."""
    folder = tmp_path_factory.mktemp("tune")
    (folder / "settings.toml").write_text(TODAY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_SETTINGS", str(folder / "settings.toml"))
        done = search(folder / "results", "--save", "--json")
        assert done.exit_code == 0, done.output
        yield SimpleNamespace(
            folder=folder, results=folder / "results", answer=json.loads(done.stdout), log=done.stderr
        )


@pytest.mark.thorough("searches")
def test_the_answer_is_the_better_mean_of_full_runs_that_are_stored(tuned):
    runs = [read(folder) for folder in runs_in(tuned.results)]
    assert {(run.tag, run.tier, run.scenario) for run in runs} == {("tune", "smoke", "Offline")}
    results = {run.run_id: run.result.value for run in runs}
    assert [results[name] for name in tuned.answer["runs"]] == tuned.answer["results"]
    assert sum(tuned.answer["results"]) >= sum(tuned.answer["results_today"])
    by_settings = {}
    for run in runs:
        by_settings.setdefault(tuple(run.settings[name].value for name in tuned.answer["settings"]), []).append(run)
    counted = [same for same in by_settings.values() if all(run.verdict.is_valid for run in same)]
    counts = {statistics.mean(run.result.value for run in same): len(same) for same in counted}
    assert max(counts) == statistics.mean(tuned.answer["results"])
    assert {count for mean, count in counts.items() if mean > 0.8 * max(counts)} == {2}


@pytest.mark.thorough("searches")
def test_probes_are_stored_and_are_no_results(tuned):
    probes = [read(folder) for folder in runs_in(tuned.results / PROBES)]
    assert {probe.tag for probe in probes} == {"tune-probe"}
    reason = "a search needs no more than the speed"
    assert {probe.not_measured["overhead"] for probe in probes} == {reason}
    assert all(run.not_measured["overhead"] != reason for run in map(read, runs_in(tuned.results)))
    assert len(probes) + len(runs_in(tuned.results)) == tuned.answer["made"]
    assert "probe, the current settings" in tuned.log


@pytest.mark.thorough("searches")
def test_running_it_again_makes_no_run_and_says_the_same(tuned):
    answer = json.loads(search(tuned.results, "--json").stdout)
    if tuned.answer["saved"]:  # it is today's settings now
        assert answer["results_today"]
    else:
        assert (answer["made"], answer["runs"]) == (0, tuned.answer["runs"])


@pytest.mark.thorough("searches")
def test_what_is_saved_is_what_differs_from_today(tuned):
    assert bool(tuned.answer["saved"]) == bool(tuned.answer["changed"])
    if tuned.answer["saved"]:
        (entry,) = tomllib.loads((tuned.folder / "settings.tuned.toml").read_text())["settings"]
        assert (entry["when"]["scenario"], entry["found"]["runs"]) == ("Offline", tuned.answer["runs"])
        assert {f"execution.{name}": value for name, value in entry["execution"].items()} == tuned.answer["changed"]


def test_a_plan_runs_nothing(tmp_path):
    done = search(tmp_path / "results", "--plan")
    assert done.exit_code == 0
    assert "resnet50 null Offline fp32: about" in done.stdout
    assert "varies execution.batching" in done.stdout
    facts = json.loads(search(tmp_path / "results", "--plan", "--json").stdout)
    assert "execution.batching" in facts["varies"]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--limit", "latency=10ms"], "Offline is not judged by a latency, so --limit has no meaning there."),
        (["--budget", "0.1"], "--budget 0.1 is too short: the search usually takes"),
        (["--set", "execution.wokers=2"], "unknown setting 'execution.wokers' (command line)."),
    ],
)
def test_bad_input_gets_one_line(tmp_path, words, line):
    done = search(tmp_path / "results", *words)
    assert done.exit_code == 2
    assert line in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()
