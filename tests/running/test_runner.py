"""Whole runs, as the command line makes them: real LoadGen, a process of its own, a stored record."""

import re

import psutil
import pytest
from invoking import refusal

from mlbench import EngineStatistics, RuntimeFacts
from mlbench.records.run_record import read

pytestmark = pytest.mark.slow

WHOLE = {"load.stall_timeout_s": 60, "load.min_duration_ms": 2000}


def sound(record):
    """Return whether the replies of a run were found sound."""
    (rule,) = (rule for rule in record.verdict.rules if rule.rule == "replies_sound")
    return rule.passed


@pytest.mark.thorough("engines")
def test_what_an_engine_says_of_itself_and_no_record_can_hold_costs_no_result_nor_its_processor_time(faulty_run):
    record, _ = faulty_run("odd", exit_code=None, **WHOLE)
    assert (record.status, sound(record)) == ("completed", True)
    assert (record.processor_time.unit, record.processor_time.covers) == ("sample", "all")
    assert record.stages_ns["processor time"] > 0
    assert record.engine == EngineStatistics(extra={"sizes": {"8": 3}})
    assert record.runtime == RuntimeFacts(device="cpu", extra={"threads": 4})
    missing = record.not_measured
    assert missing["engine"] == "not all can be stored: rate is nan; when is a builtin_function_or_method"
    assert missing["runtime"] == "not all can be stored: handle is a object"
    assert missing["work"] == "RuntimeError: not counted"


@pytest.mark.thorough("engines")
def test_a_crash_while_processor_time_is_counted_costs_no_result(faulty_run):
    record, _ = faulty_run("sociable", exit_code=None, **WHOLE)
    assert (record.status, sound(record), record.processor_time) == ("completed", True, None)
    assert record.not_measured["processor_time"] == "it could not be counted: crash"


def test_a_forged_outcome_is_log_text(faulty_run, tmp_path):
    record, _ = faulty_run("forge")
    assert (record.status, sound(record)) == ("completed", True)
    assert record.result.value != 1e9
    (log,) = tmp_path.glob("results/*/log.txt")
    assert b'"value": 1000000000.0' in log.read_bytes()


@pytest.mark.thorough("engines")
def test_a_byte_in_an_error_that_is_no_text_costs_no_run(faulty_run):
    record, printed = faulty_run("misspell", **{"load.stall_timeout_s": 60})
    assert (record.status, record.verdict.is_valid) == ("completed", False)
    assert "RuntimeError: no file na" in printed


@pytest.mark.thorough("engines")
def test_what_an_engine_started_in_a_session_of_its_own_ends_with_the_run(faulty_run, tmp_path):
    faulty_run("haunt")
    ghosts = [int(file.name.removeprefix("ghost-")) for file in tmp_path.glob("ghost-*")]
    assert ghosts
    assert [pid for pid in ghosts if psutil.pid_exists(pid)] == []


@pytest.mark.thorough("engines")
def test_a_backend_that_floods_its_log_is_measured_and_the_middle_of_the_log_is_left_out(
    faulty_run, tmp_path, monkeypatch
):
    monkeypatch.setattr("mlbench.execution.processes.bounded_log.MOST_BYTES", 2**20)
    monkeypatch.setattr("mlbench.execution.processes.bounded_log.KEPT_BYTES", 2**19)
    record, _ = faulty_run("flooding", exit_code=None)
    assert record.status == "completed"
    log = tmp_path / "results" / record.run_id / "log.txt"
    assert log.stat().st_size < 2**20
    text = log.read_text()
    assert re.search(r"\(a log contains 1 MiB: \d+\.\d MiB are left out here\)", text)
    assert text.startswith("nothing to say")
    assert "the last word" in text


def raise_an_error(*arguments):
    raise RuntimeError("what nobody thought of")


@pytest.fixture
def null_run(mlbench, tmp_path):
    """Measure the null backend, and return what was printed and the record."""

    def null_run():
        asked = "--backend null --scenario Offline --no-accuracy --set load.min_duration_ms=50"
        done = mlbench("run", "resnet50", *asked.split())
        (folder,) = (tmp_path / "results").iterdir()
        return done, read(folder)

    return null_run


def test_a_record_says_what_each_stage_took(null_run):
    _, record = null_run()
    begun = [stage for stage in record.stages_ns if stage in ("start", "load", "compile", "warm-up", "performance")]
    assert begun == ["start", "load", "compile", "warm-up", "performance"]
    assert record.stages_ns["performance"] >= 50e6
    assert sum(record.stages_ns.values()) <= record.duration_ns


