"""The page about models of one's own: its examples do what it says."""

import re
import shlex
from pathlib import Path

import pytest
from invoking import invoke, refusal

from mlbench.records.run_record import read

PAGE = (Path(__file__).parents[3] / "docs" / "your-own-model.md").read_text()
DOWNLOADED = "Qwen3-0.6B"
"""A folder that the page's reader has; test_language_runs.py measures small ones."""


@pytest.mark.thorough("examples")
def test_the_examples_of_the_page_run_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))
    done = []
    for kind, block in re.findall(r"```(python|console|toml)\n(.*?)```", PAGE, flags=re.DOTALL):
        if kind == "toml":
            Path("nightly.toml").write_text(block.replace("repeats = 3", "repeats = 1"))
        elif kind == "python":
            exec(compile(block, "page", "exec"), {"__name__": "page"})
        else:
            for line in [each for each in block.splitlines() if DOWNLOADED not in each]:
                done.append(invoke(*shlex.split(line.removeprefix("$ mlbench "))))
    records = [read(folder) for folder in sorted(Path("results").iterdir()) if not folder.name.startswith(".")]
    assert {record.workload for record in records} == {"shop"}
    assert {record.precision for record in records} == {"fp32", "int8"}
    assert all(record.accuracy.is_met for record in records), [record.accuracy.line for record in records]
    assert [each.exit_code for each in done if each.exit_code not in (0, 1)] == []
    assert (tmp_path / "mlbench_shop" / "mlbench_shop" / "model" / "shop.onnx").is_file()
    assert "start-up" in done[0].output
    assert re.search(r"(onnxruntime|pytorch) (was|is|may be) [\d.]+ times as fast", " ".join(done[0].output.split()))


def test_a_package_of_a_users_model_has_a_copy_with_the_weights_beside_it(models, tmp_path):
    asked = ["plugin", "new", "own-task", "--workload", "--from", str(models / "beside.onnx"), "--dim", "columns=5"]
    done = invoke(*asked, "--into", tmp_path)
    assert done.exit_code == 0, done.output
    package = tmp_path / "mlbench_own_task" / "mlbench_own_task"
    assert sorted(file.name for file in (package / "model").iterdir()) == ["beside.bin", "beside.onnx"]
    assert 'dims="columns=5"' in (package / "workload.py").read_text()
    assert "mlbench run own-task" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "x.onnx"], "--from is given without --workload."),
        (["--workload", "--shape", "x=1"], "--shape or --dim is given without --from."),
        (["--workload", "--from", "x.onnx"], "there is no model 'x.onnx'. Name an .onnx or a .pt2 file."),
    ],
)
def test_a_package_that_cannot_be_written_is_one_line(tmp_path, arguments, message):
    assert message in refusal(invoke("plugin", "new", "own-task", *arguments, "--into", tmp_path))
    assert not [*tmp_path.iterdir()]


@pytest.mark.thorough("examples")
def test_a_package_of_a_users_model_runs_and_passes_its_kit(models, tmp_path, pip_install, monkeypatch):
    asked = ["plugin", "new", "own-task", "--workload", "--from", str(models / "cnn.onnx"), "--into", str(tmp_path)]
    invoke(*asked)
    pip_install(tmp_path / "mlbench_own_task", tmp_path / "installed")
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    checked = invoke("check", "own-task")
    assert "own-task: 12 of 12 checks passed." in checked.output
