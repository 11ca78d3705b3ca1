"""What a report shows of the stored runs: each number under its column, in its unit, and what does not count as such.

The expected texts are the numbers of the records (`tests/data/records`), rounded by hand.
"""

from pathlib import Path

import pytest

from mlbench.reports.console import table as terminal_table
from mlbench.reports.html.conditions import spread_line, work_table
from mlbench.reports.html.drawing import Palette
from mlbench.reports.html.page import html_page
from mlbench.reports.html.results import problems, results_table, rules_table, runs_table
from mlbench.reports.html.speedups import speedup_table
from mlbench.reports.html.work_charts import accuracy_figure
from mlbench.reports.summary import Content, headline, summarise
from mlbench.reports.summary_markdown import summary_markdown

STORED = sorted(file.stem for file in (Path(__file__).parents[1] / "data" / "records").glob("*.json"))
DASH = "\N{EN DASH}"


def of(*runs):
    return summarise({"": runs})


def only(run):
    (combination,) = of(run).combinations
    return combination


def rows_of(table):
    """Return the cells of each row by the heading of their column."""
    return [{column.heading: cell for column, cell in zip(table.columns, row, strict=True)} for row in table.rows]


@pytest.fixture
def all_runs(stored_run):
    """Return every stored run, a day apart."""
    return [stored_run(name, number) for number, name in enumerate(STORED)]


RESULTS = {
    "3d-unet-onnxruntime-SingleStream": ("20.7 s est. p90", "", "20.7 s"),
    "bert-onnxruntime-Server": ("9.27 samples/s", "latency 35.5 ms of 300 ms", "35.5 ms"),
    "dlrm-v2-onnxruntime-Server": ("167 samples/s", "latency 58.5 ms of 100 ms", "58.5 ms"),
    "gptj-onnxruntime-Server": ("546 tokens/s", "latency 400 ms of 20.0 s", "400 ms"),
    "gptj-pytorch-Offline": ("1,027 tokens/s", "", "-"),
    "llama2-70b-endpoint-Server": ("INVALID", "TTFT 170 s of 2.00 s\nTPOT 200.4 ms of 200.0 ms", "170 s"),
    "llama2-70b-onnxruntime-Server": ("4,620 tokens/s", "TTFT 12.4 ms of 2.00 s\nTPOT 4.31 ms of 200 ms", "305 ms"),
    "mixtral-8x7b-onnxruntime-Offline": ("6,104 tokens/s", "", "-"),
    "resnet50-onnxruntime-Offline": ("807 samples/s", "", "-"),
    "resnet50-pytorch-MultiStream": ("1.99 s est. p99", "", "1.59 s"),
    "resnet50-pytorch-Offline": ("685 samples/s", "", "-"),
    "resnet50-pytorch-Server": ("18.5 samples/s", "latency 59.1 ms of 100 ms", "59.1 ms"),
    "resnet50-pytorch-Server-late": ("INVALID", "latency 3.42 s of 100 ms", "3.42 s"),
    "resnet50-pytorch-SingleStream": ("52.4 ms est. p90", "", "52.4 ms"),
    "retinanet-onnxruntime-Offline": ("98.5 samples/s", "", "-"),
    "stable-diffusion-xl-pytorch-Offline": ("20.4 samples/s", "", "-"),
}


@pytest.mark.parametrize("name", STORED)
def test_a_result_stands_in_the_column_of_its_scenario_with_the_limits_that_judged_it(stored_run, name):
    run = stored_run(name)
    shown, limits, p99 = RESULTS[name]
    (row,) = rows_of(results_table(of(run)))
    assert list(row) == ["workload", "backend", "accuracy", run.scenario]
    assert (row["workload"].text, row["backend"].text) == (run.workload, f"{run.backend} {run.precision}")
    assert (row[run.scenario].text, row[run.scenario].detail) == (shown, limits)
    (row,) = rows_of(runs_table(only(run)))
    assert row["p99 latency"].text == p99


