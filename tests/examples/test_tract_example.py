"""A stranger's backend, installed from outside, and the tutorial that is made of it."""

import importlib.util
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from invoking import invoke
from onnx import TensorProto, helper, numpy_helper

from mlbench import GraphError, Precision, TensorSpec
from mlbench.conformance.kit import CHECKS_OF_ENGINES, CHECKS_OF_GRAPHS, CHECKS_OF_TEXT

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mlbench_tract"
TUTORIAL = (ROOT / "docs" / "tutorial-backend.md").read_text()

needs_tract = pytest.mark.skipif(not importlib.util.find_spec("tract"), reason="tract is not installed")


@needs_tract
@pytest.mark.slow
def test_an_installed_plugin_is_listed_beside_the_built_in_ones(mlbench):
    listed = json.loads(mlbench("list", "--json").stdout)
    backend = next(each for each in listed["backends"] if each["name"] == "tract")
    assert (backend["is_available"], backend["title"]) == (True, "tract on one thread")
    assert listed["broken"] == []


@needs_tract
@pytest.mark.thorough("examples")
def test_the_plugin_passes_the_kit_from_the_command_line(mlbench):
    done = mlbench("check", "tract", "--set", "backend.runtime=default", "--json")
    findings = json.loads(done.stdout)
    assert [each for each in findings if not each["passed"]] == []
    assert len(findings) == len(CHECKS_OF_ENGINES) + len(CHECKS_OF_GRAPHS)
    assert done.returncode == 0


@needs_tract
@pytest.mark.thorough("examples")
def test_the_plugins_own_tests_are_the_kit(with_the_plugin):
    arguments = ["-q", "-p", "no:cacheprovider", "-k", "equals_the_module or answers_all_at_once", str(EXAMPLE)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], env=with_the_plugin, capture_output=True, text=True, check=False
    )
    assert "2 passed" in done.stdout, done.stdout


@needs_tract
@pytest.mark.thorough("examples")
def test_the_plugin_runs_workloads_and_meets_their_accuracy_targets(mlbench):
    arguments = [
        "run",
        "resnet50",
        "llama2-70b",
        "--backend",
        "tract",
        "--scenario",
        "Offline",
        "--tier",
        "smoke",
        "--set",
        "load.min_duration_ms=50",
        "--set",
        "execution.batch=8",
        "--json",
    ]
    done = mlbench(*arguments)
    records = {record["workload"]: record for record in json.loads(done.stdout)}
    assert set(records) == {"resnet50", "llama2-70b"}
    for record in records.values():
        assert (record["backend"], record["status"], record["precision"]) == ("tract", "completed", "fp32")
        assert record["accuracy"]["is_met"]
        assert "tract" in record["environment"]["libraries"]


def test_a_graph_that_tract_cannot_compile_is_refused_in_a_line_that_names_the_operator(tmp_path):
    pytest.importorskip("tract")
    helper = pytest.importorskip("onnx.helper")
    x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [None, 3, 3]), ("y", [None])))
    graph = helper.make_graph([helper.make_node("Det", ["x"], ["y"])], "determinant", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (tmp_path / "determinant.onnx").write_bytes(model.SerializeToString())
    spec = TensorSpec(name="x", shape=(2, 3, 3), dtype="float32")
    file = tmp_path / "determinant.onnx"
    stranger = SimpleNamespace(name="determinant", inputs=(spec,), outputs=(), state=(), onnx=lambda: file)
    spec = importlib.util.spec_from_file_location("mlbench_tract", EXAMPLE / "mlbench_tract.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    with pytest.raises(GraphError) as caught:
        module.Tract().compile(stranger, Precision.FP32)
    assert re.fullmatch(r"tract cannot compile determinant: .*Unimplemented\(Det\).*\.", str(caught.value))


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TUTORIAL, flags=re.DOTALL)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return the module of a new backend with an engine of its own."""
    folder = tmp_path_factory.mktemp("begun")
    invoke("plugin", "new", "my-llm", "--engine", "--into", folder)
    return folder / "mlbench_my_llm" / "mlbench_my_llm.py"


@pytest.mark.parametrize(
    "block",
    [*[block for block in blocks("python") if "def compile" not in block or "find_spec" not in block], *blocks("toml")],
    ids=lambda block: block.strip().splitlines()[0],
)
def test_every_piece_of_code_in_the_tutorial_is_a_piece_of_the_example_or_of_what_is_begun(block, begun):
    """All but the backend in 20 lines, which a test of the pages puts to the kit."""
    files = [EXAMPLE / name for name in ("mlbench_tract.py", "test_mlbench_tract.py", "pyproject.toml")]
    assert any(block.strip("\n") in file.read_text() for file in (*files, begun))


def test_the_tutorial_shows_the_whole_example_but_its_imports():
    shown = "".join(blocks("python"))
    source = (EXAMPLE / "mlbench_tract.py").read_text()
    body = source[source.index("@dataclass") :]
    assert [line for line in body.splitlines() if line not in shown] == []


def test_the_tutorial_shows_what_beginning_a_backend_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = invoke("plugin", "new", "my-npu").stdout
    assert textwrap.indent(f"$ mlbench plugin new my-npu\n{printed}", "    ") in TUTORIAL
    printed = invoke("plugin", "new", "my-llm", "--engine").stdout
    assert textwrap.indent(f"$ mlbench plugin new my-llm --engine\n{printed}", "    ") in TUTORIAL


def test_the_tutorial_explains_every_check_and_no_other():
    explained = re.findall(r"^\| `(\w+)` \|", TUTORIAL, flags=re.MULTILINE)
    of_graphs = {check.__name__ for check in (*CHECKS_OF_ENGINES, *CHECKS_OF_GRAPHS)}
    assert sorted(explained) == sorted(of_graphs | {check.__name__ for check in CHECKS_OF_TEXT})
    assert f"tract: {len(of_graphs)} of {len(of_graphs)} checks passed." in TUTORIAL


def test_the_example_is_as_long_as_its_readme_and_the_tutorial_say():
    lines = len((EXAMPLE / "mlbench_tract.py").read_text().splitlines())
    assert f"{lines} lines" in (EXAMPLE / "README.md").read_text()
    assert f"{lines} lines" in TUTORIAL
    assert lines < 80


@needs_tract
@pytest.mark.thorough("examples")
def test_the_plugin_runs_a_users_own_model_with_the_right_answers(mlbench, tmp_path):
    table, weights = (np.random.default_rng(0).standard_normal(shape).astype("f") for shape in ((50, 8), (8, 3)))
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["mean", "weights"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "own",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 6])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "own.onnx")
    backends = [word for name in ("onnxruntime", "pytorch", "tract") for word in ("--backend", name)]
    quick = ["--set", "load.min_duration_ms=50", "--set", "execution.batch=8"]
    records = json.loads(mlbench("run", "--model", str(tmp_path / "own.onnx"), *backends, *quick, "--json").stdout)
    assert [each["backend"] for each in records] == ["onnxruntime", "pytorch", "tract"]
    assert all(each["accuracy"]["is_met"] for each in records)
