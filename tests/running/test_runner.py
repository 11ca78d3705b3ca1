"""Whole runs, as the command line makes them: real LoadGen, a process of its own, a stored record."""

import json
import re
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from mlbench import EngineStatistics, RuntimeFacts
from mlbench.cli import main
from mlbench.records.run_record import RunRecord, read

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).parents[1] / "data" / "faulty_plugin"
QUICK = {"load.stall_timeout_s": 3, "load.min_duration_ms": 100}
WHOLE = {"load.stall_timeout_s": 60, "load.min_duration_ms": 2000}


@pytest.fixture
def mlbench(tmp_path, monkeypatch):
    """Run a command line with its results in a folder of this test."""
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))
    return lambda *arguments: CliRunner().invoke(main, arguments)


@pytest.fixture
def faulty_run(mlbench, tmp_path, monkeypatch):
    """Run a backend of the faulty plugin, and return its record and what was printed."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))

    def faulty_run(backend, scenario="SingleStream", exit_code=1, **settings):
        given = [f"{key}={value}" for key, value in {**QUICK, **settings}.items()]
        arguments = [argument for setting in given for argument in ("--set", setting)]
        done = mlbench(
            "run", "resnet50", "--backend", backend, "--scenario", scenario, "--no-accuracy", "--json", *arguments
        )
        assert exit_code is None or done.exit_code == exit_code, done.output
        (folder,) = (tmp_path / "results").iterdir()
        record = read(folder)
        assert json.loads(done.stdout)[0]["run_id"] == record.run_id == folder.name
        return record, done.stderr

    return faulty_run


def test_a_crash_is_stored_as_a_crash_with_the_end_of_its_log(faulty_run):
    record, printed = faulty_run("crash")
    assert record.failure.kind == "crash"
    assert record.failure.message == "the process was ended by SIGSEGV"
    assert record.failure.stage == "performance"
    assert "no more registers" in record.failure.log_tail
    assert "crash: the process was ended by SIGSEGV" in printed


def test_a_process_that_leaves_is_stored_as_that(faulty_run):
    record, _ = faulty_run("leave")
    assert (record.failure.kind, "status 3" in record.failure.message) == ("exit", True)


def test_an_engine_that_does_not_return_is_a_hang_and_the_sample_is_named(faulty_run):
    record, _ = faulty_run("hang")
    assert record.failure.kind == "hang"
    assert "sample 7: failed: no reply within" in record.failure.message
    assert "in hang" in record.failure.log_tail, "the stack of every thread is in the log"


@pytest.mark.parametrize(
    ("backend", "scenario", "call"),
    [
        pytest.param("dwell", "SingleStream", "submit", marks=pytest.mark.thorough("engines")),
        pytest.param("dwell", "Server", "submit", marks=pytest.mark.thorough("engines")),
        ("never_flushing", "Offline", "flush"),
    ],
)
def test_an_engine_that_answers_all_and_does_not_return_is_a_hang(faulty_run, backend, scenario, call):
    record, printed = faulty_run(backend, scenario, **{"load.stall_timeout_s": 2, "load.target_qps": 200})
    assert record.failure.kind == "hang"
    assert record.failure.message == f"the engine does not return from {call}: every sample was answered"
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("backend", "stage"),
    [
        pytest.param("hold_the_interpreter", "performance", marks=pytest.mark.thorough("engines")),
        ("never_closing", "close the engine"),
    ],
)
def test_what_outlasts_the_stage_timeout_is_a_hang_in_the_stage_where_it_happened(faulty_run, backend, stage):
    record, _ = faulty_run(backend, **{"load.stage_timeout_s": 20, "load.stall_timeout_s": 2})
    assert (record.failure.kind, record.failure.stage) == ("hang", stage)
    assert record.failure.message.startswith("no sign of life for ")


def test_a_warm_up_that_waits_is_a_hang_long_before_one_that_works(faulty_run):
    record, _ = faulty_run("never_ready", **{"load.stall_timeout_s": 2})
    assert (record.failure.kind, record.failure.stage) == ("hang", "warm-up")
    assert record.failure.message.startswith("no sign of life for 1")


def test_a_thread_that_outlives_its_engine_neither_holds_up_nor_costs_a_run(faulty_run):
    record, _ = faulty_run("never_leaving", exit_code=None)
    assert (record.status, record.failure) == ("completed", None)


def test_a_graph_that_a_backend_lacks_an_operator_for_is_stored_as_unsupported(faulty_run):
    record, printed = faulty_run("lacking")
    assert (record.status, record.failure.kind) == ("failed", "unsupported")
    assert record.failure.message.endswith("operator Det. Use fp32.")
    assert record.failure.message in printed
    assert "Traceback" not in printed


def test_a_run_that_outgrows_its_memory_is_stored_as_out_of_memory(faulty_run):
    record, _ = faulty_run("fill_memory", **{"load.memory_limit_gib": 1.0, "load.stall_timeout_s": 60})
    assert record.failure.kind == "out of memory"


def sound(record):
    """Return whether the replies of a run were found sound."""
    (rule,) = (rule for rule in record.verdict.rules if rule.rule == "replies_sound")
    return rule.passed


def test_what_an_engine_says_of_itself_and_no_record_can_hold_costs_no_result(faulty_run):
    record, _ = faulty_run("odd")
    assert (record.status, sound(record)) == ("completed", True)
    assert record.engine == EngineStatistics(extra={"sizes": {"8": 3}})
    assert record.runtime == RuntimeFacts(device="cpu", extra={"threads": 4})
    missing = record.not_measured
    assert missing["engine"] == "not all can be stored: rate is nan; when is a builtin_function_or_method"
    assert missing["runtime"] == "not all can be stored: handle is a object"
    assert missing["work"] == "RuntimeError: not counted"


def test_a_forged_outcome_is_log_text(faulty_run, tmp_path):
    record, _ = faulty_run("forge")
    assert (record.status, sound(record)) == ("completed", True)
    assert record.result.value != 1e9
    (log,) = tmp_path.glob("results/*/log.txt")
    assert b'"value": 1000000000.0' in log.read_bytes()


def test_a_byte_in_an_error_that_is_no_text_costs_no_run(faulty_run):
    record, printed = faulty_run("misspell", **WHOLE)
    assert (record.status, record.verdict.is_valid) == ("completed", False)
    assert "RuntimeError: no file na" in printed


def test_what_an_engine_started_in_a_session_of_its_own_ends_with_the_run(faulty_run, tmp_path):
    faulty_run("haunt")
    ghosts = [int(file.name.removeprefix("ghost-")) for file in tmp_path.glob("ghost-*")]
    assert ghosts
    assert [pid for pid in ghosts if psutil.pid_exists(pid)] == []


def test_a_file_that_is_missed_after_measuring_makes_a_failed_run(with_faulty, tmp_path):
    settings = [argument for key, value in QUICK.items() for argument in ("--set", f"{key}={value}")]
    done = with_faulty("run", "misplaced", "--backend", "null", "--scenario", "SingleStream", *settings)
    assert done.exit_code == 1
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert (record.status, record.failure.stage) == ("failed", "score")
    assert record.failure.message == "the annotations are gone. Fetch them."


def test_a_damaged_log_of_loadgen_makes_a_failed_run_and_the_next_one_is_made(with_faulty, tmp_path):
    done = with_faulty(*faulty_arguments("scribble", "odd"))
    assert done.exit_code == 1, done.output
    damaged, odd = sorted(map(read, (tmp_path / "results").iterdir()), key=lambda record: record.created)
    assert (damaged.status, damaged.failure.kind, damaged.failure.stage) == ("failed", "exception", "performance")
    assert damaged.failure.message.startswith("corrupt LoadGen log: line ")
    assert odd.status == "completed"


def faulty_arguments(*backends, scenario="SingleStream"):
    """Return a command line that measures backends of the faulty plugin for a moment."""
    settings = [argument for key, value in QUICK.items() for argument in ("--set", f"{key}={value}")]
    named = [argument for backend in backends for argument in ("--backend", backend)]
    return ["run", "resnet50", *named, "--scenario", scenario, "--no-accuracy", *settings]


@pytest.fixture
def with_faulty(mlbench, monkeypatch):
    """Run a command line with the faulty plugin installed."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    return mlbench


