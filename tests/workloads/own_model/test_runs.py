"""Whole runs of a user's own models, from the command line."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from invoking import invoke, refusal

import mlbench as functions
from mlbench.records.run_record import read

SHORT = ["--set", "load.min_duration_ms=50", "--set", "execution.batch=8"]
WRONG = Path(__file__).parents[2] / "data" / "wrong_plugin"
LIMITS = {"difference", "largest_difference"}


@pytest.fixture
def mlbench(tmp_path, monkeypatch):
    """Run a command line with its results in a folder of this test."""
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))
    return invoke


@pytest.fixture
def records(tmp_path):
    """Return the stored records by backend."""
    return lambda: {record.backend: record for record in map(read, sorted((tmp_path / "results").iterdir()))}


@pytest.mark.slow
def test_a_backend_that_answers_otherwise_is_named_and_the_others_are_accurate(mlbench, records, models, monkeypatch):
    monkeypatch.syspath_prepend(str(WRONG))
    monkeypatch.setenv("PYTHONPATH", str(WRONG))
    done = mlbench("run", "--model", models / "cnn.onnx", "--backend", "onnxruntime", "--backend", "wrong", *SHORT)
    right, wrong = (records()[name] for name in ("onnxruntime", "wrong"))
    assert right.workload == "cnn"
    assert right.accuracy.is_met
    assert LIMITS < right.accuracy.scores.keys()
    assert right.verdict.is_accurate
    assert not right.verdict.is_conformant
    assert not wrong.accuracy.is_met
    assert done.exit_code == 1
    shown = " ".join(done.output.split())
    assert re.search(
        r"FAIL accuracy.difference: .* The first answer that differs is to sample \d+: output logits", shown
    )


@pytest.mark.thorough("workloads")
def test_a_function_measures_a_model_and_the_record_says_which(models, tmp_path):
    settings = {"load.min_duration_ms": 50, "execution.batch": 8}
    asked = {"name": "shop", "backend": "onnxruntime", "dim": "seq=8..16", "settings": settings}
    (record,) = functions.run(model=models / "text.onnx", **asked, results=tmp_path)
    assert (record.workload, record.scenario, record.profile) == ("shop", "Offline", "full")
    assert record.settings["workload.model"].value == str(models / "text.onnx")
    assert record.settings["workload.dims"].value == "seq=8..16"
    assert record.accuracy.is_met
    (listed,) = functions.load(workload="shop", results=tmp_path)
    assert listed == record


def test_a_function_is_told_which_model_a_shape_belongs_to():
    with pytest.raises(functions.UsageError, match="shape is given without model"):
        functions.run("resnet50", shape="x=1")


@pytest.mark.thorough("workloads")
def test_a_suite_file_names_a_model_beside_it(mlbench, models, tmp_path):
    shutil.copy(models / "hand.onnx", tmp_path / "hand.onnx")
    suite = tmp_path / "suite.toml"
    suite.write_text(
        'name = "nightly"\n[[runs]]\nmodel = "hand.onnx"\nbackend = "onnxruntime"\n'
        'settings = { "load.min_duration_ms" = 50, "execution.batch" = 8 }\n'
    )
    mlbench("run", "--suite", suite)
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert (record.workload, record.tag, record.accuracy.is_met) == ("hand", "nightly", True)
    again = mlbench("run", "--suite", suite, "--json")
    assert [each["run_id"] for each in json.loads(again.stdout)] == [record.run_id]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--model", "none.onnx"], "there is no model 'none.onnx'. Name a file, or a Hugging Face folder."),
        (["run", "--shape", "x=1"], "--shape is given without --model."),
        (["run", "--inputs", "x.npz"], "--inputs is given without --model."),
        (["run", "resnet50", "--model", "{cnn}"], "workload resnet50 is named besides a model. Name one of the two."),
        (["run", "--model", "{cnn}", "--name", "resnet50"], "'resnet50' is an installed workload. Choose another name"),
        (["run", "--model", "{cnn}", "--name", "a b"], "a name has up to 64 letters"),
        (["run", "--model", "{odd}"], "no plugin takes the model '{odd}'. Give an ONNX file (.onnx)"),
        (["run", "--model", "{pth}"], "Weights alone are no network: torch.export.save writes both to a .pt2 file."),
        (["run", "--model", "{cnn}", "--reference", "npu"], "unknown backend 'npu'."),
        (["run", "--model", "{cnn}", "--reference", "endpoint"], "endpoint compiles no graphs, so it is no reference."),
        (["run", "--model", "{cnn}", "--suite", "x.toml"], "model is given together with --suite."),
        (["tune"], "no workload is given. Name a workload, or your own model with --model."),
        (["curve", "resnet50", "--model", "{cnn}"], "a workload and a model are given."),
    ],
)
def test_a_wrong_request_is_one_line(mlbench, models, tmp_path, arguments, message):
    names = {"cnn": models / "cnn.onnx", "odd": tmp_path / "model.txt", "pth": tmp_path / "model.pth"}
    for name in ("odd", "pth"):
        names[name].write_text("")
    assert message.format(**names) in refusal(mlbench(*(each.format(**names) for each in arguments)))
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_a_size_that_is_open_is_asked_for_before_anything_is_stored(mlbench, models, tmp_path):
    line = refusal(mlbench("run", "--model", models / "text.onnx", "--backend", "onnxruntime"))
    assert "text.onnx leaves the size of seq open (ids: batch x seq). Give it, or a range: --dim seq=128" in line
    assert not [*(tmp_path / "results").iterdir()]


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cnn.onnx", []),
        ("cnn.onnx", ["--shape", "image=4x3x32x32"]),
        ("hand.onnx", []),
        ("text.onnx", ["--dim", "seq=8..32"]),
        ("beside.onnx", ["--dim", "columns=5"]),
        ("text.pt2", ["--dim", "s27=8"]),
    ],
)
def test_each_model_runs_on_two_backends_with_the_right_answers(mlbench, records, models, name, options):
    mlbench("run", "--model", models / name, *options, "--backend", "onnxruntime", "--backend", "pytorch", *SHORT)
    assert [record.accuracy.is_met for record in records().values()] == [True, True]


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream", "Server"])
def test_a_model_runs_in_every_scenario(mlbench, records, models, scenario):
    asked = ["--backend", "onnxruntime", "--scenario", scenario, "--set", "load.min_query_count=20", *SHORT]
    asked += ["--set", "load.target_qps=50"] if scenario == "Server" else []
    mlbench("run", "--model", models / "cnn.onnx", *asked)
    record = records()["onnxruntime"]
    assert record.scenario == scenario
    assert record.accuracy.is_met


@pytest.mark.thorough("workloads")
def test_lower_precisions_show_their_loss_and_keep_their_limit(mlbench, models, tmp_path):
    asked = ["--backend", "onnxruntime", *(word for each in ("fp32", "fp16", "int8") for word in ("--precision", each))]
    mlbench("run", "--model", models / "cnn.onnx", *asked, *SHORT)
    found = {record.precision: record for record in map(read, (tmp_path / "results").iterdir())}
    loss = {name: record.accuracy.scores["difference"] for name, record in found.items()}
    assert loss["fp32"] < 1e-6 < loss["fp16"] < loss["int8"]
    assert all(record.accuracy.is_met for record in found.values())


@pytest.mark.thorough("workloads")
def test_an_operator_that_no_runtime_knows_is_one_line(mlbench, records, models):
    done = mlbench("run", "--model", models / "foreign.onnx", "--backend", "onnxruntime", "--backend", "pytorch")
    assert done.exit_code == 1
    for record in records().values():
        assert record.failure.kind == "unsupported"
        assert "Foo" in record.failure.message


@pytest.mark.thorough("workloads")
def test_regress_finds_an_own_model_that_became_slower(mlbench, models, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(WRONG))
    monkeypatch.setenv("PYTHONPATH", str(WRONG))
    run = ["run", "--model", models / "hand.onnx", "--backend", "late", "--repeat", "3", "--set", "execution.batch=8"]
    monkeypatch.setenv("LATE_S", "0.001")
    mlbench(*run, "--tag", "before")
    mlbench("baseline", "save", "good", "before")
    monkeypatch.setenv("LATE_S", "0.004")
    mlbench(*run, "--tag", "after")
    done = mlbench("regress", "after", "--baseline", "good")
    assert done.exit_code == 1
    assert "hand late Offline" in done.output
    assert "slower" in done.output


@pytest.mark.slow
def test_random_weights_are_refused(mlbench, models, tmp_path):
    line = refusal(mlbench("run", "--model", models / "cnn.onnx", "--backend", "onnxruntime", "--weights", "random"))
    assert "cnn has its weights in its file. Leave --weights out." in line
    assert not [*(tmp_path / "results").iterdir()]


@pytest.mark.slow
def test_inputs_with_an_id_that_the_model_has_no_row_for_are_refused_before_the_run(mlbench, models, tmp_path):
    np.savez(tmp_path / "own.npz", ids=np.full((3, 6), 50))
    line = refusal(
        mlbench("run", "--model", models / "hand.onnx", "--backend", "onnxruntime", "--inputs", tmp_path / "own.npz")
    )
    assert "sample 0 of ids has the id 50. The model's table has 50 rows: ids are from 0 to 49." in line
