"""Whole runs, as the command line makes them: real LoadGen, a process of its own, a stored record."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlbench.cli import main
from mlbench.records.run_record import read

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).parent / "data" / "faulty_plugin"
QUICK = {"load.stall_timeout_s": 5, "load.min_duration_ms": 100}
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
        assert done.exit_code == exit_code, done.output
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


def test_a_graph_that_a_backend_lacks_an_operator_for_is_stored_as_unsupported(faulty_run):
    record, printed = faulty_run("lacking")
    assert (record.status, record.failure.kind) == ("failed", "unsupported")
    assert record.failure.message.endswith("operator Det. Use fp32.")
    assert record.failure.message in printed
    assert "Traceback" not in printed


def test_a_run_that_outgrows_its_memory_is_stored_as_out_of_memory(faulty_run):
    record, _ = faulty_run("fill_memory", **{"load.memory_limit_gib": 1.0, "load.stall_timeout_s": 60})
    assert record.failure.kind == "out of memory"


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
    ],
)
def test_an_unsound_reply_while_measuring_makes_the_run_invalid_and_names_the_sample(
    faulty_run, backend, scenario, told
):
    record, printed = faulty_run(backend, scenario)
    assert record.status == "completed"
    assert not record.verdict.is_valid
    (rule,) = (rule for rule in record.verdict.rules if rule.rule == "replies_sound")
    assert not rule.passed
    assert told in printed


def test_a_reply_that_the_metric_cannot_score_makes_the_run_invalid_and_is_named(mlbench, tmp_path, monkeypatch):
    """Such a run is stored like any other: its speed counts for nothing, and why can be read."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    settings = [argument for key, value in QUICK.items() for argument in ("--set", f"{key}={value}")]
    done = mlbench("run", "unscorable", "--backend", "null", "--scenario", "SingleStream", *settings)
    assert done.exit_code == 1, done.output
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert (record.status, record.verdict.is_valid, record.verdict.is_accurate) == ("completed", False, None)
    assert record.verdict.not_applied["accuracy"] == "a reply cannot be scored"
    (rule,) = (rule for rule in record.verdict.rules if rule.rule == "replies_sound")
    assert (rule.measured, rule.passed) == (1, False)
    assert "the reply to sample 7 is 0, not a label. (in the scoring)" in rule.fix
    assert rule.fix in done.stderr


@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime"])
@pytest.mark.parametrize(
    ("workload", "scenario", "score", "least"),
    [
        ("resnet50", "SingleStream", "top1", 97),
        ("resnet50", "MultiStream", "top1", 97),
        ("resnet50", "Offline", "top1", 97),
        ("bert", "Server", "f1", 85),
        ("bert", "Offline", "f1", 85),
    ],
)
def test_a_trained_model_on_a_real_runtime_meets_its_target_under_loadgen(  # noqa: PLR0917 - one per column
    mlbench, tmp_path, backend, workload, scenario, score, least
):
    arguments = ["run", workload, "--backend", backend, "--scenario", scenario, "--json"]
    if scenario == "Server":  # as many queries as the tier wants would take half a minute, and longer on a busy machine
        arguments += ["--set", "load.target_qps=10", "--set", "load.min_query_count=100"]
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
    # a machine too busy for a number says so instead
    assert (record.overhead_ns_per_sample or 0) > 0 or record.not_measured["overhead"]


def test_a_combination_that_the_rules_do_not_define_is_said_and_not_run(mlbench):
    done = mlbench("run", "bert", "--backend", "null", "--scenario", "MultiStream", "--json")
    assert "bert MultiStream: the rules do not define this combination." in done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("workload", ["resnet50", "bert"])
def test_random_weights_make_no_claim_of_accuracy(mlbench, tmp_path, workload):
    done = mlbench("run", workload, "--backend", "onnxruntime", "--scenario", "Offline", "--weights", "random")
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert record.accuracy is None
    assert record.verdict.is_accurate is None
    assert "random weights make no claim of accuracy" in record.verdict.not_applied["accuracy"]
    assert done.exit_code == (0 if record.verdict.is_valid else 1)