def test_an_engine_that_never_answers_is_a_failed_run_and_the_next_one_is_made(with_faulty, tmp_path):
    (tmp_path / "results" / ".killed.partial").mkdir(parents=True)  # of a run whose process was killed
    done = with_faulty(*faulty_arguments("mute", "odd"))
    assert done.exit_code == 1
    mute, odd = sorted(map(read, (tmp_path / "results").iterdir()), key=lambda record: record.created)
    assert (mute.status, mute.failure.kind) == ("failed", "exception")
    assert "unanswered after 3 s of warm-up" in mute.failure.message
    assert "Traceback" in mute.failure.log_tail
    assert odd.status == "completed"


@pytest.mark.parametrize(
    ("place", "stage", "message"),
    [
        ("enter", "compile", "shard 3 of 5 is gone. Fetch it."),
        ("warm_up", "warm-up", "8 GB are not enough."),
        ("submit", "warm-up", "the licence has expired."),
    ],
)
def test_an_engine_that_refuses_what_its_backend_accepted_is_a_failed_run_and_the_next_one_is_made(
    with_faulty, tmp_path, place, stage, message
):
    done = with_faulty(*faulty_arguments(f"refusing_{place}", "odd"))
    assert done.exit_code == 1, done.output
    refused, odd = sorted(map(read, (tmp_path / "results").iterdir()), key=lambda record: record.created)
    assert (refused.status, refused.failure.stage, odd.status) == ("failed", stage, "completed")
    assert refused.failure.message.endswith(message)