COSTS = {
    "3d-unet-onnxruntime-SingleStream": ("793 us", "0.0155 % of median latency", "259 MiB"),
    "bert-onnxruntime-Server": ("2.18 ms", "21.8 % of median latency", "105 MiB"),
    "gptj-pytorch-Offline": ("601 us", "", "1.44 GiB"),
    "resnet50-onnxruntime-Offline": ("58.5 us", "4.72 % of time per sample", "433 MiB"),
    "resnet50-pytorch-MultiStream": ("49.0 us", "0.388 % of median latency", "859 MiB"),
    "resnet50-pytorch-Offline": ("21.4 us", "1.47 % of time per sample", "836 MiB"),
    "retinanet-onnxruntime-Offline": ("939 us", "9.25 % of time per sample", "850 MiB"),
    "stable-diffusion-xl-pytorch-Offline": ("60.2 us", "0.123 % of time per sample", "886 MiB"),
}


@pytest.mark.parametrize("name", COSTS)
def test_the_cost_of_a_run_is_the_overhead_against_the_result_and_the_memory_at_its_peak(stored_run, name):
    """58.506 us of each sample at 806.729 samples/s are 4.72 %; 1,545,949,184 bytes are 1.44 GiB."""
    (row,) = rows_of(work_table([only(stored_run(name))]))
    own, share, memory = COSTS[name]
    assert (row["overhead"].text, row["overhead"].detail, row["peak memory"].text) == (own, share, memory)


def test_a_cost_that_one_run_lacks_is_said_not_to_be_measured(stored_run):
    runs = [stored_run("llama2-70b-onnxruntime-Server"), stored_run("llama2-70b-endpoint-Server", 1)]
    found = {row["backend"].text: row for row in rows_of(work_table(of(*runs).combinations))}
    assert (found["endpoint bf16"]["overhead"].text, found["endpoint bf16"]["overhead"].tone) == (
        "not measured",
        "quiet",
    )
    assert found["onnxruntime fp32"]["overhead"].text == "3.35 ms"
    assert found["endpoint bf16"]["peak memory"].text == "61.3 MiB"


@pytest.mark.parametrize(
    ("name", "scores", "targets"),
    [
        ("3d-unet-onnxruntime-SingleStream", "DICE 0.91", "target 0.90\n99.9: 0.905 met"),
        ("bert-onnxruntime-Server", "F1 90.31", "target 89.40\n99.9: 90.22 met"),
        (
            "gptj-pytorch-Offline",
            "ROUGE1 99.21\nROUGE2 98.89\nROUGEL 98.92\nGEN_LEN 10555.00",
            "4 of 4 targets met\n99.9: 4 of 4 targets met",
        ),
        ("resnet50-pytorch-Server-late", "acc 98.99", "target 98.00"),
        (
            "stable-diffusion-xl-pytorch-Offline",
            "CLIP_SCORE 92.35\nFID_SCORE 88.80\nDIGIT_RATE 90.62",
            "3 of 3 targets met",
        ),
        ("llama2-70b-endpoint-Server", "not measured", ""),
    ],
)
def test_the_scores_of_a_run_stand_above_what_their_targets_demand(stored_run, name, scores, targets):
    (row,) = rows_of(results_table(of(stored_run(name))))
    assert (row["accuracy"].text, row["accuracy"].detail) == (scores, targets)
    assert row["accuracy"].tone == ("good" if targets else "quiet")


def test_the_targets_of_a_chart_say_on_which_side_of_them_a_score_must_lie(stored_run):
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    summary = of(stored_run("stable-diffusion-xl-pytorch-Offline"))
    rows = rows_of(accuracy_figure(summary.combinations, Palette(summary.series)).numbers)
    assert [[row[name].text for name in ("score", "reached", "target", "reference", "verdict")] for row in rows] == [
        ["CLIP_SCORE @range", "92.347", "91.424 to 93.271", "92.347", "met"],
        ["FID_SCORE @range", "88.799", "86.136 to 91.464", "88.800", "met"],
        ["DIGIT_RATE @digits", "90.625", "at least 87.625", "90.625", "met"],
    ]


