"""``mlbench audit`` under real LoadGen: what the tests send, keep and say. No speed is asserted."""

import json
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlbench.cli import main

NORMAL, TEST05 = 3066443479025735752, 16799458546791641818


@pytest.fixture(scope="module")
def results(installed):
    return Path(installed["MLBENCH_RESULTS"])


@pytest.fixture(scope="module")
def made(mlbench, audited):
    """Return what an audit says of three tests, by test."""
    tests = [word for test in ("TEST01", "TEST04", "TEST05") for word in ("--test", test)]
    done = mlbench("audit", audited["run_id"], *tests, "--json")
    assert done.returncode in {0, 1}, done.stderr
    found = json.loads(done.stdout)
    assert found["passed"] is all(each["passed"] for each in found["made"]) is (done.returncode == 0)
    return {each["test"]: each for each in found["made"]}


def effective(verdict):
    """Return the settings that LoadGen used, by its detail log."""
    text = (Path(verdict["folder"]) / "performance/mlperf_log_detail.txt").read_text()
    return dict(re.findall(r'"key": "effective_(\w+)", "value": ("?\w+"?),', text))


def test_each_test_runs_under_its_official_configuration(made):
    assert effective(made["TEST01"])["accuracy_log_rng_seed"] == "720381539243781796"
    assert effective(made["TEST01"])["accuracy_log_sampling_target"] == "4096"
    repeated = effective(made["TEST04"])
    assert (repeated["performance_issue_same"], repeated["performance_issue_same_index"]) == ("true", "3")
    seeds = {test: int(effective(verdict)["qsl_rng_seed"]) for test, verdict in made.items()}
    assert seeds == {"TEST01": NORMAL, "TEST04": NORMAL, "TEST05": TEST05}


def test_the_configuration_is_gone_afterwards(made):
    assert list(Path(tempfile.gettempdir()).glob("mlbench-audit-*")) == []
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
    assert audited["run_id"][-4:] in listed
    assert not any(verdict["run_id"][-4:] in listed for verdict in made.values())


def test_a_test_runs_the_engine_as_the_run_did(made, audited):
    own = {"load.target_qps", "execution.instances", "execution.batch"}
    for verdict in made.values():
        record = json.loads((Path(verdict["folder"]) / "record.json").read_text())
        differing = {
            key for key, each in record["settings"].items() if each["value"] != audited["settings"][key]["value"]
        }
        assert differing <= own
        assert record["audit"] == {"test": verdict["test"], "of": audited["run_id"]}
        assert record["tag"] == f"audit-{verdict['test']}"


def test_a_plan_runs_nothing_and_shows_all_that_were_made(made, mlbench, audited):
    planned = json.loads(mlbench("audit", audited["run_id"], "--test", "TEST04", "--plan", "--json").stdout)
    assert [each["test"] for each in planned["tests"]] == ["TEST04"]
    assert [each["run_id"] for each in planned["earlier"]] == [each["run_id"] for each in made.values()]


@pytest.fixture
def tampered(made, results):
    """Return a function that changes a log of a test; it is put back afterwards."""
    kept = []

    def tamper(test, log, change):
        file = Path(made[test]["folder"]) / "performance" / log
        kept.append((file, file.read_bytes()))
        file.write_text(change(file.read_text()))

    yield tamper
    for file, content in kept:
        file.write_bytes(content)


def test_replies_whose_first_byte_alone_is_right_pass_the_official_script_and_not_ours(
    made, tampered, mlbench, audited
):
    wrong = '"data" : "0000803f'  # 1.0 for 0.0: the lowest byte of both is 0

    def change(text):
        changed = re.sub(r'"data" : "00000000', wrong, text)
        assert changed != text
        return changed

    tampered("TEST01", "mlperf_log_accuracy.json", change)
    planned = json.loads(mlbench("audit", audited["run_id"], "--test", "TEST01", "--plan", "--json").stdout)
    (found,) = [each for each in planned["earlier"] if each["test"] == "TEST01"]
    assert (found["replies"]["official_passed"], found["replies"]["passed"]) == (True, False)


def test_a_test_under_other_seeds_does_not_pass(made, tampered, mlbench, audited):
    tampered("TEST05", "mlperf_log_detail.txt", lambda text: text.replace(str(TEST05), str(NORMAL)))
    planned = json.loads(mlbench("audit", audited["run_id"], "--test", "TEST05", "--plan", "--json").stdout)
    (found,) = [each for each in planned["earlier"] if each["test"] == "TEST05"]
    assert not found["passed"]
    assert f"effective_qsl_rng_seed is {NORMAL}, not {TEST05}" in found["problems"]


@pytest.fixture
def copied(results, audited, tmp_path):
    """Return a copy of the run, whose record and logs may be changed."""
    return shutil.copytree(results / audited["run_id"], tmp_path / audited["run_id"])


def edit_record(folder, **changes):
    file = folder / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def is_refused(done, reason):
    """Whether a command ended with one line that holds a reason, a hint perhaps, and exit status 2."""
    return done.returncode == 2 and done.stdout == "" and reason in done.stderr and "Traceback" not in done.stderr


def test_edited_logs_are_refused(copied, mlbench):
    log = copied / "performance/mlperf_log_detail.txt"
    log.write_text(re.sub(r'("early_stopping_latency_ss", "value": )\d+', r"\g<1>7", log.read_text()))
    assert is_refused(mlbench("audit", copied, "--test", "TEST01"), "is not what its logs say")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tier": "dev"}, "is of tier dev"),
        ({"accuracy": None}, "has no accuracy test"),
        ({"audit": {"test": "TEST04", "of": "another"}}, "is itself TEST04 of another"),
    ],
    ids=["of another tier", "without accuracy", "a test itself"],
)
def test_a_run_that_cannot_be_audited_is_refused(copied, mlbench, changes, reason):
    edit_record(copied, **changes)
    assert is_refused(mlbench("audit", copied, "--test", "TEST01"), reason)
    assert not (copied.parent / ".audits").exists()


def test_an_invalid_run_is_refused_with_the_rule(copied, mlbench, audited):
    edit_record(copied, verdict=audited["verdict"] | {"is_valid": False})
    assert is_refused(mlbench("audit", copied, "--test", "TEST01"), "is INVALID")


def test_a_run_that_owes_none_and_a_test_that_does_not_fit_are_refused(mlbench, audited):
    assert is_refused(mlbench("audit", audited["run_id"]), "owes no compliance test")
    assert is_refused(mlbench("audit", audited["run_id"], "--test", "TEST06"), "TEST06 is about tokens")


def test_a_run_of_smoke_is_refused(one_run):
    done = CliRunner().invoke(main, ["audit", str(one_run)])
    assert done.exit_code == 2
    assert "is of tier smoke" in done.output
