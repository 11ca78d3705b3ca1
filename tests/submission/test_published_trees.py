"""Trees as they were published: what the official checker says of them, and that another round is seen as one."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from invoking import invoke

from mlbench.contracts.scenario import Scenario
from mlbench.records.published import RESULTS, table
from mlbench.records.store.run_folder import runs_in
from mlbench.rules.official import recognise_round, round_named
from mlbench.rules.round_files import known_rounds
from mlbench.submission.importing import import_tree
from mlbench.submission.tree import ResultEntry, benchmark_of, scenario_of
from mlbench.submission.verdict import category

TREES = Path(__file__).parents[1] / "data" / "submission"


@pytest.fixture
def tree(tmp_path):
    """Copy a round's tree, to be changed."""
    return lambda name: Path(shutil.copytree(TREES / name, tmp_path / name))


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "results"


def test_every_result_that_the_official_checker_accepts_is_imported_and_valid(results):
    outcome = import_tree(TREES / "v4.1", results)
    assert outcome.unread == []
    found = {record.imported.path: record for record in outcome.records}
    rows = list(csv.DictReader((TREES / "official_summary.csv").read_text().splitlines()))
    assert set(found) == {row["Location"] for row in rows}
    for row in rows:
        record = found[row["Location"]]
        value = record.result.value / 1e6 if record.result.unit == "ns" else record.result.value
        assert value == pytest.approx(float(row["Result"]), rel=1e-9)
        assert record.verdict.is_valid, record.verdict
        assert record.verdict.is_accurate
        assert record.imported.summary_unit == row["Units"]
        assert float(row["Accuracy"]) in record.accuracy.scores.values()


def test_logs_that_say_nothing_of_equal_issue_are_judged_by_the_configuration(results):
    rules = {
        record.workload: {rule.rule: rule.measured for rule in record.verdict.rules}
        for record in import_tree(TREES / "v4.1", results).records
    }
    assert {name: found.get("equal_issue") for name, found in rules.items()} == {
        "gptj": True,
        "llama2-70b": True,
        "bert": None,
        "stable-diffusion-xl": None,
    }


def test_a_tree_of_a_later_round_is_judged_by_its_rules(results):
    outcome = import_tree(TREES / "v5.1", results)
    assert outcome.unread == []
    assert {(each.round, each.verdict.is_valid, each.verdict.is_accurate) for each in outcome.records} == {
        ("v5.1", True, True)
    }


def test_a_tree_of_a_round_without_rules_is_named_and_nothing_of_it_is_imported(older, results):
    outcome = import_tree(older, results)
    assert outcome.records == []
    assert outcome.other_rounds == {"v4.0": 2}
    assert all("round v4.0" in each.reason for each in outcome.unread)
    assert not results.exists()


def test_damaged_and_missing_logs_of_such_a_round_are_named_too(older, results):
    root = older
    folder = root / "closed/The_Stage/results/h100_x8/stable-diffusion-xl"
    for scenario in ("one", "two", "three"):
        shutil.copytree(folder / "server", folder / scenario)
    (folder / "one/performance/run_1/mlperf_log_detail.txt").unlink()  # the accuracy test's log is left
    detail = folder / "two/performance/run_1/mlperf_log_detail.txt"
    detail.write_text(detail.read_text()[:2500] + "\n:::MLLOG {")
    shutil.rmtree(folder / "three/performance")
    shutil.rmtree(folder / "three/accuracy")
    shutil.copytree(folder, folder.with_name("deepseek-r1"))
    outcome = import_tree(root, results)
    assert (len(outcome.unread), outcome.other_rounds) == (10, {"v4.0": 10})
    assert all("round v4.0" in each.reason for each in outcome.unread)


def test_the_command_says_how_many_results_are_of_another_round(older, results):
    done = invoke("import", older, "--results", results)
    assert done.exit_code == 1
    assert done.stderr.endswith("0 imported, 2 not read, 2 of them of round v4.0\n")
    done = invoke("import", older, "--results", results, "--json")
    assert [each["round"] for each in json.loads(done.stdout)["unread"]] == ["v4.0", "v4.0"]