def test_a_record_that_cannot_be_made_is_a_failure_with_the_logs(null_run, monkeypatch, tmp_path):
    monkeypatch.setattr("mlbench.running.started_run.StartedRun._roofline", raise_an_error)
    done, record = null_run()
    assert (done.exit_code, record.status, record.failure.stage) == (1, "failed", "record")
    assert record.failure.message.endswith("its record cannot be made: RuntimeError: what nobody thought of")
    assert "Traceback" in record.failure.log_tail
    assert [*tmp_path.glob("results/*/performance/mlperf_log_summary.txt")]


def test_what_fails_after_a_run_costs_its_own_part_alone(null_run, monkeypatch):
    seen = []

    def observe_once(*arguments):
        seen.append(1)
        return raise_an_error() if len(seen) > 1 else environment

    from mlbench.records.environment import observe_environment

    environment = observe_environment()
    monkeypatch.setattr("mlbench.running.started_run.observe_environment", observe_once)
    monkeypatch.setattr("mlbench.running.started_run.share_of", raise_an_error)
    monkeypatch.setattr("mlbench.cli.progress.FollowedRun.on_progress", raise_an_error)

    done, record = null_run()
    assert (done.exit_code, record.status) == (1, "completed"), "too short to be valid"
    assert record.not_measured["roofline"] == "RuntimeError: what nobody thought of"
    assert record.environment == environment


@pytest.mark.thorough("engines")
@pytest.mark.parametrize("scenario", ["SingleStream", "Offline"])
def test_a_test_that_ran_out_of_samples_is_made_again_at_the_pace_it_showed(faulty_run, scenario):
    record, _ = faulty_run("sluggish", scenario, exit_code=0, **WHOLE)
    rules = {result.rule: result.passed for result in record.verdict.rules}
    assert rules["min_duration"]


@pytest.mark.thorough("engines")
def test_a_hint_that_the_user_gave_is_kept_although_samples_run_out(faulty_run):
    record, printed = faulty_run("sluggish", "Offline", **WHOLE, **{"load.target_qps": 100})
    assert record.load["target_qps"] == 100
    assert "Raise load.target_qps from 100 to at least" in printed


@pytest.mark.parametrize(
    ("backend", "scenario", "told"),
    [
        ("fail", "SingleStream", "sample 7: failed: RuntimeError: unsupported operator"),
        *(
            pytest.param(*each, marks=pytest.mark.thorough("engines"))  # other tests have these without a run
            for each in [
                ("lose", "Server", "sample 7: failed: no reply within"),
                ("nan", "SingleStream", "sample 7: NaN in the reply"),
                ("twice", "SingleStream", "sample 7: answered twice, or never asked"),
                ("count_in_floats", "Offline", "token count is a float, expected an integer"),
                ("empty_samples", "SingleStream", "'tuple' object has no attribute 'clear'"),
                ("exit_in_submit", "SingleStream", "sample 7: failed: SystemExit: 0"),
            ]
        ),
    ],
)
def test_an_unsound_reply_while_measuring_makes_the_run_invalid_and_names_the_sample(
    faulty_run, backend, scenario, told
):
    given = {"load.target_qps": 200} if scenario == "Server" else {}  # one that is given is not looked for
    record, printed = faulty_run(backend, scenario, **given)
    assert record.status == "completed"
    assert not record.verdict.is_valid
    (rule,) = (rule for rule in record.verdict.rules if rule.rule == "replies_sound")
    assert not rule.passed
    assert told in printed


def test_a_reply_that_the_metric_cannot_score_makes_the_run_invalid_and_is_named(with_faulty, tmp_path):
    """Such a run is stored like any other: its speed counts for nothing, and why can be read."""
    patient = {"load.stall_timeout_s": 60}  # it is not about a hang, and a busy machine makes one of 3 s
    done = with_faulty("run", "unscorable", "--backend", "null", "--scenario", "SingleStream", **patient)
    assert done.exit_code == 1, done.output
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert (record.status, record.verdict.is_valid, record.verdict.is_accurate) == ("completed", False, None)
    assert record.verdict.not_applied["accuracy"] == "a reply cannot be scored"
    (rule,) = (rule for rule in record.verdict.rules if rule.rule == "replies_sound")
    assert (rule.measured, rule.passed) == (1, False)
    assert "the reply to sample 7 is 0, not a label. (in the scoring)" in rule.fix
    assert rule.fix in done.stderr


def test_a_combination_that_the_rules_do_not_define_is_refused_where_nothing_else_was_asked_for(mlbench):
    line = refusal(mlbench("run", "bert", "--backend", "null", "--scenario", "MultiStream", "--json"))
    assert "bert MultiStream: the rules do not define this combination. `mlbench list` prints" in line
