"""Stored runs under names, compared on the command line; each output read back by a reader that is not ours."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from mlbench.cli import main
from mlbench.records.baselines import save_baseline


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def mlbench(results, monkeypatch):
    monkeypatch.setenv("MLBENCH_RESULTS", str(results))
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def store(a_run, tmp_path):
    """Store a run per throughput in a folder, and return the folder."""

    def store(name, values, **changes):
        folder = tmp_path / name
        for number, value in enumerate(values):
            result = a_run().result.model_dump() | {"value": value}
            run = a_run(run_id=f"{name}-{number}", result=result, tag=name, **changes)
            (folder / run.run_id).mkdir(parents=True)
            (folder / run.run_id / "record.json").write_text(run.text())
        return folder

    return store


@pytest.fixture
def old(store):
    return store("old", [100, 101, 99, 100, 100])


@pytest.fixture
def slow(store):
    return store("slow", [90, 91, 89, 90, 90])


def test_comparing_a_few_repeats_does_not_load_scipys_statistics(old, slow, tmp_path):
    """They take longer to load than all the rest takes."""
    script = "import contextlib, sys; from mlbench.cli import main\nwith contextlib.suppress(SystemExit): main()\n"
    script += "sys.exit('scipy.stats' in sys.modules)"
    run = [sys.executable, "-c", script, "compare", str(old), str(slow)]
    done = subprocess.run(run, env={**os.environ, "MLBENCH_CACHE": str(tmp_path)}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"slower" in done.stdout


def test_a_slower_backend_is_named_and_the_exit_status_is_1(mlbench, old, slow):
    assert mlbench("baseline", "save", "nightly", old).exit_code == 0
    outcome = mlbench("regress", slow, "--baseline", "nightly")
    assert outcome.exit_code == 1, outcome.output
    (row,) = (line for line in outcome.stdout.splitlines() if "slower" in line)
    assert "resnet50 pytorch Offline fp32" in row
    assert "x 0.900" in row


def test_the_baseline_against_itself_is_no_regression(mlbench, old):
    mlbench("baseline", "save", "nightly", old)
    assert mlbench("regress", old, "--baseline", "nightly").exit_code == 0


def test_the_junit_file_counts_cases_and_failures(mlbench, old, slow, tmp_path):
    mlbench("baseline", "save", "nightly", old)
    mlbench("regress", slow, "--baseline", "nightly", "--junit", tmp_path / "junit.xml")
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert "slower: 100 samples/s" in suite.find("testcase/failure").get("message")


def test_the_markdown_file_is_a_table_that_says_worse(mlbench, old, slow, tmp_path):
    mlbench("baseline", "save", "nightly", old)
    mlbench("regress", slow, "--baseline", "nightly", "--markdown", tmp_path / "summary.md")
    text = (tmp_path / "summary.md").read_text()
    assert "**worse**" in text
    header, rule, row, *_ = (line for line in text.splitlines() if line.startswith("|"))
    assert header.count("|") == rule.count("|") == row.count("|")
    assert "not reviewed by MLCommons" in text


def test_the_json_tells_each_verdict(mlbench, old, slow):
    content = json.loads(mlbench("compare", old, slow, "--json").stdout)
    assert content["is_worse"] is True
    assert content["cells"][0]["speeds"][0]["verdict"] == "slower"


def test_a_tag_names_the_runs_that_carry_it(mlbench, old, slow, results):
    results.mkdir()
    for folder in (old, slow):
        for run in folder.iterdir():
            run.rename(results / run.name)
    outcome = mlbench("compare", "old", "slow", "--json")
    assert json.loads(outcome.stdout)["cells"][0]["speeds"][0]["base"] == [100, 101, 99, 100, 100]


def test_a_baseline_outlives_its_run_folders_and_is_listed_shown_and_removed(mlbench, old):
    mlbench("baseline", "save", "nightly", old)
    shutil.rmtree(old)
    assert "nightly" in mlbench("baseline", "list").stdout
    assert "5 runs" in mlbench("baseline", "list").stdout
    assert len(json.loads(mlbench("baseline", "show", "nightly", "--json").stdout)["records"]) == 5
    assert mlbench("baseline", "remove", "nightly").exit_code == 0
    assert mlbench("baseline", "list").stdout == ""


def test_runs_made_since_the_baseline_are_the_new_side(mlbench, results, a_run):
    save_baseline(results, "nightly", [a_run(run_id="before")])
    later = a_run(run_id="later", created=datetime.now(UTC) + timedelta(seconds=1))
    (results / "later").mkdir()
    (results / "later" / "record.json").write_text(later.text())
    (results / "before").mkdir()
    (results / "before" / "record.json").write_text(a_run(run_id="before", tier="dev").text())
    outcome = mlbench("regress", "--baseline", "nightly", "--json")
    assert outcome.exit_code == 0, outcome.output
    assert len(json.loads(outcome.stdout)["cells"][0]["speeds"][0]["new"]) == 1


def assert_refused(outcome, told, status=2):
    assert outcome.exit_code == status, outcome.output
    assert len(outcome.stderr.strip().splitlines()) == 1
    assert told in outcome.stderr


def test_bad_input_gets_one_line(mlbench, old, tmp_path, store):
    (tmp_path / "empty").mkdir()
    assert_refused(mlbench("regress", old, "--baseline", "nope"), "unknown baseline 'nope'; known are: none.")
    assert_refused(mlbench("compare", old, tmp_path / "empty"), "no runs in")
    assert_refused(mlbench("compare", old, "nothing"), "Nor is it a folder, a baseline or a tag.")
    assert_refused(mlbench("compare", old, old, "--across", "colour"), "unknown fact 'colour'")
    assert_refused(mlbench("compare", old, old, "--margin", "2"), "--margin")
    assert_refused(mlbench("baseline", "save", "../x", old), "baseline name '../x'")
    assert_refused(mlbench("compare", old, store("other", [1], tier="dev")), "tier differs: smoke, then dev", status=1)
    mlbench("baseline", "save", "nightly", old)
    assert_refused(
        mlbench("regress", old, "--baseline", "nightly", "--junit", tmp_path / "nowhere" / "j.xml"),
        "file cannot be written",
    )


def test_a_record_of_a_newer_format_is_refused(mlbench, old):
    file = next(old.iterdir()) / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 99}))
    assert_refused(mlbench("compare", old, old), "run folder of format 99")


def test_a_corrupt_baseline_is_refused(mlbench, old, results):
    mlbench("baseline", "save", "nightly", old)
    (results / ".baselines" / "nightly.json").write_text('{"format": 2}')
    assert_refused(mlbench("regress", old, "--baseline", "nightly"), "baseline 'nightly' cannot be read")
