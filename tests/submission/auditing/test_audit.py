"""``mlbench audit`` under real LoadGen: what the tests send, keep and say. No speed is asserted."""

import json
import re
import shutil
from pathlib import Path

import pytest

from mlbench.rules.compliance import AuditComparison
from mlbench.submission.auditing.files import edited_files
from mlbench.submission.auditing.verdicts import AuditVerdict

pytestmark = pytest.mark.slow

NORMAL, TEST05 = 3066443479025735752, 16799458546791641818


@pytest.fixture
def made(audited):
    return audited.made


def effective(verdict):
    """Return the settings that LoadGen used, by its detail log."""
    text = (Path(verdict["folder"]) / "performance/mlperf_log_detail.txt").read_text()
    return dict(re.findall(r'"key": "effective_(\w+)", "value": ("?\w+"?),', text))


def test_the_exit_status_says_whether_all_tests_pass(audited):
    assert audited.found["passed"] is all(each["passed"] for each in audited.found["made"]) is (audited.status == 0)


def test_each_test_runs_under_its_official_configuration(made):
    assert effective(made["TEST01"])["accuracy_log_rng_seed"] == "720381539243781796"
    assert effective(made["TEST01"])["accuracy_log_sampling_target"] == "4096"
    repeated = effective(made["TEST04"])
    assert (repeated["performance_issue_same"], repeated["performance_issue_same_index"]) == ("true", "3")
    seeds = {test: int(effective(verdict)["qsl_rng_seed"]) for test, verdict in made.items()}
    assert seeds == {"TEST01": NORMAL, "TEST04": NORMAL, "TEST05": TEST05}


def test_the_configuration_is_gone_afterwards(audited, made):
    assert not any(name.startswith("mlbench-audit-") or name == "audit.config" for name in audited.left)
    assert not any(list(Path(verdict["folder"]).rglob("audit.config")) for verdict in made.values())


def test_equal_replies_pass_test01_and_enough_were_logged(made):
    assert made["TEST01"]["replies"]["passed"], made["TEST01"]["replies"]["findings"]
    assert made["TEST01"]["replies"]["official_passed"]


def test_the_files_say_what_the_verdict_says(made):
    for test, verdict in made.items():
        text = (Path(verdict["folder"]) / test / "verify_performance.txt").read_text()
        assert ("TEST PASS" in text) is (verdict["performance"]["passed"] and not verdict["problems"])
        assert f"test score = {verdict['performance']['measured']:.12g}\n" in text
    folder = Path(made["TEST01"]["folder"]) / "TEST01"
    assert (folder / "verify_accuracy.txt").read_text().endswith("TEST PASS\n")
    assert re.fullmatch(r"hash=[0-9a-f]{64}\n", (folder / "accuracy/accuracy.txt").read_text())


def test_no_test_is_taken_for_a_result(made, mlbench, audited):
    listed = mlbench("table").stdout
    assert audited.folder.name[-4:] in listed
    assert not any(verdict["run_id"][-4:] in listed for verdict in made.values())


def test_a_test_runs_the_engine_as_the_run_did(made, audited):
    own = {"load.target_qps", "execution.instances", "execution.batch"}
    settings = audited.record["settings"]
    for verdict in made.values():
        record = json.loads((Path(verdict["folder"]) / "record.json").read_text())
        differing = {key for key, each in record["settings"].items() if each["value"] != settings[key]["value"]}
        assert differing <= own
        assert record["audit"] == {"test": verdict["test"], "of": audited.folder.name}
        assert record["tag"] == f"audit-{verdict['test']}"


def test_a_plan_runs_nothing_and_shows_all_that_were_made(made, mlbench, audited):
    planned = json.loads(mlbench("audit", audited.folder.name, "--test", "TEST04", "--plan", "--json").stdout)
    assert [each["test"] for each in planned["tests"]] == ["TEST04"]
    assert [each["run_id"] for each in planned["earlier"]] == [each["run_id"] for each in made.values()]


def test_edited_logs_are_refused(audited, mlbench, tmp_path):
    copied = shutil.copytree(audited.folder, tmp_path / audited.folder.name)
    log = copied / "performance/mlperf_log_detail.txt"
    log.write_text(re.sub(r'("early_stopping_latency_ss", "value": )\d+', r"\g<1>7", log.read_text()))
    done = mlbench("audit", copied, "--test", "TEST01")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "differs from its logs" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_test_is_given_again_by_its_logs(made, mlbench):
    for test, verdict in made.items():
        done = mlbench("verify", verdict["folder"])
        assert done.exit_code == 0, (test, done.stdout)


@pytest.mark.parametrize("test", ["TEST04", "TEST05"])
def test_files_for_a_submission_that_were_edited_are_named(made, tmp_path, test):
    """A build takes these files. Their logs, a tenth here, are copies of those that have digests."""
    found = made[test]
    folder = Path(shutil.copytree(found["folder"], tmp_path / test))
    names = {"test", "run_id", "repeat", "problems", "official_passed"}
    performance = AuditComparison(**found["performance"])
    verdict = AuditVerdict(folder=folder, performance=performance, **{name: found[name] for name in names})
    assert edited_files(verdict) == []
    log = folder / test / "performance/run_1/mlperf_log_detail.txt"
    log.write_text(re.sub(r'("result_[^"]*latency_ns", "value": \d+)\d,', r"\1,", log.read_text()))
    (folder / test / "verify_accuracy.txt").write_text("TEST PASS\n")
    assert edited_files(verdict) == ["performance/run_1/mlperf_log_detail.txt", "verify_accuracy.txt"]
