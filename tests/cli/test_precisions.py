"""``mlbench precisions`` with real runs: one table, resumed, and refused in a line."""

import json

import pytest
from invoking import invoke, refusal

pytest.importorskip("torch")
SHORT = ("--set", "load.min_duration_ms=100", "--set", "execution.batch=8")


def precisions(*words):
    return invoke("precisions", *words)


def measure(results, *words):
    asked = ("resnet50", "--backend", "onnxruntime", "--precision", "fp32", "--precision", "int8")
    return precisions(*asked, *SHORT, "--results", results, *words)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return the folder of two runs, and what was printed."""
    results = tmp_path_factory.mktemp("precisions") / "results"
    return results, measure(results)


@pytest.mark.slow
def test_a_table_has_speed_memory_and_loss_of_each_precision(measured):
    results, done = measured
    lines = done.stdout.splitlines()
    start = next(
        place for place, line in enumerate(lines) if line.startswith("precisions resnet50 onnxruntime Offline")
    )
    rows = {name: next(line for line in lines[start:] if f" {name} " in line) for name in ("fp32", "int8")}
    assert "x 1.00" in rows["fp32"]
    assert " 0.00 %" in rows["fp32"]
    assert all("GiB" in row for row in rows.values())
    # 25,557,032 weights of torchvision's ResNet-50, of 4 bytes and of 1
    assert "The 25.6 million weights at full size: fp32 0.102 GB (fits in 24 GB), int8 0.0256 GB" in " ".join(lines)
    records = [json.loads(file.read_text()) for file in results.glob("*/record.json")]
    assert sorted((each["tag"], each["precision"]) for each in records) == [
        ("precisions", "fp32"),
        ("precisions", "int8"),
    ]


@pytest.mark.slow
def test_the_same_command_makes_only_what_is_missing(measured):
    results, _ = measured
    before = {each.name for each in results.iterdir()}
    records = json.loads(measure(results, "--json").stdout)
    assert [each["precision"] for each in records] == ["fp32", "int8"]
    assert {each["run_id"] for each in records} <= before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "no workload is named. Name one of `mlbench list`, or a file with --model."),
        (("resnet51",), "resnet51"),
        (("bert", "--backend", "null", "--precision", "int8"), "null does not offer precision int8. It offers: fp32."),
        (("bert", "--backend", "null", "--transform", "shrink"), "shrink"),
    ],
)
def test_wrong_words_are_refused_in_a_line(words, line, tmp_path):
    assert line in refusal(precisions(*words, "--results", tmp_path / "results"))
    assert not (tmp_path / "results").exists()
