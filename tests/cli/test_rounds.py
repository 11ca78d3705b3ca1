"""Rounds on the command line, and a round that is a file and no line of Python."""

import json
from pathlib import Path

import pytest
from invented_round import invent_round
from invoking import invoke

import mlbench
from mlbench import UsageError
from mlbench.discovery import Plugins
from mlbench.planning.suite import read_suite, requests_of
from mlbench.records.run_record import read

SHIPPED = Path(mlbench.__file__).parent / "rules" / "rounds"
NULL = ("--backend", "null", "--no-accuracy", "--power", "none", "--set", "backend.delay_ms=5")
"""A delay, since a rate of queries that cost nothing is without bounds."""


def lines(done):
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def invented(tmp_path_factory):
    """Add a round v9.9 for this module: v6.0 without BERT, under tighter limits, with seeds of its own."""
    folder = tmp_path_factory.mktemp("config")
    invent_round(folder, ("interactive_ttft_ms = 450", "interactive_ttft_ms = 400"), without="bert")
    patch = pytest.MonkeyPatch()
    patch.setenv("MLBENCH_SETTINGS", str(folder / "settings.toml"))
    yield folder
    patch.undo()


def test_rounds_are_listed_with_their_changes(invented):
    listed = json.loads(invoke("rounds", "--json").output)
    assert [each["round"] for each in listed] == ["v4.1", "v5.0", "v5.1", "v6.0", "v6.1", "v9.9"]
    by_name = {each["round"]: each for each in listed}
    assert by_name["v4.1"] == {
        "round": "v4.1",
        "deadline": "2024-07-26",
        "workloads": [
            *("resnet50", "retinanet", "bert", "dlrm-v2", "3d-unet"),
            *("gptj", "llama2-70b", "mixtral-8x7b", "stable-diffusion-xl"),
        ],
        **{"new": [], "gone": [], "changed": []},
    }
    assert by_name["v5.0"]["changed"][-2:] == ["TEST05 is gone", "mlperf.conf is no longer required"]
    assert by_name["v5.1"]["gone"] == ["gptj", "llama2-70b-interactive"]
    assert "llama2-70b: Interactive is new" in by_name["v5.1"]["changed"]
    assert by_name["v6.0"]["gone"] == ["dlrm-v2"]
    assert by_name["v6.0"]["new"] == [
        *("gpt-oss-120b", "qwen3-vl-235b-a22b", "dlrm-v3", "yolo", "wan-2.2-t2v-a14b"),
    ]
    assert "llama2-70b: variant 99 is gone" in by_name["v6.1"]["changed"]
    assert "bert" not in by_name["v9.9"]["workloads"]
    printed = invoke("rounds").output
    assert "v6.0, submissions until 2026-02-13" in printed
    assert "changed   the tree of a submission has another layout" in printed


def test_the_list_has_the_workloads_of_a_round(invented):
    rows = {each["name"]: each for each in json.loads(invoke("list", "--json", "--round", "v9.9").output)["workloads"]}
    assert rows["llama2-70b"]["scenarios"] == ["Server", "Interactive", "Offline"]
    assert (rows["bert"]["scenarios"], rows["bert"]["rounds"]) == ([], ["v4.1", "v5.0", "v5.1", "v6.0", "v6.1"])
    usual = {each["name"]: each["scenarios"] for each in json.loads(invoke("list", "--json").output)["workloads"]}
    assert usual["llama2-70b"] == ["Server", "Offline"]
    assert usual["bert"] == ["SingleStream", "Server", "Offline"]


