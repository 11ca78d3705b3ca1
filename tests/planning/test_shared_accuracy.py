"""Runs of a command that share an accuracy test: what their records say, and that `verify` holds them to it."""

import json
import re
import shutil

import pytest
from invoking import invoke

from mlbench.records.run_record import read

pytestmark = pytest.mark.slow


def verify(folder):
    return invoke("verify", folder)


@pytest.fixture(scope="module")
def shared_test(tmp_path_factory):
    """Return the folders of two runs of one command, SingleStream and Offline, on a backend that is accurate."""
    results = tmp_path_factory.mktemp("runs")
    asked = [part for name in ("SingleStream", "Offline") for part in ("--scenario", name)]
    few = {"load.min_duration_ms": 50, "load.min_query_count": 20, "execution.batch": 8}
    short = ["--power", "none", *(word for key, value in few.items() for word in ("--set", f"{key}={value}"))]
    done = invoke("run", "resnet50", "--backend", "pytorch", *asked, *short, "--results", results)
    assert " (shared)" in done.stdout, done.output
    return sorted(results.iterdir())


def test_in_smoke_an_engine_is_tested_once_and_each_run_says_whose_test_it_has(shared_test):
    first, second = map(read, shared_test)
    assert (first.accuracy.tested_in, second.accuracy.tested_in) == ("", first.run_id)
    assert second.accuracy.scores == first.accuracy.scores
    assert first.accuracy.scores["acc"] >= 97
    assert second.accuracy.output_difference == first.accuracy.output_difference
    assert (first.verdict.is_accurate, second.verdict.is_accurate) == (True, True)
    assert "accuracy" in first.stages_ns and "accuracy" not in second.stages_ns


def test_replies_are_held_to_the_shared_test(shared_test):
    for record in map(read, shared_test):
        (rule,) = (rule for rule in record.verdict.rules if rule.rule == "replies_agree")
        assert rule.passed


@pytest.mark.thorough("command line")
def test_a_run_with_a_shared_test_is_verified_in_its_own_folder(shared_test):
    done = verify(shared_test[1])
    assert done.exit_code == 0, done.output


@pytest.mark.thorough("command line", but=["another score"])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda record, first: record["accuracy"].update(tested_in=""), "duration_ns|created"),
        (lambda record, first: record["accuracy"].update(tested_in="../" + first), "no run of the same kind"),
        (
            lambda record, first: record["accuracy"].update(tested_in=first.replace("resnet50", "bert")),
            "no run of the same kind",
        ),
        (lambda record, first: record["accuracy"]["scores"].update(acc=99.9), "accuracy.scores.acc"),
    ],
    ids=["its own", "a path", "another workload's", "another score"],
)
def test_a_record_that_claims_another_test_differs(shared_test, tmp_path, change, told):
    first, second = shared_test
    copy = shutil.copytree(second, tmp_path / "runs" / second.name)
    shutil.copytree(first, tmp_path / "runs" / first.name)
    record = json.loads((copy / "record.json").read_text())
    change(record, first.name)
    (copy / "record.json").write_text(json.dumps(record))
    done = verify(copy)
    assert done.exit_code == 1, done.output
    assert re.search(told, done.output)


def test_logs_that_are_not_those_of_the_named_run_differ(shared_test, tmp_path):
    first, second = shared_test
    copy = shutil.copytree(second, tmp_path / "runs" / second.name)
    other = shutil.copytree(first, tmp_path / "runs" / first.name)
    log = other / "accuracy" / "mlperf_log_accuracy.json"
    log.write_text(log.read_text().replace('"seq_id" : 0,', '"seq_id" : 1,', 1))
    done = verify(copy)
    assert done.exit_code == 1
    assert "whose log of replies is another" in done.output
