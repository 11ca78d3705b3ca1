"""``mlbench curve`` under real LoadGen, on the null backend's queue: a service of known capacity."""

import json
import os
from types import SimpleNamespace

import pytest
from invoking import invoke, refusal

from mlbench.records.run_record import read
from mlbench.records.store.run_folder import runs_in

SERVICE_MS = 2
CAPACITY_PER_S = 1000 / SERVICE_MS
POINTS = 4


def curve(*words):
    return invoke("curve", *words)


def measure(results, *words):
    common = ["--backend", "null", "--no-accuracy", "--power", "none", "--results", str(results)]
    short = ["--set", f"backend.service_ms={SERVICE_MS}", "--set", "load.min_query_count=100"]
    return curve("gptj", *common, *short, "--set", "load.min_duration_ms=200", "--points", str(POINTS), *words)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A curve of four rates."""
    results = tmp_path_factory.mktemp("curve") / "results"
    done = measure(results, "--json")
    return SimpleNamespace(results=results, answer=json.loads(done.stdout), log=done.stderr)


@pytest.mark.slow
def test_each_rate_and_all_at_once_are_a_run_with_the_tag(measured):
    runs = [read(folder) for folder in runs_in(measured.results)]
    assert {run.tag for run in runs} == {"curve"}
    assert sorted(run.scenario for run in runs) == ["Offline", *["Server"] * POINTS]
    assert measured.answer["made"] == POINTS + 1
    rates = [point["rate_per_s"] for point in measured.answer["points"]]
    assert rates == [None, *sorted(rates[1:])]
    assert 0.4 * CAPACITY_PER_S < rates[-1] < 1.1 * CAPACITY_PER_S
    assert rates[1] == pytest.approx(rates[-1] / 16, rel=0.02)
    assert {run.load["target_qps"] for run in runs if run.scenario == "Server"} == set(rates[1:])


@pytest.mark.thorough("searches")
def test_the_same_command_uses_what_is_there_and_makes_what_is_missing(measured, tmp_path):
    again = json.loads(measure(measured.results, "--json").stdout)
    assert (again["made"], again["points"]) == (0, measured.answer["points"])
    lost = measured.results / measured.answer["points"][2]["runs"][0]
    hidden = tmp_path / lost.name
    lost.rename(hidden)
    planned = json.loads(measure(measured.results, "--plan", "--json").stdout)
    assert (planned["runs"], planned["stored"]) == (POINTS + 1, POINTS)
    assert planned["rates_per_s"] == [point["rate_per_s"] for point in measured.answer["points"][1:]]
    assert json.loads(measure(measured.results, "--json").stdout)["made"] == 1
    hidden.rename(measured.results / hidden.name)


@pytest.mark.thorough("searches")
def test_a_budget_that_ends_the_curve_keeps_what_was_measured(tmp_path):
    # a run is expected to take its 0.2 s and 10 s around it; 12 s are enough for one and not for two
    done = measure(tmp_path / "results", "--json", "--budget", "0.2")
    answer = json.loads(done.stdout)
    assert done.exit_code == 1
    assert answer["made"] + answer["missing"] == POINTS + 1
    assert len(runs_in(tmp_path / "results")) == answer["made"] > 0
    assert "repeat the command to continue" in done.stderr


@pytest.mark.thorough("searches")
def test_other_commands_read_the_runs_as_they_read_others(measured):
    asked = "SELECT count(DISTINCT load->>'target_qps') AS rates FROM runs WHERE tag = 'curve' AND scenario = 'Server'"
    done = invoke("query", asked, "--results", measured.results, "--json")
    assert json.loads(done.stdout) == [{"rates": POINTS}]
    page = measured.results.parent / "curve.html"
    done = invoke("report", "curve", "--results", measured.results, "-o", page)
    assert done.exit_code == 0, done.output
    assert "Curve: latency against throughput" in page.read_text(encoding="utf-8")


def test_a_plan_runs_nothing_and_says_how_many_runs_there_will_be(tmp_path):
    done = measure(tmp_path / "results", "--plan", "--repeat", "3")
    assert done.exit_code == 0
    assert done.stdout.startswith("gptj null fp32: 15 runs: about ")
    assert "The first run, with all samples at once, determines the rates" in done.stdout
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["gptj", "--limit", "ttft=1"], "--limit 'ttft=1' has no unit"),
        (["gptj", "--limit", "ttft=1s"], "load.ttft_limit_ms is 1000, and that is not judged in such a run"),
        (["gptj", "--budget", "0.1"], "--budget 0.1 is too short: a run takes at least"),
        (["gptj", "--set", "load.target_qps=5"], "load.target_qps is given with --set. `curve` chooses it."),
        (["3d-unet"], "3d-unet has no Server scenario, which mlbench curve needs"),
        (["gpt-j"], "unknown workload 'gpt-j'"),
    ],
)
def test_what_has_no_curve_is_refused_in_one_line(tmp_path, words, problem):
    assert problem in refusal(curve(*words, "--backend", "null", "--results", str(tmp_path / "results")))
    assert os.listdir(tmp_path) == []