def test_the_rules_of_a_workload_have_their_sources():
    found = json.loads(invoke("rules", "llama2-70b", "--round", "v5.1", "--json").output)
    facts = {(each["group"], each["name"]): each for each in found["facts"]}
    limit = facts["Interactive", "limit of time to first token"]
    assert (limit["value"], "submission_checker.py, v5.1, lines 361" in limit["source"]) == ("450 ms", True)
    assert facts["round", "seed qsl"]["value"] == "1780908523862526354"
    assert facts["round", "seed qsl"]["source"] == "mlperf.conf, lines 33 to 35; checker, lines 577 to 579"
    assert facts["workload", "scenarios for datacenter"]["value"] == "Offline, and Server or Interactive or both"
    assert facts["targets", "ROUGE1 at 99.9"]["value"] == "at least 44.3867688"
    assert "whisper in v6.0" in invoke("rules", "whisper", "--round", "v6.0").output
    assert "rules of the workload prompts" in invoke("rules", "prompts").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("run", "gptj", "--round", "v6.0"),
            "v6.0 has no rules for workload 'gptj'. It is in v4.1, v5.0: give --round.",
        ),
        (
            ("run", "resnet50", "--round", "v5.1", "--category", "datacenter"),
            "resnet50 is not a workload of datacenter systems in v5.1. It is of: edge. In v4.1, v5.0 it is.",
        ),
        (
            ("run", "llama2-70b", "--scenario", "Interactive"),
            "the rules do not define this combination. Those of v5.1, v6.0, v6.1",
        ),
        (
            ("run", "mixtral-8x7b", "--scenario", "Interactive", "--round", "v6.0"),
            "mixtral-8x7b Interactive: the rules of v6.0 do not define this combination.",
        ),
        (("run", "bert", "--round", "v9"), "unknown round 'v9'. Rounds are v4.1, v5.0, v5.1, v6.0, v6.1"),
        (("rules", "gptj", "--round", "v6.0"), "v6.0 has no rules for workload 'gptj'."),
        (("list", "--round", "../v6.0"), "unknown round '../v6.0'."),
        (("tune", "gptj", "--round", "v6.0"), "v6.0 has no rules for workload 'gptj'."),
        (("curve", "gptj", "--round", "v6.0"), "v6.0 has no rules for workload 'gptj'."),
        (("tune", "3d-unet", "--round", "v6.0", "--scenario", "Interactive"), "do not define 3d-unet in Interactive"),
    ],
)
def test_a_combination_that_a_round_does_not_have_is_refused_in_one_line(words, message):
    done = invoke(*words)
    assert (done.exit_code, message in lines(done)) == (2, True), done.stderr


def test_python_takes_a_round_as_well(tmp_path):
    with pytest.raises(UsageError, match=r"v6\.0 has no rules for workload 'gptj'"):
        mlbench.run("gptj", backend="null", round="v6.0", results=tmp_path)
    assert not any(tmp_path.iterdir())


def test_the_settings_file_may_have_another_default(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "settings.toml"))
    (tmp_path / "settings.toml").write_text('[defaults]\nround = "v6.0"\n')
    assert "v6.0 has no rules for workload 'gptj'" in invoke("run", "gptj").stderr
    assert "rules of v6.0" in invoke("run", "mixtral-8x7b", "--scenario", "Interactive").stderr
    assert "llama2-70b in v6.0" in invoke("rules", "llama2-70b").output
    (tmp_path / "settings.toml").write_text("[defaults]\nround = 6.0\n")
    assert "round in [defaults] is 6.0" in invoke("run", "gptj").stderr


def test_a_suite_names_a_round(tmp_path):
    file = tmp_path / "nightly.toml"
    entry = '[[runs]]\nworkload = "llama2-70b"\nbackend = "null"\nround = "v6.0"\n'
    file.write_text(f'name = "nightly"\n{entry}')
    found = requests_of(read_suite(file), Plugins.discover(), results=tmp_path)
    assert [(each.scenario, each.round) for each in found] == [
        *(("Offline", "v6.0"), ("Server", "v6.0"), ("Interactive", "v6.0")),
    ]
    file.write_text(f'name = "nightly"\n{entry.replace("llama2-70b", "gptj")}')
    with pytest.raises(UsageError, match=r"v6\.0 has no rules for workload 'gptj'"):
        requests_of(read_suite(file), Plugins.discover(), results=tmp_path)


@pytest.mark.parametrize("command", ["tune", "curve"])
def test_a_rate_is_searched_for_in_interactive_under_its_own_limits(command):
    given = ("llama2-70b", "--backend", "null", "--round", "v5.1", "--scenario", "Interactive", "--plan")
    assert invoke(command, *given).exit_code == 0
    done = invoke(command, *given, "--limit", "ttft=451ms")
    assert (done.exit_code, "load.ttft_limit_ms is 451, larger than" in lines(done)) == (2, True)
    assert invoke(command, *given, "--limit", "ttft=449ms").exit_code == 0


@pytest.fixture(scope="module")
def made(invented, tmp_path_factory):
    """Runs of the null backend: in two scenarios of the invented round, and the last in v6.0 as well."""
    results = tmp_path_factory.mktemp("results")
    rate = ("--set", "load.target_qps=100", "--set", "load.min_query_count=459")
    slow = ("--set", "backend.service_ms=1")  # without, it answers millions of samples
    asked = [("v9.9", "Interactive", rate), ("v9.9", "Offline", slow), ("v6.0", "Offline", slow)]
    done = [
        invoke("run", "llama2-70b", *NULL, "--round", name, "--scenario", scenario, *given, "--results", results)
        for name, scenario, given in asked
    ]
    records = [read(folder) for folder in results.glob("2*")]
    return results, done, {(each.round, each.scenario): each for each in records}