@pytest.mark.parametrize("place", ["enter", "warm_up"])
def test_an_engine_that_refuses_in_an_instance_is_a_failed_run_that_names_the_instance(faulty_run, place):
    record, _ = faulty_run(f"refusing_{place}", "Offline", **{"execution.instances": 2})
    assert record.failure.message.startswith("instance ")
    assert "of 2: " in record.failure.message


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


def test_a_dataset_without_a_length_is_a_failed_run_and_the_next_one_is_made(with_faulty, tmp_path):
    done = with_faulty("run", "uncountable", "resnet50", *faulty_arguments("odd")[2:])
    assert done.exit_code == 1, done.output
    uncountable, odd = sorted(map(read, (tmp_path / "results").iterdir()), key=lambda record: record.created)
    assert (uncountable.status, uncountable.failure.kind, odd.status) == ("failed", "exception", "completed")
    assert uncountable.failure.message == "OverflowError: there is no end to it"


def test_on_a_full_disk_the_record_is_printed_and_the_logs_are_kept(with_faulty, tmp_path):
    done = with_faulty(*faulty_arguments("fill_disk", "odd"), "--json")
    assert done.exit_code == 1
    assert [record["backend"] for record in json.loads(done.stdout)] == ["odd"]
    (printed,) = (line for line in done.stderr.splitlines() if line.startswith("{"))
    record = RunRecord.model_validate_json(printed)
    assert (record.backend, record.status) == ("fill_disk", "completed")
    kept = tmp_path / "results" / f".{record.run_id}.unstored"
    assert (kept / "performance" / "mlperf_log_summary.txt").stat().st_size
    assert f"No space left on device. Its logs are in {kept}." in done.stderr
    assert "Traceback" not in done.stderr


def test_pipes_in_place_of_a_runs_files_block_no_command(with_faulty, tmp_path):
    done = with_faulty(*faulty_arguments("lay_pipes", "odd"), "--json")
    assert done.exit_code == 1
    assert [record["backend"] for record in json.loads(done.stdout)] == ["odd"]
    (printed,) = (line for line in done.stderr.splitlines() if line.startswith("{"))
    record = RunRecord.model_validate_json(printed)
    assert (record.backend, record.status) == ("lay_pipes", "completed")
    assert f"No such device or address. Its logs are in {tmp_path}" in done.stderr


def raise_an_error(*arguments):
    raise RuntimeError("what nobody thought of")