def test_all_runs_are_a_row_for_each_backend_of_a_workload_and_a_column_for_each_scenario(all_runs):
    table = results_table(of(*all_runs))
    rows = rows_of(table)
    assert list(rows[0])[3:] == ["SingleStream", "MultiStream", "Server", "Offline"]
    assert table.is_sortable
    assert [(row["workload"].text, row["backend"].text) for row in rows].count(("resnet50", "pytorch fp32")) == 1
    found = {(row["workload"].text, row["backend"].text): row for row in rows}
    pytorch = found["resnet50", "pytorch fp32"]
    assert [pytorch[name].text for name in list(rows[0])[3:]] == [
        "52.4 ms est. p90",
        "1.99 s est. p99",
        "18.5 samples/s",
        "685 samples/s",
    ]
    assert pytorch["Server"].detail.splitlines()[0] == "1 of 2 runs does not count"
    assert [found["gptj", "pytorch fp32"][name].text for name in ("Server", "Offline")] == [DASH, "1,027 tokens/s"]


def test_numbers_are_sorted_by_their_value_and_not_by_their_text(all_runs):
    orders = {row["workload"].text: row["Offline"].order for row in rows_of(results_table(of(*all_runs)))}
    assert orders["mixtral-8x7b"] == 6104.43
    assert orders["retinanet"] == 98.5292
    assert orders["bert"] is None


def test_a_heading_says_what_an_estimate_is_only_where_one_is_shown(stored_run):
    note = "est.: LoadGen's early-stopping estimate of that percentile"
    assert note in results_table(of(stored_run("resnet50-pytorch-SingleStream"))).caption
    assert note not in results_table(of(stored_run("resnet50-pytorch-Offline"))).caption


def test_a_run_over_its_limit_is_invalid_in_every_table(stored_run):
    late = stored_run("resnet50-pytorch-Server-late")
    (row,) = rows_of(results_table(of(late)))
    assert (row["Server"].text, row["Server"].tone, row["Server"].order) == ("INVALID", "bad", None)
    (row,) = rows_of(runs_table(only(late)))
    assert (row["performance"].text, row["performance"].tone) == ("INVALID", "bad")
    failed = [row["rule"].text for row in rows_of(rules_table(late)) if row["verdict"].text == "failed"]
    assert failed == ["loadgen_result", "latency_limit", "early_stopping"]
    assert headline(of(late)) == "The run does not count: INVALID."


def test_each_rule_that_failed_is_a_finding_with_its_advice(stored_run):
    (problem,) = problems(of(stored_run("llama2-70b-endpoint-Server")))
    assert (problem.name, problem.standing) == ("llama2-70b endpoint bf16 Server", "INVALID")
    assert [what for what, _ in problem.findings] == [
        "loadgen_result: INVALID, limit VALID.",
        "min_queries: 1 queries, limit 459 queries.",
        "ttft: 170 s, limit 2.00 s.",
        "tpot: 200.4 ms, limit 200.0 ms.",
        "early_stopping: 256 queries, limit 459 queries.",
    ]
    assert problem.findings[1][1] == "Raise load.min_query_count from 1 to 459."


def test_among_all_runs_only_those_that_do_not_count_went_wrong(all_runs):
    assert headline(of(*all_runs)) == "2 of 16 runs do not count: 2 INVALID."
    assert [(each.name, each.standing) for each in problems(of(*all_runs))] == [
        ("llama2-70b endpoint bf16 Server", "INVALID"),
        ("resnet50 pytorch fp32 Server", "INVALID (1 of 2 runs)"),
    ]


