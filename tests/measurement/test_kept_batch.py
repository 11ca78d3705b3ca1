"""The batch of a sweep is kept for the next run under the same conditions, and for no other."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mlbench import BatchProgram, Model, Probe, ReplySpec
from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.statistics import BatchStatistics
from mlbench.errors import UsageError
from mlbench.measurement.job import Job
from mlbench.measurement.kept_batch import KeptBatch
from mlbench.records.job_spec import JobSpec


class One(BatchProgram):
    reply = ReplySpec(dtype="float32", shape=(1,))

    def run(self, samples, graphs):
        raise AssertionError


MODEL = Model(name="one", graphs={}, program=One(), weights_fingerprint="w1")
SURE = BatchStatistics(batch=16, sweep_rounds={8: 1, 16: 3})


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def plugins_of(version="1.0"):
    return SimpleNamespace(probe=lambda name: Probe(is_available=True, versions={"runtime": version}))


def job_of(plan=None, *, machine="m1", settings=None, **names):
    """Return a job as far as its batch is concerned."""
    common = {"workload": "resnet50", "backend": "null", "scenario": "Offline", "profile": "mini", "tier": "smoke"}
    given = {"execution.batch": "auto", "execution.workers": 2, "load.target_qps": 0.0} | (settings or {})
    spec = JobSpec(
        **{**common, "weights": "trained", "precision": "fp32"} | names,
        folder="/runs/1",
        settings=given,
        machine=machine,
    )
    return SimpleNamespace(spec=spec, plan=plan or EnginePlan(batching="bucketed"))


def found_by(job=None, model=MODEL, plugins=None):
    return KeptBatch.find(job or job_of(), model, plugins or plugins_of())


@pytest.fixture
def kept():
    """Keep the batch of a sweep that was sure."""
    first = found_by()
    assert first.batch is None
    assert first.note(SURE) == SURE, "its own sweep"
    return first


@pytest.mark.parametrize(
    "job",
    [
        job_of(),
        job_of(scenario="Server", tier="valid"),
        job_of(settings={"load.target_qps": 5.0}),
        job_of(settings={"execution.batching": "dynamic", "execution.max_wait_us": 100}),
    ],
    ids=["again", "another scenario and tier with this engine", "another load", "another way to fill a batch"],
)
def test_the_next_run_under_the_same_conditions_has_it(kept, job):
    found = found_by(job)
    assert found.batch == 16
    noted = found.note(BatchStatistics(batch=16))
    assert noted.sweep_made == found.made
    assert found.made.endswith("Z")


class Long(One):
    """Its samples are as long as they are."""

    def length(self, sample):
        return len(sample)


@pytest.mark.parametrize(("program", "batch"), [(One(), 16), (Long(), None)], ids=["alike", "of many lengths"])
def test_a_run_that_takes_samples_as_they_come_has_that_of_one_that_sorts_them_if_all_are_alike(program, batch):
    model = replace(MODEL, program=program)
    found_by(model=model).note(SURE)
    assert found_by(model=model).batch == 16
    assert found_by(job_of(EnginePlan(batching="dynamic")), model).batch == batch


@pytest.mark.parametrize(
    "other",
    [
        {"job": job_of(machine="m2")},
        {"job": job_of(workload="bert")},
        {"job": job_of(backend="pytorch")},
        {"job": job_of(profile="full")},
        {"job": job_of(weights="random")},
        {"job": job_of(precision="bf16")},
        {"job": job_of(settings={"execution.workers": 1})},
        {"job": job_of(settings={"backend.delay_ms": 1})},
        {"job": job_of(EnginePlan(batching="bucketed", longest_batch_ms=15))},
        {"model": replace(MODEL, weights_fingerprint="w2")},
        {"model": replace(MODEL, graphs={"g": SimpleNamespace(fingerprint="g2")})},
        {"plugins": plugins_of("1.1")},
    ],
    ids=[
        *("machine", "workload", "backend", "profile", "weights", "precision", "workers", "option", "limit"),
        *("model's weights", "graph", "runtime"),
    ],
)
def test_another_condition_sweeps_anew(kept, other):
    assert found_by(**other).batch is None


@pytest.mark.parametrize(
    "job",
    [
        job_of(EnginePlan(batching="bucketed", batch=4)),
        job_of(EnginePlan(batching="inline")),
        job_of(machine=""),
    ],
    ids=["a batch of the user's", "the query is the batch", "an unknown machine"],
)
def test_a_run_without_a_sweep_to_save_keeps_and_takes_nothing(cache, job):
    found = found_by(job)
    assert found.batch is None
    assert found.note(SURE) is SURE
    assert not cache.exists()


def test_a_sweep_that_was_asked_for_replaces_what_was_kept(kept):
    anew = found_by(job_of(EnginePlan(batching="bucketed", sweep="anew"), settings={"execution.sweep": "anew"}))
    assert anew.batch is None
    anew.note(BatchStatistics(batch=32, sweep_rounds={32: 1}))
    assert found_by().batch == 32


@pytest.mark.parametrize("rounds", [{8: 2, 16: 2}, {8: 4, 16: 3}, {}, None], ids=str)
def test_a_choice_that_rounds_disagreed_about_is_not_kept(rounds):
    found_by().note(BatchStatistics(batch=16, sweep_rounds=rounds))
    assert found_by().batch is None


@pytest.mark.parametrize(("rate", "batch"), [(540.0, 32), (530.0, None)])
def test_a_choice_among_sizes_that_are_nearly_as_fast_is_kept(rate, batch):
    rates = {8: 500.0, 16: rate, 32: 600.0, 64: 590.0}
    found_by().note(BatchStatistics(batch=32, sweep_rounds={16: 2, 32: 2, 64: 2}, sweep_samples_per_s=rates))
    assert found_by().batch == batch


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "7", '{"batch": 16}', '{"batch": 0, "made": "2026-01-01T00:00:00Z"}'),
        *('{"batch": "16", "made": "2026-01-01T00:00:00Z"}', '{"batch": 16, "made": "yesterday"}'),
        *(
            '{"batch": 99999999999, "made": "2026-01-01T00:00:00Z"}',
            '{"batch": true, "made": "2026-01-01T00:00:00Z"}',
            "\0" * 100,
        ),
    ],
)
def test_a_damaged_file_is_none(kept, content):
    kept.file.write_text(content)
    assert found_by().batch is None


def test_a_cache_that_cannot_be_written_costs_a_sweep_and_no_run(cache):
    cache.write_text("a file")
    assert found_by().note(SURE) == SURE


def test_nothing_half_written_is_left_beside(kept):
    assert [each.name for each in kept.file.parent.iterdir()] == [kept.file.name]


def test_a_kept_batch_that_an_engine_refuses_is_forgotten(kept):
    found = found_by()
    with pytest.raises(UsageError), found.forget_on_failure():
        raise UsageError("out of memory", hint="")
    assert found_by().batch is None


def test_the_job_has_the_kept_batch_as_if_it_had_been_set(kept, monkeypatch):
    monkeypatch.setattr(Job, "of_spec", lambda spec, plugins: spec)
    assert found_by().apply(job_of(), None).settings["execution.batch"] == 16
    job = job_of(workload="bert")
    assert found_by(job).apply(job, None) is job


def test_a_kept_file_says_what_was_chosen_and_when(kept):
    assert json.loads(kept.file.read_text())["batch"] == 16