@pytest.fixture
def null_run(mlbench, tmp_path):
    """Measure the null backend, and return what was printed and the record."""

    def null_run():
        done = mlbench("run", "resnet50", *"--backend null --scenario Offline --no-accuracy".split(), *SHORT)
        (folder,) = (tmp_path / "results").iterdir()
        return done, read(folder)

    return null_run


SHORT = ["--set", "load.min_duration_ms=50"]
FEW = ["--set", "load.min_query_count=20", "--set", "execution.batch=8"]
"""With a given batch none is searched."""


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

    from mlbench.records.machine.environment import observe_environment

    environment = observe_environment()
    monkeypatch.setattr("mlbench.running.started_run.observe_environment", observe_once)
    monkeypatch.setattr("mlbench.running.started_run.share_of", raise_an_error)
    monkeypatch.setattr("mlbench.cli.progress.FollowedRun.on_progress", raise_an_error)

    done, record = null_run()
    assert (done.exit_code, record.status) == (1, "completed"), "too short to be valid"
    assert record.not_measured["roofline"] == "RuntimeError: what nobody thought of"
    assert record.environment == environment


@pytest.mark.thorough("engines", but=["SingleStream"])
@pytest.mark.parametrize("scenario", ["SingleStream", "Offline"])
def test_a_test_that_ran_out_of_samples_is_made_again_at_the_pace_it_showed(faulty_run, scenario):
    record, _ = faulty_run("sluggish", scenario, exit_code=0, **WHOLE)
    rules = {result.rule: result.passed for result in record.verdict.rules}
    assert rules["min_duration"]


def test_a_hint_that_the_user_gave_is_kept_although_samples_run_out(faulty_run):
    record, printed = faulty_run("sluggish", "Offline", **WHOLE, **{"load.target_qps": 100})
    assert record.load["target_qps"] == 100
    assert "Raise load.target_qps from 100 to at least" in printed


