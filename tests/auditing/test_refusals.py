"""Runs that cannot be audited: one line, exit status 2, and no test is made."""

import json
import shutil

import pytest
from click.testing import CliRunner

from mlbench.cli import main


@pytest.fixture
def refused(one_run, tmp_path):
    """Return a function that audits a run of tier valid with changes to its record, and returns what it prints."""

    def refused(changes, *options):
        folder = shutil.copytree(one_run, tmp_path / "results" / one_run.name)
        file = folder / "record.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"tier": "valid"} | changes))
        done = CliRunner().invoke(main, ["audit", str(folder), *options])
        assert done.exit_code == 2, done.output
        assert done.stdout == ""
        assert len(done.stderr.strip().splitlines()) == 1
        assert not (folder.parent / ".audits").exists()
        return done.stderr

    return refused


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tier": "smoke"}, "is of tier smoke"),
        ({"tier": "dev"}, "is of tier dev"),
        ({"accuracy": None}, "has no accuracy test"),
        ({"audit": {"test": "TEST04", "of": "another"}}, "is itself TEST04 of another"),
    ],
    ids=["of smoke", "of dev", "without accuracy", "a test itself"],
)
def test_a_run_that_cannot_be_audited_is_refused(refused, changes, reason):
    assert reason in refused(changes, "--test", "TEST01")


def test_an_invalid_run_is_refused_with_the_rules_of_its_performance(refused, one_run):
    verdict = json.loads((one_run / "record.json").read_text())["verdict"]
    broken = [each | {"passed": each["rule"] != "min_queries" and each["passed"]} for each in verdict["rules"]]
    assert "is INVALID by min_queries." in refused({"verdict": verdict | {"is_valid": False, "rules": broken}})


def test_a_run_that_owes_none_and_a_test_that_does_not_fit_are_refused(refused):
    assert "gptj owes no compliance test at v4.1" in refused({"workload": "gptj"})


def test_the_test_of_tokens_is_refused_where_there_are_none(refused):
    assert "TEST06 is about tokens" in refused({}, "--test", "TEST06")


def test_logs_that_are_not_the_records_are_refused(refused):
    assert "is not what its logs say" in refused({}, "--test", "TEST01")
