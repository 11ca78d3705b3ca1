"""Published results of later rounds are imported as their official summaries have them."""

import json
import os
import shutil
from pathlib import Path

import pytest
from invoking import invoke

from mlbench import DataError, Target
from mlbench.records.store.run_folder import runs_in
from mlbench.submission.importing import import_tree
from mlbench.submission.scores import read_scores

TREES = Path(__file__).parents[1] / "data" / "submission" / "rounds"
WHOLE = os.environ.get("MLBENCH_ROUNDS", "")
ACCURACY_LOGS = {"accuracy_files", "accuracy_log_errors"}
"""Rules about logs of accuracy tests that were too large for the copies."""


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "results"


@pytest.fixture
def copy_of(tmp_path):
    """Copy a submitter of a round's tree, to be changed."""

    def copy_of(name, submitter):
        shutil.copytree(TREES / name / "closed" / submitter, tmp_path / name / "closed" / submitter)
        return tmp_path / name

    return copy_of


def expected(trees):
    """Return the rows of the official summaries, by round and path."""
    found = {}
    for name in ("v5.1", "v6.0"):
        rows = json.loads((trees / name / "expected.json").read_text())["results"]
        found |= {(name, row["path"]): row for row in rows}
    return found


def differences(record, row):
    """Return where a record is not what the summary says."""
    value = record.result.value / 1e6 if record.result.unit == "ns" else record.result.value
    pairs = {
        "value": (value, pytest.approx(row["value"], rel=1e-9)),
        "unit": (record.imported.summary_unit, row["unit"]),
        "scores": (record.accuracy.scores, row["scores"]),
        "scenario": (record.scenario, row["scenario"]),
        "inferred": (record.imported.inferred_from, row["measured_scenario"] if row["is_inferred"] else ""),
        "system": (record.imported.system, row["system"]),
        "valid": (record.verdict.is_valid, row["valid"]),
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def check_all(trees, results):
    outcome, rows = import_tree(trees, results), expected(trees)
    assert outcome.unread == []
    found = {(record.round, record.imported.path): record for record in outcome.records}
    assert set(found) == set(rows)
    assert {key: wrong for key, record in found.items() if (wrong := differences(record, rows[key]))} == {}
    for (_, path), record in found.items():
        failed = {rule.rule for rule in record.verdict.rules if rule.required and not rule.passed}
        assert path.startswith("open/") or failed <= ACCURACY_LOGS


def test_every_result_of_both_rounds_is_what_the_summary_says(results):
    check_all(TREES, results)
    assert len(runs_in(results)) == 27


@pytest.mark.data
@pytest.mark.skipif(not WHOLE, reason="MLBENCH_ROUNDS names the folder with whole trees of v5.1 and v6.0")
def test_every_result_of_the_whole_trees_is_what_the_summary_says(results):
    check_all(Path(WHOLE), results)


def test_units_are_those_of_the_values_where_the_summary_prints_others(results):
    (record,) = (each for each in import_tree(TREES / "v6.0", results).records if each.workload == "whisper")
    assert (record.result.unit, record.imported.summary_unit) == ("tokens/s", "Samples/s")


def test_interactive_is_judged_by_its_own_limits(results):
    limits = {
        (record.round, rule.rule): rule.limit
        for record in import_tree(TREES, results).records
        if record.scenario == "Interactive"
        for rule in record.verdict.rules
    }
    for name in ("v5.1", "v6.0"):
        assert (limits[name, "ttft"], limits[name, "tpot"]) == (450_000_000, 40_000_000)


def edit(file, **values):
    """Give keys of a detail log other values."""
    lines = []
    for line in file.read_text().splitlines():
        record = json.loads(line.removeprefix(":::MLLOG "))
        record["value"] = values.pop(record["key"], record["value"])
        lines.append(f":::MLLOG {json.dumps(record)}")
    lines += [f":::MLLOG {json.dumps({'key': key, 'value': value, 'metadata': {}})}" for key, value in values.items()]
    file.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("scenario", "source", "key", "result"),
    [
        ("multistream", "SingleStream", "early_stopping_latency_ms", 8 * 800_000),
        ("offline", "SingleStream", "result_qps_without_loadgen_overhead", 800_000),
        ("offline", "MultiStream", "result_mean_query_latency_ns", 1e9 * 8 / 800_000),
    ],
)
def test_a_result_is_inferred_from_the_log_of_another_scenario(  # noqa: PLR0917
    copy_of, results, scenario, source, key, result
):
    root = copy_of("v6.0", "Lenovo")
    shutil.rmtree(root / "closed/Lenovo/results/SE455I_V3_TRT/3d-unet-99")
    folder = root / "closed/Lenovo/results/SE100/resnet50" / scenario
    if source == "MultiStream":
        shutil.copytree(root / "closed/Lenovo/results/SE455I_V3_TRT/resnet50/MultiStream", folder, dirs_exist_ok=True)
    edit(folder / "performance/run_1/mlperf_log_detail.txt", **{key: 800_000})
    records = {each.imported.path: each for each in import_tree(root, results).records}
    record = records[f"closed/Lenovo/results/SE100/resnet50/{scenario}"]
    assert record.imported.inferred_from == source
    assert record.result.value == pytest.approx(result)