def test_a_result_of_another_round_does_not_take_the_rest_of_the_tree_along(tree, older, results):
    root = tree("v4.1")
    shutil.copytree(older / "closed/The_Stage", root / "closed/The_Stage")
    shutil.rmtree(
        root / "closed/NeuralMagic/results/vLLM_8xL40S-reference-cpu-pytorch-v2.3.1-default_config/llama2-70b-99/server"
    )
    (root / "closed/NeuralMagic/results/empty/bert-99/Server").mkdir(parents=True)
    outcome = import_tree(root, results)
    assert (len(outcome.records), outcome.other_rounds) == (5, {"v4.0": 2})
    (other,) = (each for each in outcome.unread if not each.round)
    assert other.reason == "there is no performance/run_1/mlperf_log_detail.txt."
    assert len(runs_in(results)) == 5


@pytest.mark.parametrize(
    ("seeds", "name"),
    [
        ((3066443479025735752, 10688027786191513374, 14962580496156340209), "v4.1"),
        ((6023615788873153749, 15036839855038426416, 9933818062894767841), "v5.0"),
        ((2465351861681999779, 14276810075590677512, 3936089224930324775), "v6.0"),
        ((2085463073848966840, 2747215439041700203, 16159082839903944936), "v6.1"),
        ((1, 2, 3), None),
        (("many", None, [1]), None),
    ],
)
def test_a_round_is_recognised_by_its_seeds(seeds, name):
    keys = (f"effective_{key}_rng_seed" for key in ("qsl", "sample_index", "schedule"))
    assert recognise_round(dict(zip(keys, seeds, strict=True))) == name


def test_no_two_rounds_share_a_seed():
    of_rounds = [round_named(name).seeds for name in known_rounds()]
    seeds = [seed for each in of_rounds for seed in (each.normal.qsl, each.normal.sample_index, each.normal.schedule)]
    seeds += [seed for each in of_rounds for others in each.others.values() for seed in others]
    assert len(set(seeds)) == len(seeds) == 18


# categories


def entry_of(path):
    division, submitter, _, system, model, scenario = path.split("/")
    fields = {"division": division, "submitter": submitter, "system": system, "model": model, "scenario": scenario}
    return ResultEntry(root=Path(), **fields)


def fits(path, system_type):
    entry = entry_of(path)
    scenario: Scenario = scenario_of(entry)
    rule = category(entry, benchmark_of(entry), scenario, {"system_type": system_type})
    return None if rule is None else rule.passed


def test_every_published_closed_result_is_of_a_scenario_that_its_category_has():
    closed = [row for row in table(RESULTS) if row["division"] == "closed"]
    assert len(closed) == 873
    assert all(fits(row["result_path"], row["category"]) for row in closed)


@pytest.mark.parametrize(
    ("path", "system_type"),
    [
        ("closed/A/results/b/llama2-70b-99/SingleStream", "edge"),
        ("closed/A/results/b/bert-99.9/SingleStream", "edge"),
        ("closed/A/results/b/bert-99/Server", "edge"),
        ("closed/A/results/b/resnet50/MultiStream", "datacenter"),
        ("network/A/results/b/resnet50/Offline", "datacenter, edge"),  # the checker knows no blank
    ],
)
def test_a_scenario_that_the_category_has_not_is_invalid_but_in_open(path, system_type):
    assert fits(path, system_type) is False
    assert fits(path.replace("closed", "open").replace("network", "open"), system_type) is None


def test_the_command_says_why_a_result_does_not_count(tree, results):
    root = tree("v4.1")
    folder = root / "closed/ConnectTechInc/results/Orin_TRT/gptj-99/Offline/accuracy"
    text = (folder / "accuracy.txt").read_text()
    (folder / "accuracy.txt").write_text("\n".join(line for line in text.splitlines() if not line.startswith("hash=")))
    done = invoke("import", root, "--results", results)
    (problem,) = [line for line in done.stderr.splitlines() if "FAIL" in line]
    assert problem.startswith("closed/ConnectTechInc/results/Orin_TRT/gptj-99/Offline: ")
    assert "accuracy_log_hash: not in the log, limit 64 hexadecimal digits. Add hash=" in problem
