"""A stranger's scenario, installed from outside: run, and then compared and reported where it is not installed."""

import json
from pathlib import Path

import pytest
from invoking import invoke, refusal

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlbench_burst"


@pytest.fixture(scope="module")
def results(with_the_plugin):
    return Path(with_the_plugin["MLBENCH_RESULTS"])


@pytest.fixture(scope="module")
def measured(mlbench):
    """Return the records of two runs in the scenario and one in Offline."""
    common = ("run", "resnet50", "--backend", "null", "--no-accuracy", "--json", "--set", "load.min_duration_ms=50")
    bursts = mlbench(*common, "--scenario", "burst", "--repeat", "2", "--set", "load.target_qps=400")
    offline = mlbench(*common, "--scenario", "Offline")
    return [*json.loads(bursts.stdout), *json.loads(offline.stdout)]


def command(results, *arguments):
    """Run a command in this process, where the plugin is not installed."""
    return invoke(*arguments, "--results", results)


@pytest.mark.thorough("examples")
def test_a_run_is_driven_and_judged_as_the_scenario_says(measured, results):
    record = measured[0]
    assert (record["scenario"], record["status"]) == ("Burst", "completed")
    assert record["scenario_facts"] == {
        "loadgen": "Server",
        "arrivals": "at a rate",
        "percentile": 0.95,
        "has_estimate": False,
        "compared_by": "latency",
        "is_beyond_rules": False,
        "rules": "",
    }
    log = (results / record["run_id"] / "performance" / "mlperf_log_detail.txt").read_text()
    assert '"key": "requested_server_coalesce_queries", "value": true' in log
    assert '"key": "effective_target_latency_percentile", "value": 0.95' in log
    assert not record["verdict"]["is_conformant"]


@pytest.mark.thorough("examples")
def test_runs_are_compared_by_the_latency_of_the_scenario_without_the_plugin(measured, results):
    base, new = (each["run_id"] for each in measured[:2])
    done = command(results, "compare", base, new, "--json")
    (cell,) = json.loads(done.output)["cells"]
    is_counted = all(each["verdict"]["is_valid"] for each in measured[:2])  # a starved machine answers too late
    assert [each["measure"] for each in cell["speeds"]] == ["95th percentile latency"] * is_counted
    assert cell["name"].startswith("resnet50 null Burst")


@pytest.mark.thorough("examples")
def test_runs_are_reported_without_the_plugin(measured, results, tmp_path):
    page = tmp_path / "report.html"
    done = command(results, "report", *(each["run_id"] for each in measured), "--output", str(page))
    assert done.exit_code in (0, 1), done.output
    html = page.read_text()
    assert "Burst: latency" in html
    assert "Offline: latency" not in html
    shown = command(results, "table").output
    assert "Burst" in shown


@pytest.mark.slow
def test_a_scenario_that_is_not_installed_is_refused_by_name(results):
    assert "unknown scenario 'Burst'" in refusal(invoke("run", "resnet50", "--backend", "null", "--scenario", "Burst"))