def test_it_is_said_that_a_result_was_inferred(copy_of, results):
    record = next(
        each for each in import_tree(copy_of("v6.0", "Lenovo"), results).records if each.imported.inferred_from
    )
    shown = invoke("show", record.run_id, "--results", results).stdout
    assert "  inferred  from a log of SingleStream, as the rules of v6.0 allow on edge systems" in shown


def test_a_log_that_a_scenario_cannot_be_inferred_from_is_refused(copy_of, results):
    root = copy_of("v6.0", "Lenovo")
    model = root / "closed/Lenovo/results/SE100/resnet50"
    shutil.rmtree(model / "SingleStream")
    shutil.copytree(root / "closed/Lenovo/results/SE455I_V3_TRT/resnet50/Offline", model / "SingleStream")
    (unread,) = import_tree(root, results).unread
    assert "is a log of Offline, in a folder of SingleStream." in unread.reason


def test_a_result_of_the_other_harness_is_named_and_left_out(copy_of, results):
    root = copy_of("v6.0", "Dell")
    model = root / "closed/Dell/results/XE7740_H200_NVL_141GBx8_TRT/llama3.1-8b/Offline"
    for name in ("performance/result_summary.json", "accuracy/accuracy_results.json", "config.yaml"):
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_text("{}")
    outcome = import_tree(root, results)
    assert len(outcome.records) == 2
    (unread,) = outcome.unread
    assert unread.path == model
    assert unread.reason == "it was measured with the endpoints tool, without LoadGen, and is left out."


def test_a_model_that_the_round_does_not_have_is_not_read(copy_of, results):
    root = copy_of("v6.0", "Dell")
    system = root / "closed/Dell/results/XE7740_H200_NVL_141GBx8_TRT"
    (system / "llama2-70b-99").rename(system / "gptj-99")
    outcome = import_tree(root, results)
    assert {each.reason for each in outcome.unread} == {"v6.0 has no model 'gptj-99'."}


def test_the_round_is_recognised_by_seeds_and_never_by_the_folders_name(copy_of, results):
    root = copy_of("v6.0", "Dell").rename(results.with_name("v4.1"))
    assert {record.round for record in import_tree(root, results).records} == {"v6.0"}


def test_logs_of_a_later_round_are_judged_by_its_rules_in_a_tree_of_another(copy_of, results):
    root = copy_of("v6.0", "Dell")
    shutil.copytree(TREES / "v5.1/closed/Google", root / "closed/Google")
    records = import_tree(root, results).records
    assert sorted((record.round, record.verdict.is_valid) for record in records) == [
        ("v5.1", True),
        ("v5.1", True),
        ("v6.0", True),
        ("v6.0", True),
    ]


def test_power_of_a_later_round_is_read(copy_of, results):
    root = copy_of("v5.1", "Google")
    run = root / "closed/Google/results/H200-SXM-141GBx8_TRT/llama2-70b-99/Offline/performance"
    edit(
        run / "run_1/mlperf_log_detail.txt",
        power_begin="07-20-2025 10:00:00.000",
        power_end="07-20-2025 10:10:00.000",
    )
    (run / "power").mkdir()
    lines = [f"Time,07-20-2025 10:0{minute}:30.000,Watts,{5000 + minute},Volts" for minute in range(10)]
    (run / "run_1/spl.txt").write_text("\n".join(lines))
    records = {each.scenario: each for each in import_tree(root, results).records}
    assert records["Offline"].energy.joules == pytest.approx(5004.5 * 600)
    assert records["Interactive"].energy is None


def test_the_command_takes_a_folder_of_trees(results):
    done = invoke("import", TREES, "--results", results)
    assert done.exit_code == 0, done.output
    assert done.stderr.endswith("27 imported, 0 not read\n")
    again = invoke("import", TREES / "v5.1", "--results", results)
    assert again.stderr.endswith("0 imported, 14 imported before, 0 not read\n")


