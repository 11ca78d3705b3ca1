"""Runs read in part: by kind, and with all that a comparison and a history need."""

from datetime import UTC, datetime, timedelta

import pytest

from mlbench.comparison.comparability import FACTS
from mlbench.comparison.history import histories_of
from mlbench.contracts.statistics import EngineStatistics
from mlbench.errors import UsageError
from mlbench.records.facts import conditions_of
from mlbench.records.kinds import kind_of
from mlbench.records.run_record import RunRecord
from mlbench.records.scenario_record import facts_of_older
from mlbench.records.store import stored_runs
from mlbench.records.store.stored_runs import open_stored_runs

FIRST = datetime(2026, 10, 1, 2, tzinfo=UTC)


@pytest.fixture
def store(results):
    def store(record):
        (results / record.run_id).mkdir(parents=True)
        (results / record.run_id / "record.json").write_text(record.text())
        return record

    return store


@pytest.fixture
def a_night(a_run):
    """Return a run of a night; the torch of the nights from the tenth on is another one, and slower."""

    def a_night(night, repeat=1, **changes):
        result = a_run().result.model_dump() | {"value": (100 if night < 10 else 80) + 0.1 * (night % 3 + repeat)}
        environment = a_run().environment.model_copy(update={"libraries": {"torch": "2.9" if night < 10 else "2.10"}})
        when = FIRST + timedelta(days=night, minutes=repeat)
        fields = {"run_id": f"{night:02}-{repeat}", "created": when, "repeat": repeat, "result": result}
        return a_run(**{**fields, "environment": environment, **changes})

    return a_night


def in_part(results):
    with open_stored_runs(results) as stored:
        return [run for kind in stored.kinds for run in stored.read_in_part(kind)]


def test_histories_of_runs_read_in_part_are_those_of_whole_runs(store, a_night, results):
    spent = {"stages_ns": {"load": 40_000_000, "compile": 300_000_000, "warm-up": 400_000_000}}
    processor = {"ns": 4e6, "unit": "sample", "covers": "all", "reference_ns": 1e6, "samples": 4, "rounds": 9}
    kept = {"engine": {"kind": "batch", "batch": 8}}
    whole = [
        store(
            a_night(
                night,
                repeat,
                peak_memory_bytes=10**8 * (1 + (night > 11)),
                **spent,
                **kept,
                processor_time=processor
                | {"relative_ns": 4e6 + 1e4 * (night % 3)}
                | ({"reference": "scrypt"} if night else {}),
            )
        )
        for night in range(20)
        for repeat in (1, 2)
    ]
    searched = {"kind": "batch", "batch": 8, "sweep_samples_per_s": {"8": 100.0}}
    whole.append(store(a_night(19, 3, engine=searched, peak_memory_bytes=10**9, **spent)))
    late = a_night(0).result.model_dump() | {"latency_ns": {"99.00_percentile_latency": 5_000_000}, "value": 90.0}
    facts = facts_of_older({"scenario": "Server"})
    meter = {"joules": 9.0, "seconds": 3.0, "source": "RAPL", "covers": "package-0", "joules_per_sample": 0.5}
    for night in range(3):
        changes = {"scenario": "Server", "scenario_facts": facts, "result": late, "energy": meter}
        whole.append(store(a_night(night, 3, **changes, load={"target_qps": 90.0 + night})))
    failure = {"kind": "crash", "message": "gone", "stage": "warm-up", "log_tail": "..."}
    nothing = {"status": "failed", "failure": failure, "result": None, "accuracy": None, "verdict": None}
    whole.append(store(a_night(21, **nothing)))
    invalid = a_night(0).verdict.model_dump() | {"is_valid": False}
    whole.append(store(a_night(22, verdict=invalid)))
    with open_stored_runs(results) as stored:
        parts = [run for kind in stored.kinds for run in stored.read_in_part(kind)]
        found = histories_of(parts, whole=stored.read_whole)
    assert found == histories_of(whole)
    (step,) = found[0].steps
    (memory,) = (each for each in found if each.measure == "peak memory" and each.steps)
    assert (memory.steps[0].verdict, memory.steps[0].effect.ratio) == ("worse", pytest.approx(2))
    assert [str(each) for each in step.differences] == ["torch differs: 2.9, then 2.10"]
    assert {each.measure.partition(" (")[0] for each in found} == {
        *("throughput", "99th percentile latency", "energy per sample", "peak memory"),
        "processor time per sample",
        *("time to load", "time to compile", "time to warm up"),
    }
    assert "queries/s" in next(each for each in found if each.measure.startswith("99th")).reason


def test_what_was_not_read_is_empty_and_not_that_of_another_run(store, a_night, results):
    store(a_night(0, overhead_ns_per_sample=5, samples={"issued": 3}, limits={"a": 1}))
    (run,) = in_part(results)
    assert (run.accuracy, run.overhead_ns_per_sample, run.samples, run.limits) == (None, None, {}, {})
    assert (run.engine, run.verdict.rules) == (EngineStatistics(), [])
    assert (run.run_id, run.created, run.result.value) == ("00-1", FIRST + timedelta(minutes=1), pytest.approx(100.1))