@pytest.mark.slow
def test_a_round_that_is_a_file_runs(made):
    _, done, records = made
    assert [each.exit_code for each in done] == [0, 0, 0], done[0].stderr
    found = records["v9.9", "Interactive"]
    assert (found.limits["ttft_ms"], found.limits["tpot_ms"]) == (400, 40)
    assert found.seeds.model_dump() == {"qsl": 11, "sample_index": 12, "schedule": 13}
    assert (found.scenario_facts.loadgen, found.scenario_facts.rules) == ("Server", "Interactive")
    assert (found.result.unit, found.verdict.is_valid) == ("tokens/s", True)
    sources = {rule.rule: rule.source for rule in found.verdict.rules}
    assert sources["ttft"] == "MLPerf Inference v9.9 rules, Benchmarks; mlperf.conf; submission checker"
    assert records["v9.9", "Offline"].verdict.is_valid


@pytest.mark.slow
def test_its_runs_are_what_their_logs_say(made):
    results, _, records = made
    for record in records.values():
        checked = invoke("verify", record.run_id, "--results", results)
        assert checked.exit_code == 0, checked.output


@pytest.mark.slow
def test_a_record_that_claims_another_round_is_found_out(made, tmp_path):
    results, _, records = made
    found = records["v6.0", "Offline"]
    file = results / found.run_id / "record.json"
    before = file.read_text()
    try:
        file.write_text(before.replace('"round": "v6.0"', '"round": "v9.9"'))
        checked = invoke("verify", found.run_id, "--results", results)
    finally:
        file.write_text(before)
    assert checked.exit_code == 1
    assert "round: the record says v9.9, the run folder v6.0" in checked.output


@pytest.mark.slow
def test_runs_of_two_rounds_are_compared_only_when_asked(made):
    results, _, records = made
    ids = [records[each, "Offline"].run_id for each in ("v6.0", "v9.9")]
    refused = invoke("compare", *ids, "--results", results)
    assert refused.exit_code == 1
    assert "round differs: v6.0, then v9.9" in refused.stderr
    compared = invoke("compare", *ids, "--results", results, "--across", "round")
    assert (compared.exit_code, "round differs" in compared.output, compared.stderr) == (0, True, "")


@pytest.mark.slow
def test_tables_and_pages_name_the_rounds(made):
    results, _, records = made
    table = invoke("table", "--results", results).output
    assert "round" in table and "v9.9" in table and "v6.0" in table and "Interactive" in table
    shown = " ".join(invoke("show", records["v9.9", "Interactive"].run_id, "--results", results).output.split())
    assert "rules of v9.9" in shown and "--round v9.9" in shown
    report = results / "report.md"
    assert invoke("report", "--results", results, "-o", report).exit_code == 0
    assert "Interactive" in report.read_text()
    rounds = invoke("query", "SELECT DISTINCT round FROM runs ORDER BY round", "--results", results).output
    assert "v6.0" in rounds and "v9.9" in rounds


@pytest.fixture
def broken_round(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "settings.toml"))
    (tmp_path / "rounds").mkdir()
    (tmp_path / "rounds/v3_0.toml").write_text("x=")


def test_a_broken_round_of_the_users_own_stops_only_who_asks_for_it(broken_round):
    listed = invoke("list")
    assert listed.exit_code == 0 and "Broken" not in listed.output and "llama3.1-8b" in listed.output
    assert invoke("rules", "llama3.1-8b", "--round", "v5.1").exit_code == 0
    refused = invoke("list", "--round", "v3.0")
    assert refused.exit_code == 2
    assert "v3_0.toml is not a TOML file" in lines(refused) and "docs/rounds.md" in lines(refused)


def test_every_name_that_rounds_prints_is_one_of_rules(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "settings.toml"))
    for each in json.loads(invoke("rounds", "--json").output):
        for name in each["workloads"]:
            assert invoke("rules", name, "--round", each["round"]).exit_code == 0, name
    refused = invoke("rules", "llama3.1-405b")
    assert "v4.1 has no rules for workload 'llama3.1-405b'. It is in v5.0, v5.1, v6.0: give --round." in lines(refused)