def test_backends_are_compared_where_both_have_a_number_that_counts(all_runs):
    """806.729 / 684.592 = 1.178; GPT-J ran in two scenarios, Llama's endpoint is INVALID."""
    (row,) = rows_of(speedup_table(of(*all_runs)))
    assert (row["workload"].text, row["backend"].text, row["backend"].detail) == (
        "resnet50",
        "onnxruntime fp32",
        "against pytorch fp32",
    )
    assert [row[name].text for name in list(row)[2:]] == [DASH, DASH, DASH, "1.18 \N{MULTIPLICATION SIGN}"]
    assert row["Offline"].order == pytest.approx(806.729 / 684.592)


def test_tokens_are_not_held_against_samples(stored_run):
    tokens = stored_run("gptj-pytorch-Offline")
    samples = tokens.result.model_copy(update={"unit": "samples/s"})
    other = stored_run("gptj-pytorch-Offline", 1, backend="onnxruntime").model_copy(update={"result": samples})
    assert speedup_table(of(tokens, other)) is None


def test_each_further_backend_is_held_against_the_first_and_a_result_of_zero_against_nothing(stored_run):
    values = {"pytorch": 200.0, "a": 100.0, "b": 800.0, "c": 0.0}
    runs = [
        stored_run("resnet50-pytorch-Offline", number, value, backend=backend)
        for number, (backend, value) in enumerate(values.items())
    ]
    rows = rows_of(speedup_table(of(*runs)))
    assert [(row["backend"].text, row["Offline"].order) for row in rows] == [
        ("a fp32", 0.5),
        ("b fp32", 4.0),
    ]
    assert speedup_table(of(runs[3].model_copy(update={"created": runs[0].created}), runs[0])) is None


def at_a_rate(stored_run, name, number, backend, target_qps, **latency_ns):
    """Return a stored Server run with these latencies, sent at this rate."""
    run = stored_run(name, number, backend=backend)
    result = run.result.model_copy(update={"latency_ns": {**run.result.latency_ns, **latency_ns}})
    return run.model_copy(update={"result": result, "load": {**run.load, "target_qps": target_qps}})


def test_runs_sent_at_one_rate_are_held_against_each_other_by_their_latency(stored_run):
    """Both complete what was sent, 18.5 samples/s; one answers in half the time."""
    key = next(key for key in stored_run("resnet50-pytorch-Server").result.latency_ns if key.startswith("99.00"))
    runs = [
        at_a_rate(stored_run, "resnet50-pytorch-Server", number, backend, 20.0, **{key: latency_ns})
        for number, (backend, latency_ns) in enumerate({"pytorch": 8_000_000, "onnxruntime": 4_000_000}.items())
    ]
    (row,) = rows_of(speedup_table(of(*runs)))
    assert (row["Server"].text, row["Server"].detail) == ("2.00 \N{MULTIPLICATION SIGN}", "99th percentile latency")


def test_latencies_at_different_rates_are_not_divided(stored_run):
    runs = [
        at_a_rate(stored_run, "resnet50-pytorch-Server", number, backend, target_qps)
        for number, (backend, target_qps) in enumerate({"pytorch": 20.0, "onnxruntime": 40.0}.items())
    ]
    assert speedup_table(of(*runs)) is None
    offline = [
        stored_run("resnet50-pytorch-Offline", 2 + number, backend=each.backend) for number, each in enumerate(runs)
    ]
    (row,) = rows_of(speedup_table(of(*runs, *offline)))
    assert (row["Server"].text, row["Server"].detail) == (DASH, "at other rates")
    assert row["Offline"].text == "1.00 \N{MULTIPLICATION SIGN}"


