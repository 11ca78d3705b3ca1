"""Whole runs with their engine in two processes."""

from pathlib import Path

import pytest
from invoking import invoke

from mlbench.execution.cores import physical_cores
from mlbench.loadgen.logs import AccuracyLog
from mlbench.records.run_record import read

PLUGIN = Path(__file__).parents[1] / "data" / "faulty_plugin"
FEW_QUERIES = (
    *("--backend", "onnxruntime"),
    *("--set", "load.min_query_count=40", "--set", "load.min_duration_ms=10"),
)
needs_two_cores = pytest.mark.skipif(len(physical_cores()) < 2, reason="needs two cores")


@pytest.fixture
def mlbench(tmp_path, monkeypatch):
    """Run a workload Offline, or as told, with its results in a folder; return what was printed, and records."""
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))

    def mlbench(*arguments, scenario="Offline", **settings):
        given = [each for name, value in settings.items() for each in ("--set", f"execution.{name}={value}")]
        done = invoke("run", *arguments, "--scenario", scenario, *given)
        folders = sorted((tmp_path / "results").glob("2*"))
        return done, {folder: read(folder) for folder in folders}

    return mlbench


def replies(folder):
    """Return the accuracy log's replies by dataset index."""
    return {reply.index: reply.data for reply in AccuracyLog(folder / "accuracy" / "mlperf_log_accuracy.json")}


@pytest.mark.thorough("engines")
@needs_two_cores
def test_two_instances_give_the_answers_of_one(mlbench):
    for instances in (2, 1):  # the first may export the graphs too, which takes memory
        _, records = mlbench("resnet50", "--backend", "onnxruntime", instances=instances, batch=4, workers=1)
    one, two = sorted(records, key=lambda run_id: records[run_id].settings["execution.instances"].value)
    assert replies(one) == replies(two)
    assert records[one].accuracy == records[two].accuracy
    assert records[two].accuracy.is_met
    record = records[two]
    assert (record.settings["execution.instances"].value, record.engine.instances) == (2, 2)
    shares = [each.counted.samples for each in record.engine.by_instance]
    assert all(shares)
    assert sum(shares) == record.engine.samples == record.samples["issued"]
    assert record.peak_memory_bytes > records[one].peak_memory_bytes
    first, second = (set(each.processors) for each in record.engine.by_instance)
    assert not first & second


@pytest.mark.thorough("engines")
@needs_two_cores
def test_an_instance_that_crashes_makes_the_run_invalid_and_is_named(mlbench, monkeypatch):
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    done, records = mlbench("resnet50", "--backend", "mortal", "--no-accuracy", instances=2)
    assert done.exit_code == 1
    (record,) = records.values()
    assert (record.status, record.verdict.is_valid) == ("completed", False)
    (rule,) = (rule for rule in record.verdict.rules if rule.rule == "replies_sound")
    assert not rule.passed
    assert "failed: instance 1 of 2 was ended by SIGSEGV" in rule.fix
    assert rule.fix in done.stderr
    _, dead = record.engine.by_instance
    assert dead.ended == "instance 1 of 2 was ended by SIGSEGV"


@pytest.mark.thorough("engines")
@needs_two_cores
def test_a_graph_that_cannot_be_compiled_is_reported_as_it_is_without_instances(mlbench, monkeypatch):
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    done, records = mlbench("resnet50", "--backend", "lacking", "--no-accuracy", instances=2)
    assert done.exit_code == 1
    (record,) = records.values()
    assert (record.status, record.failure.kind) == ("failed", "unsupported")
    assert record.failure.message.endswith("operator Det. Use fp32.")


@pytest.mark.thorough("engines")
def test_a_wrong_option_ends_the_run_as_it_does_without_instances(mlbench):
    arguments = ("gptj", "--backend", "null", "--set", "backend.tokens=1")
    told = [mlbench(*arguments, instances=instances)[0] for instances in (1, min(2, len(physical_cores())))]
    assert {done.exit_code for done in told} == {2}
    (complaint,) = {done.stderr for done in told}
    assert complaint.startswith("Error: backend.tokens is 1. An answer has ")


@pytest.mark.thorough("engines")
def test_the_number_can_be_left_to_a_sweep_which_is_in_the_record(mlbench):
    _, records = mlbench("resnet50", "--backend", "null", "--no-accuracy", instances="auto")
    (record,) = records.values()
    tried = record.engine.instance_sweep_samples_per_s
    assert record.engine.instances in tried
    assert 1 in tried
    assert record.settings["execution.instances"].value == "auto"


@pytest.mark.parametrize(
    ("scenario", "instances", "told"),
    [
        ("Offline", "0", "execution.instances is '0' (command line): Input should be greater than or equal to 1"),
        ("Server", "1000", "execution.instances is 1000, and this process may use"),
        ("Server", "auto", "execution.instances is auto in Server."),
        ("Offline", "some", "execution.instances is 'some' (command line)"),
    ],
)
def test_a_wrong_number_is_one_line_and_nothing_is_stored(mlbench, scenario, instances, told):
    done, records = mlbench("resnet50", "--backend", "null", scenario=scenario, instances=instances)
    assert (done.exit_code, done.stderr.count("\n"), records) == (2, 1, {})
    assert done.stderr.startswith(f"Error: {told}")


@pytest.mark.thorough("engines")
@needs_two_cores
def test_a_query_of_eight_is_answered_by_both_instances_with_the_answers_of_one(mlbench):
    for instances in (2, 1):
        _, records = mlbench("resnet50", *FEW_QUERIES, scenario="MultiStream", instances=instances)
    one, two = sorted(records, key=lambda run_id: records[run_id].settings["execution.instances"].value)
    assert replies(one) == replies(two)
    issued = records[two].samples["issued"]
    assert records[one].engine.batches_by_size.keys() == {8}
    assert [each.counted.batches_by_size for each in records[two].engine.by_instance] == [{4: issued // 8}] * 2


@pytest.mark.thorough("engines")
@needs_two_cores
def test_queries_of_one_sample_take_turns(mlbench):
    _, records = mlbench("resnet50", *FEW_QUERIES, "--no-accuracy", scenario="SingleStream", instances=2)
    (record,) = records.values()
    shares = [each.counted.samples for each in record.engine.by_instance]
    assert sum(shares) == record.samples["issued"]
    assert max(shares) - min(shares) <= 1