SEEDS = {
    "v5.0": (6023615788873153749, 15036839855038426416, 9933818062894767841),
    "v6.1": (2085463073848966840, 2747215439041700203, 16159082839903944936),
}


def make_of(root, name):
    """Give the logs of a tree the seeds of another round."""
    keys = (f"effective_{key}_rng_seed" for key in ("qsl", "sample_index", "schedule"))
    seeds = dict(zip(keys, SEEDS[name], strict=True))
    for file in root.rglob("mlperf_log_detail.txt"):
        edit(file, **seeds)
    return root


def test_interactive_of_v5_0_is_a_model_of_its_own(copy_of, results):
    root = make_of(copy_of("v5.1", "Google"), "v5.0")
    system = root / "closed/Google/results/H200-SXM-141GBx8_TRT"
    (system / "llama2-70b-99").rename(system / "llama2-70b-interactive-99")
    (system / "llama2-70b-interactive-99/Interactive").rename(system / "llama2-70b-interactive-99/Server")
    outcome = import_tree(root, results)
    assert {(each.round, each.workload, each.scenario, each.verdict.is_valid) for each in outcome.records} == {
        ("v5.0", "llama2-70b-interactive", "Server", True),
        ("v5.0", "llama2-70b-interactive", "Offline", True),
    }
    limits = [{rule.rule: rule.limit for rule in each.verdict.rules}.get("ttft") for each in outcome.records]
    assert sorted(limits, key=str) == [450_000_000, None]


def test_v6_1_has_the_stricter_llama_alone(copy_of, results):
    root = make_of(copy_of("v6.0", "Dell"), "v6.1")
    assert {each.reason for each in import_tree(root, results).unread} == {"v6.1 has no model 'llama2-70b-99'."}
    system = root / "closed/Dell/results/XE7740_H200_NVL_141GBx8_TRT"
    (system / "llama2-70b-99").rename(system / "llama2-70b-99.9")
    records = import_tree(root, results).records
    assert {(each.round, each.imported.variant, each.verdict.is_accurate) for each in records} == {
        ("v6.1", "99.9", True)
    }


def test_interactive_may_be_written_in_lower_case(copy_of, results):
    root = copy_of("v6.0", "Dell")
    model = root / "closed/Dell/results/XE7740_H200_NVL_141GBx8_TRT/llama2-70b-99"
    (model / "Interactive").rename(model / "interactive")
    assert {each.scenario for each in import_tree(root, results).records} == {"Interactive", "Offline"}


def test_interactive_is_no_scenario_of_v5_0(copy_of, results):
    root = make_of(copy_of("v5.1", "Google"), "v5.0")
    (unread,) = import_tree(root, results).unread
    assert unread.reason == "there is no scenario 'Interactive'."


def test_without_a_description_nothing_is_said_of_the_category_of_an_inferred_result(copy_of, results):
    root = copy_of("v6.0", "Lenovo")
    shutil.rmtree(root / "closed/Lenovo/systems")
    records = import_tree(root, results).records
    assert "inferred" not in {rule.rule for each in records for rule in each.verdict.rules}


@pytest.mark.parametrize("value", [0, -5, "many", None, [1], {"a": 1}, True])
def test_an_odd_value_behind_an_inferred_result_is_refused_in_one_line(copy_of, results, value):
    root = copy_of("v6.0", "Lenovo")
    folder = root / "closed/Lenovo/results/SE100/resnet50/multistream"
    edit(folder / "performance/run_1/mlperf_log_detail.txt", early_stopping_latency_ms=value)
    outcome = import_tree(root, results)
    assert [each.path.name for each in outcome.unread if "multistream" in str(each.path)] in (
        ["multistream"],
        ["mlperf_log_detail.txt"],
    )
    assert all("\n" not in each.reason for each in outcome.unread)


def test_a_folder_of_trees_is_imported_past_one_without_results(tmp_path, copy_of, results):
    copy_of("v6.0", "Dell")
    (tmp_path / "assets/closed").mkdir(parents=True)
    assert len(import_tree(tmp_path, results).records) == 2


@pytest.mark.parametrize(
    "line",
    ["accuracy" + 10**6 * " ", '{"accuracy' + 10**6 * '"', "{" + 10**5 * '"f1": 1'],
    ids=["blanks", "quotes", "f1"],
)
def test_a_long_line_of_scores_takes_no_time_that_grows_with_its_square(tmp_path, line):
    file = tmp_path / "accuracy.txt"
    file.write_text(f"{line}\n")
    targets = [Target(score=score, name="", reference=0, lower=0) for score in ("acc", "F1_HIERARCHICAL")]
    with pytest.raises(DataError, match="contains no acc"):
        read_scores(file, targets, are_plain=False)
