"""Which runs ``table`` and ``show`` print."""

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from invoking import invoke

from mlbench.cli import main

RUNS = (
    ("0000", {"backend": "pytorch", "tag": "before"}),
    ("0001", {"backend": "onnxruntime", "tag": "before"}),
    ("0002", {"backend": "pytorch", "tag": "after", "tier": "dev"}),
    ("0003", {"backend": "pytorch", "workload": "bert"}),
)


@pytest.fixture
def show(a_run, tmp_path):
    """Store the runs, and return a function that gives the ids that ``show --json`` prints, without their dates."""
    for day, (ending, facts) in enumerate(RUNS, 1):
        run = a_run(run_id=f"2026110{day}T000000Z-{ending}", created=datetime(2026, 11, day, tzinfo=UTC), **facts)
        (tmp_path / run.run_id).mkdir()
        (tmp_path / run.run_id / "record.json").write_text(run.text())

    def ids(*arguments):
        done = invoke("show", *arguments, "--json", "--results", tmp_path)
        if done.exit_code:
            return done.exit_code, done.stderr
        found = json.loads(done.stdout)
        return [run["run_id"][-4:] for run in (found if isinstance(found, list) else [found])]

    ids.results = tmp_path
    return ids


def test_a_tag_stands_for_its_runs_and_a_run_named_twice_is_shown_once(show):
    assert show("before") == ["0000", "0001"]
    assert show("before", "0001", "0002") == ["0000", "0001", "0002"]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--backend", "onnxruntime"], ["0001"]),
        (["--tier", "dev"], ["0002"]),
        (["--workload", "resnet50", "--newest", "2"], ["0001", "0002"]),
        (["--newest", "9"], ["0000", "0001", "0002", "0003"]),
    ],
)
def test_filters_leave_the_runs_that_fit_all_of_them(show, arguments, shown):
    assert show(str(show.results), *arguments) == shown


def test_no_run_that_fits_is_said_with_what_was_asked_for(show):
    asked = show("before", "--backend", "tensorrt")
    assert asked == (2, "Error: none of 2 runs has backend 'tensorrt'. `mlbench table` lists all.\n")


def test_table_takes_the_same(show):
    options = ["--newest", "1", "--results", str(show.results)]
    done = CliRunner(env={"COLUMNS": "120"}).invoke(main, ["table", "before", *options])
    assert done.output.count("samples/s") == 1 and "onnxruntime" in done.output
