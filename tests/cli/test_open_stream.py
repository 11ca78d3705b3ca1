"""A language model as a single stream, for which v4.1 has no scenario: tokens per second at batch 1."""

import json

import pytest
from invoking import invoke

from mlbench.discovery import Plugins
from mlbench.planning.requests import RunRequest, Undefined, combinations
from mlbench.rules.entry_demand import Category, EntryDemand

NAME = "SingleStream-open"


@pytest.mark.parametrize("workload", ["llama2-70b", "mixtral-8x7b", "gptj", "resnet50"])
def test_it_runs_with_every_workload_where_it_is_named_and_nowhere_else(workload):
    plugins = Plugins.discover()
    (named,) = combinations(plugins, [workload], ["null"], [NAME])
    assert isinstance(named, RunRequest)
    assert NAME not in [each.scenario for each in combinations(plugins, [workload], ["null"], [])]


def test_it_is_no_scenario_of_a_category_and_opens_no_other_to_a_workload():
    plugins = Plugins.discover()
    (asked,) = combinations(plugins, ["llama2-70b"], ["null"], ["SingleStream"])
    assert isinstance(asked, Undefined)
    (asked,) = combinations(
        plugins, ["llama2-70b"], ["null"], [NAME], entry=EntryDemand(category=Category("datacenter"))
    )
    assert isinstance(asked, Undefined)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run it on the null backend, whose answers have two tokens; return the record, and what was printed."""
    folder = tmp_path_factory.mktemp("results")
    words = ["run", "llama2-70b", "--backend", "null", "--scenario", NAME, "--no-accuracy", "--power", "none"]
    words += ["--set", "backend.service_ms=2"]
    done = invoke(*words, "--results", folder)
    (file,) = folder.glob("*/record.json")
    return json.loads(file.read_text()), done.stdout, folder


@pytest.mark.slow
def test_its_result_is_tokens_per_second_and_the_record_says_that_it_is_of_no_v4_1_scenario(ran):
    record, _, _ = ran
    assert record["result"]["unit"] == "tokens/s"
    detail = next(ran[2].glob("*/performance/mlperf_log_detail.txt")).read_text()
    logged = [json.loads(line.removeprefix(":::MLLOG ")) for line in detail.splitlines() if "with_loadgen" in line]
    rates = {each["key"]: each["value"] for each in logged}
    assert record["result"]["value"] == rates["result_token_throughput_with_loadgen_overhead"]
    assert rates["result_token_throughput_with_loadgen_overhead"] == pytest.approx(
        2 * rates["result_qps_with_loadgen_overhead"], rel=0.2
    )
    assert record["scenario_facts"]["is_beyond_rules"] is True
    assert record["verdict"]["is_conformant"] is False


@pytest.mark.slow
def test_tables_and_the_page_of_the_run_say_so(ran):
    record, printed, folder = ran
    assert f"{NAME}: not an official scenario" in " ".join(printed.split())
    shown = invoke("show", record["run_id"], "--results", folder).stdout
    assert f"{NAME} is not an official scenario, so no such run is conformant" in shown
