"""The tables of results in a report: what stands beside each number."""

from pathlib import Path

import pytest

from mlbench.records.run_record import AccuracyRecord, RunRecord
from mlbench.reports.html.results import results_table
from mlbench.reports.html.speedups import speedup_table
from mlbench.reports.summary import summarise

RECORDS = Path(__file__).parents[1] / "data" / "records"
OFFLINE = {"scenario": "Offline"}


@pytest.fixture
def stored():
    """Return a run of gptj that was made and stored."""
    return RunRecord.model_validate_json((RECORDS / "gptj-onnxruntime-Server.json").read_text())


def cells(table, row=0):
    return {column.heading: cell for column, cell in zip(table.columns, table.rows[row], strict=True)}


def a_target(score, value, lower, name="99", required=True):
    fields = {"score": score, "name": name, "reference": 100.0, "lower": lower, "upper": None, "required": required}
    return fields | {"value": value, "is_met": value >= lower}


def an_accuracy(*targets):
    is_met = all(target["is_met"] for target in targets if target["required"])
    return AccuracyRecord(scores={}, targets=targets, line="", is_met=is_met)


def test_a_latency_stands_beside_the_limit_that_judged_it(a_late_run):
    server = cells(results_table(summarise({"": [a_late_run()]})))["Server"]
    assert server.detail == "latency 3.42 s of 100 ms"


def test_times_of_tokens_stand_beside_their_limits_and_answers_have_a_length(stored):
    row = cells(results_table(summarise({"": [stored]})))
    rules = {rule.rule: rule for rule in stored.verdict.rules}
    assert row["Server"].detail.startswith("latency ") and row["Server"].detail.endswith(" of 20.0 s")
    assert rules["latency_limit"].limit == 20_000_000_000
    length = stored.engine.new_tokens / stored.engine.samples
    assert row["workload"].detail == f"mini, {stored.samples['dataset']} samples, {length:.1f} tokens per answer"


def test_each_required_score_is_a_number_and_each_variant_counts_its_targets(a_run):
    targets = [
        a_target("ROUGE1", 43.0, 42.6),
        a_target("ROUGE2", 20.0, 19.9),
        a_target("ROUGE1", 43.0, 43.1, name="99.9", required=False),
        a_target("ROUGE2", 20.0, 19.95, name="99.9", required=False),
    ]
    accuracy = cells(results_table(summarise({"": [a_run(accuracy=an_accuracy(*targets))]})))["accuracy"]
    assert accuracy.text == "ROUGE1 43.00\nROUGE2 20.00"
    assert accuracy.detail == "2 of 2 targets met\n99.9: 1 of 2 targets met"


def test_a_single_score_stands_above_what_each_variant_demands(a_run):
    targets = [a_target("F1", 90.5, 90.9, name="99.9", required=False), a_target("F1", 90.5, 90.0)]
    accuracy = cells(results_table(summarise({"": [a_run(accuracy=an_accuracy(*targets))]})))["accuracy"]
    assert (accuracy.text, accuracy.detail) == ("F1 90.50", "target 90.00\n99.9: 90.90 missed")


def test_a_speed_up_is_the_ratio_of_the_medians(a_server_run):
    runs = [a_server_run(number, value, **OFFLINE) for number, value in enumerate((100.0, 110.0, 300.0))]
    runs += [a_server_run(9, 275.0, backend="onnxruntime", **OFFLINE)]
    table = speedup_table(summarise({"": runs}))
    row = cells(table)
    assert (row["backend"].text, row["backend"].detail) == ("onnxruntime fp32", "against pytorch fp32")
    assert (row["Offline"].text, row["Offline"].order) == ("2.50 \N{MULTIPLICATION SIGN}", 2.5)


def test_half_the_latency_is_twice_as_fast(a_server_run):
    latency = {"unit": "ns", "higher_is_better": False, "latency_ns": {}, "counts": {}}
    runs = [
        a_server_run(number, backend=backend, scenario="SingleStream", result={"value": value, **latency})
        for number, (backend, value) in enumerate([("pytorch", 8e6), ("onnxruntime", 4e6)])
    ]
    assert cells(speedup_table(summarise({"": runs})))["SingleStream"].order == 2.0


def test_without_a_second_backend_or_a_number_there_is_no_speed_up(a_server_run, a_late_run):
    assert speedup_table(summarise({"": [a_server_run()]})) is None
    assert speedup_table(summarise({"": [a_server_run(), a_late_run(number=1, backend="onnxruntime")]})) is None


def test_tags_stand_beside_the_backend_and_many_are_counted(a_run):
    def shown(count):
        runs = [a_run(run_id=f"run-{number}", tag=f"commit-{number}") for number in range(count)]
        return cells(results_table(summarise({"": runs})))["backend"].detail

    assert shown(2) == "tag commit-0, tag commit-1"
    assert shown(4) == "4 tags"
