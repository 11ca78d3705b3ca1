"""Whole runs that fail: each is stored with its cause, and the next one is made."""

import json

import pytest

from mlbench.records.run_record import RunRecord, read

pytestmark = pytest.mark.slow


def command_of(*backends):
    """Return a command line that measures ResNet-50 on backends."""
    named = [word for backend in backends for word in ("--backend", backend)]
    return ["run", "resnet50", *named, "--scenario", "SingleStream", "--no-accuracy"]


def test_a_crash_is_stored_as_a_crash_with_the_end_of_its_log(faulty_run):
    record, printed = faulty_run("crash")
    assert record.failure.kind == "crash"
    assert record.failure.message == "the process was ended by SIGSEGV"
    assert record.failure.stage == "performance"
    assert "no more registers" in record.failure.log_tail
    assert "crash: the process was ended by SIGSEGV" in printed


@pytest.mark.thorough("engines")
def test_a_process_that_leaves_is_stored_as_that(faulty_run):
    record, _ = faulty_run("leave")
    assert (record.failure.kind, "status 3" in record.failure.message) == ("exit", True)


def test_a_graph_that_a_backend_lacks_an_operator_for_is_stored_as_unsupported(faulty_run):
    record, printed = faulty_run("lacking")
    assert (record.status, record.failure.kind) == ("failed", "unsupported")
    assert record.failure.message.endswith("operator Det. Use fp32.")
    assert record.failure.message in printed
    assert "Traceback" not in printed


@pytest.mark.thorough("engines")
def test_a_run_that_outgrows_its_memory_is_stored_as_out_of_memory(faulty_run):
    record, _ = faulty_run("fill_memory", **{"load.memory_limit_gib": 1.0, "load.stall_timeout_s": 60})
    assert record.failure.kind == "out of memory"


@pytest.mark.thorough("engines")
def test_a_file_that_is_missed_after_measuring_makes_a_failed_run(with_faulty, tmp_path):
    done = with_faulty("run", "misplaced", "--backend", "null", "--scenario", "SingleStream")
    assert done.exit_code == 1
    (record,) = map(read, (tmp_path / "results").iterdir())
    assert (record.status, record.failure.stage) == ("failed", "score")
    assert record.failure.message == "the annotations are gone. Fetch them."


def test_a_damaged_log_of_loadgen_makes_a_failed_run_and_the_next_one_is_made(with_faulty, tmp_path):
    done = with_faulty(*command_of("scribble", "odd"))
    assert done.exit_code == 1, done.output
    damaged, odd = sorted(map(read, (tmp_path / "results").iterdir()), key=lambda record: record.created)
    assert (damaged.status, damaged.failure.kind, damaged.failure.stage) == ("failed", "exception", "performance")
    assert damaged.failure.message.startswith("corrupt LoadGen log: line ")
    assert odd.status == "completed"


def test_an_engine_that_never_answers_is_a_failed_run_and_the_next_one_is_made(with_faulty, tmp_path):
    (tmp_path / "results" / ".killed.partial").mkdir(parents=True)  # of a run whose process was killed
    done = with_faulty(*command_of("mute", "odd"))
    assert done.exit_code == 1
    mute, odd = sorted(map(read, (tmp_path / "results").iterdir()), key=lambda record: record.created)
    assert (mute.status, mute.failure.kind) == ("failed", "exception")
    assert "unanswered after 3 s of warm-up" in mute.failure.message
    assert "Traceback" in mute.failure.log_tail
    assert odd.status == "completed"


@pytest.mark.thorough("engines")
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
    done = with_faulty(*command_of(f"refusing_{place}", "odd"))
    assert done.exit_code == 1, done.output
    refused, odd = sorted(map(read, (tmp_path / "results").iterdir()), key=lambda record: record.created)
    assert (refused.status, refused.failure.stage, odd.status) == ("failed", stage, "completed")
    assert refused.failure.message.endswith(message)


@pytest.mark.thorough("engines")
@pytest.mark.parametrize("place", ["enter", "warm_up"])
def test_an_engine_that_refuses_in_an_instance_is_a_failed_run_that_names_the_instance(faulty_run, place):
    record, _ = faulty_run(f"refusing_{place}", "Offline", **{"execution.instances": 2})
    assert record.failure.message.startswith("instance ")
    assert "of 2: " in record.failure.message


@pytest.mark.thorough("engines")
def test_a_dataset_without_a_length_is_a_failed_run_and_the_next_one_is_made(with_faulty, tmp_path):
    done = with_faulty("run", "uncountable", *command_of("odd")[1:])
    assert done.exit_code == 1, done.output
    uncountable, odd = sorted(map(read, (tmp_path / "results").iterdir()), key=lambda record: record.created)
    assert (uncountable.status, uncountable.failure.kind, odd.status) == ("failed", "exception", "completed")
    assert uncountable.failure.message == "OverflowError: there is no end to it"


def test_on_a_full_disk_the_record_is_printed_and_the_logs_are_kept(with_faulty, tmp_path):
    done = with_faulty(*command_of("fill_disk", "odd"), "--json")
    assert done.exit_code == 1
    assert [record["backend"] for record in json.loads(done.stdout)] == ["odd"]
    (printed,) = (line for line in done.stderr.splitlines() if line.startswith("{"))
    record = RunRecord.model_validate_json(printed)
    assert (record.backend, record.status) == ("fill_disk", "completed")
    kept = tmp_path / "results" / f".{record.run_id}.unstored"
    assert (kept / "performance" / "mlperf_log_summary.txt").stat().st_size
    assert f"No space left on device. Its logs are in {kept}." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.thorough("engines")
def test_pipes_in_place_of_a_runs_files_block_no_command(with_faulty, tmp_path):
    done = with_faulty(*command_of("lay_pipes", "odd"), "--json")
    assert done.exit_code == 1
    assert [record["backend"] for record in json.loads(done.stdout)] == ["odd"]
    (printed,) = (line for line in done.stderr.splitlines() if line.startswith("{"))
    record = RunRecord.model_validate_json(printed)
    assert (record.backend, record.status) == ("lay_pipes", "completed")
    assert f"No such device or address. Its logs are in {tmp_path}" in done.stderr
