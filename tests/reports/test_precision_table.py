import io

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from mlbench.reports.precision_table import precision_table, size_lines


def columns_of(records):
    table = precision_table(records)
    return {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}


def rows(records):
    columns = columns_of(records)
    return list(zip(columns["backend"], columns["precision"], columns["speed"], columns["loss"], strict=True))


def fast(a_run, backend, precision, value, score):
    run = a_run(backend=backend, precision=precision)
    result = run.result.model_dump() | {"value": value}
    accuracy = run.accuracy.model_dump()
    accuracy["targets"][0]["value"] = score
    return a_run(backend=backend, precision=precision, result=result, accuracy=accuracy)


def test_each_precision_is_compared_with_the_first_of_its_backend(a_run):
    assert rows(
        [
            fast(a_run, "pytorch", "fp32", 100, 90),
            fast(a_run, "onnxruntime", "fp32", 200, 90),
            fast(a_run, "pytorch", "bf16", 150, 89.1),
            fast(a_run, "onnxruntime", "int8", 500, 88.2),
        ]
    ) == [
        ("pytorch", "fp32", "x 1.00", "0.00 %"),
        ("onnxruntime", "fp32", "x 1.00", "0.00 %"),
        ("pytorch", "bf16", "x 1.50", "1.00 %"),
        ("onnxruntime", "int8", "x 2.50", "2.00 %"),
    ]


def test_a_backend_that_stepped_in_for_a_precision_is_compared_with_the_first_of_all(a_run):
    assert rows([fast(a_run, "onnxruntime", "fp32", 200, 90), fast(a_run, "pytorch", "bf16", 100, 89.1)]) == [
        ("onnxruntime", "fp32", "x 1.00", "0.00 %"),
        ("pytorch", "bf16", "x 0.50", "1.00 %"),
    ]


def test_repeats_share_a_row_with_the_interval_of_the_speed_up(a_run):
    base, new = (98.0, 100.0, 103.0), (195.0, 203.0, 199.0)
    runs = [fast(a_run, "pytorch", name, value, 90) for name, side in (("fp32", base), ("int8", new)) for value in side]
    found = columns_of(runs)
    welch = stats.ttest_ind(np.log(new), np.log(base), equal_var=False).confidence_interval(0.95)
    low, high = np.exp(welch)
    ratio = (195 * 203 * 199 / (98 * 100 * 103)) ** (1 / 3)
    assert found["speed"] == ["x 1.00", f"x {ratio:.2f} ({low:.2f} to {high:.2f})"]
    assert found["precision"] == ["fp32", "int8"]
    assert "(3 runs)" in found["result"][0]
    assert found["verdict"] == ["valid", "valid"]


def test_names_that_all_rows_share_are_in_the_title(a_run):
    table = precision_table([fast(a_run, "pytorch", "fp32", 100, 90), fast(a_run, "pytorch", "int8", 100, 90)])
    assert str(table.columns[0].header) == "precision"
    assert str(table.title) == f"precisions {a_run().workload} pytorch {a_run().scenario}"


def test_a_narrow_table_tells_two_values_of_a_transform_apart(a_run):
    runs = [a_run(transform=f"prune-layers:{value}") for value in ("0.34:0", "0.34:200")]
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(precision_table(runs))
    cells = [line.split("│")[1].strip() for line in console.export_text().splitlines() if "│" in line]
    assert "".join(cells) == "fp32prune-layers:0.34:0fp32prune-layers:0.34:200"


def test_each_score_has_its_loss_and_of_a_distance_more_is_a_loss(a_run):
    def run(precision, agreement, difference):
        accuracy = a_run().accuracy.model_dump()
        plain = accuracy["targets"][0] | {"lower": 50.0, "upper": None}
        apart = {"lower": None, "upper": 1.0, "lower_is_better": True}
        scores = (("agreement", agreement, {}), ("difference", difference, apart))
        accuracy["targets"] = [plain | more | {"score": name, "value": value} for name, value, more in scores]
        return a_run(precision=precision, accuracy=accuracy)

    found = columns_of([run("fp32", 80.0, 0.2), run("int8", 60.0, 0.3)])
    assert found["agreement (loss)"] == ["80.00 (0.00 %)", "60.00 (25.00 %)"]
    assert found["difference (loss)"] == ["0.20 (0.00 %)", "0.30 (50.00 %)"]


def test_a_row_says_how_many_repeats_do_not_count(a_run):
    verdict = a_run().verdict.model_dump() | {"is_valid": False}
    bad = a_run(precision="int8", verdict=verdict)
    assert columns_of([a_run(precision="fp32"), bad, a_run(precision="int8")])["verdict"][1] == "INVALID (1 of 2)"


def test_the_mean_is_that_of_valid_repeats_and_of_all_where_none_is_valid(a_run):
    def run(precision, value, *, is_valid):
        changes = {"result": a_run().result.model_dump() | {"value": value}}
        return a_run(precision=precision, verdict=a_run().verdict.model_dump() | {"is_valid": is_valid}, **changes)

    base = [run("fp32", 100.0, is_valid=True), run("fp32", 900.0, is_valid=False), run("fp32", 100.0, is_valid=True)]
    found = columns_of([*base, run("int8", 300.0, is_valid=False), run("int8", 300.0, is_valid=False)])
    assert found["result"] == ["100 samples/s (2 of 3 runs)", "300 samples/s (2 runs)"]
    assert found["speed"][1].startswith("x 3.00 ")


def test_the_memory_is_that_of_a_repeat_that_converts_no_weights(a_run):
    def run(precision, gib, **stages_ns):
        return a_run(precision=precision, peak_memory_bytes=gib << 30, runtime={}, stages_ns=stages_ns)

    exported = run("fp32", 3, export=1)
    found = columns_of([exported, run("fp32", 2), run("int8", 1), run("fp16", 3, export=1)])
    assert found["peak memory"] == ["2.00 GiB", "1.00 GiB", "3.00 GiB (with export)"]


def test_the_room_for_full_size_weights_is_their_number_times_their_bits(a_run):
    stored = a_run(precision="w4a16", number_format={"stores": "int4-gptq", "computes": "fp16"})
    runs = [*(a_run(precision=name) for name in ("fp32", "bf16", "int8", "unknown")), stored]
    (line,) = size_lines(runs, 70_000_000_000)
    assert line == (
        "The 70 billion weights at full size: fp32 280 GB (too large for 141 GB), bf16 140 GB (fits in 141 GB), "
        "int8 70 GB (fits in 80 GB), int4-gptq 35 GB (fits in 40 GB). Cache and activations come on top."
    )


@pytest.mark.parametrize(("precision", "count"), [("unknown", 10**9), ("fp32", 0), ("fp9999", 10**9)])
def test_nothing_is_said_of_a_size_that_is_not_known(a_run, precision, count):
    assert not list(size_lines([a_run(precision=precision)], count))


def test_a_perplexity_is_a_score_of_which_more_is_a_loss(a_run):
    def run(precision, perplexity):
        accuracy = a_run().accuracy.model_dump() | {"perplexity": perplexity}
        return a_run(precision=precision, accuracy=accuracy)

    found = columns_of([run("fp32", 8.0), run("int8", 8.2), run("bf16", None)])
    assert found["perplexity (loss)"] == ["8 (0.00 %)", "8.2 (2.50 %)", "-"]
