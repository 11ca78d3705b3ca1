"""What decides whether a graph that was traced before may be used again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mlbench

CODE = "from mlbench.toolkit import tracing_versions; print(tracing_versions())"


def versions_with(folder):
    """Return what a process says whose mlbench is the one in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    return done.stdout


def test_a_checkout_whose_code_changed_within_a_version_traces_anew(tmp_path):
    copy = shutil.copytree(Path(mlbench.__file__).parent, tmp_path / "mlbench")
    before = versions_with(tmp_path)
    changed = copy / "toolkit" / "language" / "decoder_modules.py"
    text = changed.read_text()
    changed.write_text(text + "\n# another line\n")
    assert versions_with(tmp_path) != before
    changed.write_text(text)
    assert versions_with(tmp_path) == before


def test_the_code_of_built_in_workloads_counts_and_other_code_of_mlbench_does_not(tmp_path):
    package = Path(mlbench.__file__).parent
    shutil.copytree(package, tmp_path / "mlbench")
    before = versions_with(tmp_path)
    (tmp_path / "mlbench" / "reports" / "page.py").write_text("")
    assert versions_with(tmp_path) == before
    shutil.copytree(package.parent / "workloads" / "mlbench_bert", tmp_path / "mlbench_bert")
    (tmp_path / "mlbench_bert" / "graphs.py").write_text("")
    assert versions_with(tmp_path) != before