@pytest.mark.parametrize(
    ("backend", "scenario", "told"),
    [
        ("lose", "Server", "sample 7: failed: no reply within"),
        ("fail", "SingleStream", "sample 7: failed: RuntimeError: unsupported operator"),
        ("nan", "SingleStream", "sample 7: NaN in the reply"),
        ("twice", "SingleStream", "sample 7: answered twice, or never asked"),
        ("count_in_floats", "Offline", "token count is a float, expected an integer"),
        ("empty_samples", "SingleStream", "sample 7: failed: AttributeError: 'tuple' object has no attribute 'clear'"),
        ("exit_in_submit", "SingleStream", "sample 7: failed: SystemExit: 0"),
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


def test_a_reply_that_the_metric_cannot_score_makes_the_run_invalid_and_is_named(mlbench, tmp_path, monkeypatch):
    """Such a run is stored like any other: its speed counts for nothing, and why can be read."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    patient = {**QUICK, "load.stall_timeout_s": 60}  # it is not about a hang, and a busy machine makes one of 3 s
    settings = [argument for key, value in patient.items() for argument in ("--set", f"{key}={value}")]
    done = mlbench("run", "unscorable", "--backend", "null", "--scenario", "SingleStream", *settings)
    assert done.exit_code == 1, done.output
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert (record.status, record.verdict.is_valid, record.verdict.is_accurate) == ("completed", False, None)
    assert record.verdict.not_applied["accuracy"] == "a reply cannot be scored"
    (rule,) = (rule for rule in record.verdict.rules if rule.rule == "replies_sound")
    assert (rule.measured, rule.passed) == (1, False)
    assert "the reply to sample 7 is 0, not a label. (in the scoring)" in rule.fix
    assert rule.fix in done.stderr


MORE = pytest.mark.thorough("workloads")


@pytest.mark.parametrize(
    ("workload", "backend", "scenario", "score", "least"),
    [
        ("resnet50", "onnxruntime", "SingleStream", "acc", 97),
        pytest.param("retinanet", "pytorch", "MultiStream", "mAP", 74, marks=MORE),
        ("bert", "pytorch", "Server", "F1", 85),
        pytest.param("3d-unet", "pytorch", "Offline", "DICE", 0.90, marks=MORE),
        ("dlrm-v2", "pytorch", "Server", "AUC", 81),
        pytest.param("gptj", "pytorch", "Offline", "ROUGE1", 40, marks=MORE),
        pytest.param("llama2-70b", "pytorch", "Offline", "ROUGE1", 90, marks=MORE),
        pytest.param("mixtral-8x7b", "pytorch", "Offline", "ROUGE1", 92, marks=MORE),
        pytest.param("stable-diffusion-xl", "pytorch", "Offline", "DIGIT_RATE", 87, marks=MORE),
        pytest.param("resnet50", "pytorch", "SingleStream", "acc", 97, marks=MORE),
        pytest.param("resnet50", "pytorch", "MultiStream", "acc", 97, marks=MORE),
        pytest.param("resnet50", "onnxruntime", "MultiStream", "acc", 97, marks=MORE),
        pytest.param("bert", "onnxruntime", "Server", "F1", 85, marks=MORE),
    ],
)
def test_a_trained_model_on_a_real_runtime_meets_its_target_under_loadgen(  # noqa: PLR0917 - one per column
    mlbench, tmp_path, workload, backend, scenario, score, least
):
    # as many queries as the tier wants would take half a minute, and longer on a busy machine
    arguments = ["run", workload, "--backend", backend, "--scenario", scenario, "--json", *SHORT, *FEW]
    if scenario == "Server":
        arguments += ["--set", "load.target_qps=10"]
    done = mlbench(*arguments)
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert record.accuracy.scores[score] >= least
    assert record.accuracy.is_met
    rules = {rule.rule: rule for rule in record.verdict.rules}
    # whether a busy machine keeps a latency limit is not for a test to say; that replies are right is
    for name in (
        "replies_sound",
        "replies_agree",
        "reply_difference",
        "loadgen_errors",
        "seeds",
        "performance_sample_count",
    ):
        assert rules[name].passed, rules[name]
    assert done.exit_code == (0 if record.verdict.is_valid else 1)
    assert not record.verdict.is_conformant
    assert record.other_work and 0 <= record.other_work.share <= 1
    # a machine too busy for a number says so instead
    assert (record.overhead_ns_per_sample or 0) > 0 or record.not_measured["overhead"]


@pytest.mark.parametrize(
    ("workload", "scenario"),
    [
        ("retinanet", "MultiStream"),
        ("3d-unet", "SingleStream"),
        ("gptj", "Offline"),
        ("llama2-70b", "Offline"),
        ("mixtral-8x7b", "Offline"),
        ("stable-diffusion-xl", "Offline"),
    ],
)
def test_a_trained_model_is_timed_and_answers_alike_under_loadgen(mlbench, tmp_path, workload, scenario):
    """The workloads whose scores take long; the thorough session has these."""
    asked = ("--scenario", scenario, "--no-accuracy", "--power", "none", *SHORT, *FEW, "--set", "load.target_qps=5")
    done = mlbench("run", workload, "--backend", "pytorch", *asked)
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert (record.status, record.failure) == ("completed", None), done.output
    assert record.result
    rules = {rule.rule: rule for rule in record.verdict.rules}
    assert all(rules[name].passed for name in ("replies_sound", "loadgen_errors", "seeds")), rules


def test_a_combination_that_the_rules_do_not_define_is_refused_where_nothing_else_was_asked_for(mlbench):
    done = mlbench("run", "bert", "--backend", "null", "--scenario", "MultiStream", "--json")
    assert "bert MultiStream: the rules do not define this combination. `mlbench list` says which" in done.stderr
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize("workload", ["resnet50", pytest.param("bert", marks=pytest.mark.thorough("workloads"))])
def test_random_weights_make_no_claim_of_accuracy(mlbench, tmp_path, workload):
    done = mlbench("run", workload, "--backend", "pytorch", "--scenario", "Offline", "--weights", "random", *SHORT)
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert record.accuracy is None
    assert record.verdict.is_accurate is None
    assert "random weights have no accuracy to claim" in record.verdict.not_applied["accuracy"]
    assert done.exit_code == (0 if record.verdict.is_valid else 1)
