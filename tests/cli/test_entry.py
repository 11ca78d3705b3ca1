"""Runs that are made for an entry of a submission: `--variant`, `--category`, `--division`."""

import json

import pytest
from invoking import invoke, refusal

from mlbench.discovery import Plugins
from mlbench.planning.requests import combinations
from mlbench.records.run_record import read
from mlbench.rules.entry_demand import EntryDemand
from mlbench.rules.round_parts import Category

NULL = ("--backend", "null", "--scenario", "SingleStream", "--set", "backend.delay_ms=1")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The null backend answers with zeros, which are wrong labels: one run in each division."""
    results = tmp_path_factory.mktemp("results")
    done = {
        name: invoke("run", "resnet50", *NULL, "--division", name, "--results", results) for name in ("closed", "open")
    }
    (closed, opened) = (read(folder) for folder in sorted(results.glob("2*"), key=lambda each: each.stat().st_mtime))
    return results, done, closed, opened


@pytest.mark.slow
def test_wrong_answers_fail_a_closed_run_and_are_reported_of_an_open_one(made):
    _, done, closed, opened = made
    assert (done["closed"].exit_code, closed.entry, closed.verdict.is_accurate) == (1, None, False)
    assert (done["open"].exit_code, opened.verdict.is_accurate, opened.is_good) == (0, None, True)
    assert opened.entry.model_dump() == {"model": "resnet50", "variant": "99", "category": "", "division": "open"}
    assert opened.accuracy.scores["acc"] == closed.accuracy.scores["acc"]


@pytest.mark.slow
def test_an_open_run_says_that_no_accuracy_was_required_and_how_to_make_it_again(made):
    results, _, _, opened = made
    shown = " ".join(invoke("show", opened.run_id, "--results", results).output.split())
    assert "no accuracy required: accuracy=" in shown
    assert "--variant 99 --division open" in shown
    assert "--repeat 5" in shown


@pytest.mark.slow
def test_a_run_for_an_entry_is_what_its_logs_say(made):
    results, _, _, opened = made
    checked = invoke("verify", opened.run_id, "--results", results)
    assert checked.exit_code == 0, checked.output


@pytest.mark.slow
def test_the_closed_and_the_open_run_are_no_repeats_of_each_other(made):
    results, _, closed, opened = made
    compared = invoke("compare", closed.run_id, opened.run_id, "--results", results)
    assert compared.exit_code == 1
    assert "variant differs: none, then 99." in compared.output


@pytest.mark.thorough("command line")
def test_a_suite_knows_its_runs_for_an_entry_again(tmp_path):
    suite = tmp_path / "open.toml"
    suite.write_text("""
name = "entries"
[[runs]]
workload = "resnet50"
backend = "null"
scenario = "SingleStream"
division = "open"
settings = { "backend.delay_ms" = 1 }
""")
    first, second = (invoke("run", "--suite", suite, "--results", tmp_path / "results", "--json") for _ in range(2))
    assert (first.exit_code, second.exit_code) == (0, 0), first.output
    assert [run["run_id"] for run in json.loads(second.stdout)] == [run["run_id"] for run in json.loads(first.stdout)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("resnet50", "--variant", "99.9"), "resnet50 has no accuracy variant 99.9. It has: 99."),
        (("bert", "--variant", "99.9", "--category", "edge"), "bert has no accuracy variant 99.9 in edge. It has: 99."),
        (("dlrm-v2", "--category", "edge"), "dlrm-v2 is not a workload of edge systems. It is of: datacenter."),
        (
            ("bert", "--division", "network"),
            "none is named. Name them with --network HOST:PORT, or use",
        ),
        (("--variant", "97"), "has no accuracy variant 97."),
    ],
)
def test_an_entry_that_does_not_exist_is_one_line_and_exit_status_2(tmp_path, arguments, said):
    done = invoke("run", *arguments, "--backend", "null", "--results", tmp_path / "results")
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "results").exists()


def test_a_suite_with_an_entry_that_does_not_exist_is_refused(tmp_path):
    suite = tmp_path / "wrong.toml"
    suite.write_text('name = "s"\n[[runs]]\nworkload = "bert"\nbackend = "null"\nvariant = "9"\n')
    line = refusal(invoke("run", "--suite", suite, "--results", tmp_path / "results"))
    assert "bert has no accuracy variant 9." in line


def asked(workloads, scenarios=(), **entry):
    found = combinations(Plugins.discover(), workloads, ["null"], scenarios, entry=EntryDemand(**entry))
    return [(each.workload, each.scenario) if hasattr(each, "entry") else str(each) for each in found]


def test_without_a_scenario_a_category_runs_those_that_it_requires():
    assert asked(["resnet50"], category=Category.DATACENTER) == [("resnet50", "Offline"), ("resnet50", "Server")]
    edge = [("bert", "Offline"), ("bert", "SingleStream")]
    assert asked(["bert"], category=Category.EDGE) == edge


def test_without_a_workload_all_run_that_have_the_entry():
    assert {workload for workload, _ in asked([], variant="99.9")} == {
        *("bert", "dlrm-v2", "3d-unet", "gptj", "llama2-70b"),
    }
    assert {workload for workload, _ in asked([], category=Category.EDGE)} == {
        *("resnet50", "retinanet", "bert", "3d-unet", "gptj", "stable-diffusion-xl"),
    }


def test_a_scenario_that_the_category_does_not_have_is_named():
    (said,) = asked(["resnet50"], ["Server"], category=Category.EDGE)
    assert said == "resnet50 Server: the rules do not define this combination for edge systems."