def test_what_ran_beside_the_newest_run_is_not_said_of_the_others(store, a_night, results):
    neighbour = {"lane": 2, "run_id": "x", "workload": "bert", "backend": "null", "scenario": "Offline"}
    lane = {"lane": 1, "lanes": 2, "processors": [0], "shared": []}
    store(a_night(0, beside={**lane, "runs": []}, other_work={"processes": 0.0, "stolen": 0.0}))
    store(a_night(1, beside={**lane, "runs": [neighbour]}, other_work={"processes": 0.9, "stolen": 0.0}))
    for run in in_part(results):
        assert (run.other_work, run.beside.lanes, run.beside.runs) == (None, 2, [])


def test_a_run_read_in_part_is_read_whole_and_stays_as_it_is_once_its_folder_is_gone(store, a_night, results):
    stored_run = store(a_night(0))
    with open_stored_runs(results) as stored:
        (part,) = stored.read_in_part(stored.kinds[0])
        assert stored.read_whole(part) == stored_run
        (results / part.run_id / "record.json").unlink()
        assert stored.read_whole(part) == part


def test_the_newest_kinds_and_runs_are_read_and_the_others_counted(store, a_night, results, monkeypatch):
    monkeypatch.setattr(stored_runs, "MOST_KINDS", 1)
    monkeypatch.setattr(stored_runs, "MOST_RUNS", 2)
    for night in range(3):
        store(a_night(night, backend="old"))
        store(a_night(night + 3, backend="new"))
    with open_stored_runs(results) as stored:
        assert (stored.count, stored.left_out) == (6, 3)
        (kind,) = stored.kinds
        assert (kind.newest.backend, kind.newest.run_id) == ("new", "05-1")
        assert [run.run_id for run in stored.read_in_part(kind)] == ["04-1", "05-1"]


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no runs in"), open_stored_runs(tmp_path):
        pass


def changed(run, **fields):
    return RunRecord.model_validate(run.model_dump() | fields)


DIFFERENT = {
    **{name: "other" for name in ("workload", "backend", "scenario", "precision", "transform")},
    **{"profile": "full", "tier": "dev", "weights": "random", "round": "v6.0"},
    "settings": {"execution.batch": {"value": 64, "layer": "command line"}},
    "tuning": {"settings": {"execution.batch": {"value": 64, "layer": "backend pytorch"}}},
    "data": {"fingerprints": {"data": "0" * 64}},
    "model": {"fingerprints": {"weights": "0" * 64}},
    "transformed": {"fingerprints": {"transformed decode": "0" * 64}},
    "seeds": None,
    "loadgen": {"loadgen_version": "6.1"},
    "lanes": {"beside": {"lane": 1, "lanes": 2, "processors": [0], "runs": [], "shared": []}},
    "compiled": {"runtime": {"compiled": "prefill, decode"}},
}


def variations(run):
    """Return a run that differs from another in each fact of a comparison."""
    fields = {
        fact: value if isinstance(value, dict) and fact not in ("settings",) else {fact: value}
        for fact, value in DIFFERENT.items()
    }
    variant = {"path": "", "log_sha256": "", "division": "", "submitter": "", "system": "", "variant": "99.9"}
    environment = run.environment.model_dump()
    quota = environment | {"allowance": environment["allowance"] | {"cpu_quota": 1.5}}
    clocks = environment | {"cpu": environment["cpu"] | {"governor": "powersave"}}
    traffic = run.scenario_facts.model_dump() | {"percentile": 0.5}
    fields |= {
        "variant": {"imported": {**variant, "description": {}}},
        "audit": {"audit": {"test": "TEST04", "of": "another"}},
        "hardware": {"environment": quota},
        "clocks": {"environment": clocks},
        "memory": {"memory": "device"},
        "number_format": {"number_format": {"stores": "int4", "computes": "fp16"}},
        "nodes": {"network": {"connections": 2, "is_encrypted": True, "nodes": []}},
        "traffic": {"scenario_facts": traffic},
    }
    return {fact: changed(run, **each) for fact, each in fields.items()}


@pytest.mark.parametrize("fact", FACTS)
def test_runs_that_differ_in_a_fact_of_a_comparison_are_of_two_kinds(a_run, fact):
    other = variations(a_run())[fact]
    assert conditions_of(other) != conditions_of(a_run())
    assert kind_of(other) != kind_of(a_run())


def test_repeats_are_of_one_kind_whatever_they_measured_and_with_whichever_libraries(a_run):
    run = a_run()
    environment = run.environment.model_dump() | {
        "load_average": 3.0,
        "libraries": {"torch": "3"},
        "commits": {"a": "b"},
    }
    settings = {**run.model_dump()["settings"], "execution.of_a_newer_version": {"value": 1, "layer": "default"}}
    again = changed(run, run_id="b", repeat=2, tag="x", environment=environment, duration_ns=1, settings=settings)
    assert kind_of(again) == kind_of(run)
