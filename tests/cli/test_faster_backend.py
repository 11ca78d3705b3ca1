"""``mlbench run`` without a backend says where another one was faster here."""

import json
import os
import re
import subprocess
import sys

import pytest

MLBENCH = [sys.executable, "-m", "mlbench"]
NO_SWEEP = ["--set", "execution.batch=8"]


@pytest.fixture
def run(tmp_path, cache):
    """Return a function that makes a real run in Offline, and its record."""
    results = tmp_path / "results"

    def run(*options):
        words = [*MLBENCH, "run", "resnet50", "--scenario", "Offline", *NO_SWEEP, "--results", str(results)]
        known = {**os.environ, "MLBENCH_CACHE": str(cache), "COLUMNS": "200"}
        done = subprocess.run([*words, *options], env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (newest,) = sorted(results.glob("[!.]*/record.json"))[-1:]
        return done.stdout, newest

    return run


@pytest.mark.thorough("command line")
def test_a_run_on_the_default_backend_names_one_that_was_faster_here(run):
    printed, file = run()
    assert "times as fast" not in printed
    record = json.loads(file.read_text())
    record |= {"run_id": f"{record['run_id'][:-4]}acme", "backend": "acme"}
    record["result"]["value"] *= 100
    folder = file.parent.with_name(record["run_id"])
    folder.mkdir()
    (folder / "record.json").write_text(json.dumps(record))
    printed, file = run()
    ratio = record["result"]["value"] / json.loads(file.read_text())["result"]["value"]
    assert ratio > 10
    chosen = json.loads(file.read_text())["backend"]
    said = re.search(rf"resnet50 Offline: acme was ([\d.]+) times as fast as {chosen} in an earlier run", printed)
    assert said, printed
    assert float(said[1]) == pytest.approx(ratio, rel=0.01)
    assert "--backend acme" in printed
    printed, _ = run("--backend", chosen)
    assert "times as fast" not in printed