def test_a_language_model_has_a_ratio_for_the_first_token_and_one_for_the_others(stored_run):
    keys = "first_token_99.00_percentile_latency", "time_per_output_token_99.00_percentile"
    times = {"pytorch": (400, 60), "onnxruntime": (100, 120)}
    runs = [
        at_a_rate(
            stored_run, "llama2-70b-onnxruntime-Server", number, backend, 2.0, **dict(zip(keys, found, strict=True))
        )
        for number, (backend, found) in enumerate(times.items())
    ]
    (row,) = rows_of(speedup_table(of(*runs)))
    assert row["Server"].text == "4.00 \N{MULTIPLICATION SIGN}\n0.500 \N{MULTIPLICATION SIGN}"
    assert row["Server"].detail == "99th percentile TTFT, 99th percentile TPOT"
    assert row["Server"].order == 0.5


def test_an_invalid_repeat_does_not_widen_the_spread(stored_run):
    """18.5334 and 20.0 differ by 7.91 %; the late run's 148 samples/s do not count."""
    runs = [
        stored_run("resnet50-pytorch-Server"),
        stored_run("resnet50-pytorch-Server", 1, 20.0),
        stored_run("resnet50-pytorch-Server-late", 2),
    ]
    assert spread_line(of(*runs)) == "Repeats of the same run differ by up to 7.91 % (resnet50 pytorch fp32 Server)."


def test_in_markdown_what_does_not_count_is_bold_and_nothing_else_is(stored_run):
    runs = [stored_run("resnet50-pytorch-Server-late"), stored_run("resnet50-pytorch-Offline", 1)]
    (row,) = [line for line in summary_markdown(Content(title="t", summary=of(*runs))).splitlines() if "685" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")[2:]] == [
        "acc 98.99 (target 98.00)",
        "**INVALID (latency 3.42 s of 100 ms)**",
        "685 samples/s",
    ]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "valid"),
        ({"is_accurate": False}, "inaccurate"),
        ({"is_accurate": None}, "valid"),
        ({"is_valid": False}, "INVALID"),
        ({"is_valid": False, "is_accurate": False}, "INVALID"),
    ],
)
def test_a_narrow_table_says_in_a_word_whether_a_run_counts(stored_run, changes, word):
    run = stored_run("resnet50-pytorch-Offline")
    run = run.model_copy(update={"verdict": run.verdict.model_copy(update=changes)})
    shown = {str(column.header): [str(cell) for cell in column.cells] for column in terminal_table([run], 60).columns}
    assert shown["counts"] == [word]
    assert "performance" not in shown


def test_a_score_of_which_less_is_better_has_a_target_that_it_must_not_exceed(stored_run):
    """Of a real score: 88.799 with only an upper limit, 91.464."""
    run = stored_run("stable-diffusion-xl-pytorch-Offline")
    fid = next(each for each in run.accuracy.targets if each.score == "FID_SCORE").model_copy(update={"lower": None})
    run = run.model_copy(update={"accuracy": run.accuracy.model_copy(update={"targets": (fid,)})})
    (row,) = rows_of(results_table(of(run)))
    assert (row["accuracy"].text, row["accuracy"].detail) == ("FID_SCORE 88.80", "target at most 91.46")
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    (row,) = rows_of(accuracy_figure(of(run).combinations, Palette(("pytorch fp32",))).numbers)
    assert (row["reached"].text, row["target"].text, row["verdict"].text) == ("88.799", "at most 91.464", "met")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_page_counts_the_runs_that_follow_every_rule_and_not_all_that_are_valid(stored_run, count):
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    runs = []
    for number in range(2):
        run = stored_run("resnet50-pytorch-Offline", number, accuracy=None, engine={})
        verdict = run.verdict.model_copy(update={"is_accurate": None, "is_conformant": number < count})
        runs.append(run.model_copy(update={"verdict": verdict}))
    said = f"{count} of the runs follow every rule of their round that one run can follow."
    page = html_page(Content(title="t", summary=of(*runs)))
    assert page.count(said) == (1 if count else 0)
    assert ("follow every rule of" in page) == bool(count)
