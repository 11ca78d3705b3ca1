"""Ceilings, and the share of them that a run reaches."""

import json
from datetime import UTC, datetime

import pytest

from mlbench import RuntimeFacts
from mlbench.records.environment import observe_environment
from mlbench.records.work_record import WorkRecord
from mlbench.roofline.ceilings import Ceilings, ProbeRequest, ceilings_file, load_ceilings
from mlbench.roofline.share import ONCE, share_of

WORK = WorkRecord(graphs=[], operations_per_sample=2e9, bytes_per_sample=1e8, samples_per_s=10.0, useful_share=None)
CPU, GPU = RuntimeFacts(device="cpu"), RuntimeFacts(device="NVIDIA H200")


@pytest.fixture
def ceilings():
    """A hundred billion operations and ten billion bytes per second."""
    return Ceilings.model_validate(
        {
            "measured": datetime(2026, 11, 21, tzinfo=UTC),
            "machine": "0123456789ab",
            "threads": 2,
            "libraries": {"torch": "2.9.0"},
            "devices": [
                {
                    "device": "cpu",
                    "operations": {"fp32": {"per_s": 1e11, "how": "matrices of 1024 x 1024"}},
                    "bytes": {"per_s": 1e10, "how": "copying 1,024 MiB"},
                    "not_measured": {"int8": "no such product"},
                }
            ],
        }
    )


def test_the_nearer_ceiling_is_the_one_that_takes_longer(ceilings):
    share, reason = share_of(WORK, "fp32", CPU, ceilings)
    assert reason == ""
    assert share.operations_per_s == 2e10  # 10 samples of 2e9 operations: a fifth of the ceiling
    assert share.bytes_per_s == 1e9  # of 1e8 bytes: a tenth
    assert (share.bound, share.share) == ("compute", 0.2)


def test_few_operations_on_many_bytes_are_bound_by_memory(ceilings):
    share, _ = share_of(WORK.model_copy(update={"operations_per_sample": 1e6}), "fp32", CPU, ceilings)
    assert (share.bound, share.share) == ("memory", 0.1)


@pytest.mark.parametrize(
    ("work", "precision", "runtime", "reason"),
    [
        (None, "fp32", CPU, "the work per sample is unknown"),
        (WORK.model_copy(update={"samples_per_s": None}), "fp32", CPU, "the work per sample is unknown"),
        (WORK, "int8", CPU, "no ceiling at int8: no such product"),
        (WORK, "fp8", CPU, "no ceiling at fp8: not measured"),
        (WORK, "fp32", RuntimeFacts(), "the backend does not report its device"),
        (WORK, "fp32", GPU, "the ceilings of NVIDIA H200 are not known"),
    ],
)
def test_where_there_is_no_share_the_reason_is_reported(ceilings, work, precision, runtime, reason):
    assert share_of(work, precision, runtime, ceilings) == (None, reason)


def test_instances_share_a_cpu_but_may_have_a_gpu_each(ceilings):
    share, _ = share_of(WORK, "fp32", CPU, ceilings, instances=2)
    assert share.share == 0.2
    gpu = ceilings.devices[0].model_copy(update={"device": "NVIDIA H200"})
    known = ceilings.model_copy(update={"devices": [gpu]})
    assert share_of(WORK, "fp32", GPU, known)[0].share == 0.2
    reason = "the ceilings of 2 x NVIDIA H200 are not known"
    assert share_of(WORK, "fp32", GPU, known, instances=2) == (None, reason)


def test_a_machine_that_was_never_measured_is_said_to_be():
    assert share_of(WORK, "fp32", CPU, None) == (None, ONCE)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))


def test_ceilings_are_found_again_on_the_machine_they_belong_to(cache, ceilings, environment):
    assert load_ceilings(environment) is None
    file = ceilings_file(environment)
    file.parent.mkdir()
    file.write_text(ceilings.model_dump_json())
    assert load_ceilings(environment) == ceilings
    fewer = environment.model_copy(update={"allowance": environment.allowance.model_copy(update={"threads": 99})})
    newer = environment.model_copy(update={"libraries": {**environment.libraries, "torch": "99"}})
    for other in (fewer, newer, environment.model_copy(update={"machine": "another"})):
        assert load_ceilings(other) is None


def test_a_damaged_file_counts_as_none(cache, environment):
    file = ceilings_file(environment)
    file.parent.mkdir()
    file.write_text('{"measured": "yest')
    assert load_ceilings(environment) is None


def test_a_real_measurement_finds_ceilings_in_their_own_form(monkeypatch):
    """Small matrices and buffers, real products: the numbers are low, their form and order are not."""
    torch = pytest.importorskip("torch")
    from mlbench.roofline import probe

    monkeypatch.setattr(probe, "_SIZES", {"cpu": (256,)})
    monkeypatch.setattr(probe, "_SECONDS", 0.05)
    monkeypatch.setattr(probe, "_BUFFER_BYTES", {"cpu": 2**24})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    heard, threads = [], torch.get_num_threads()
    try:
        found = probe.measure_devices(
            ProbeRequest(threads=1), type("Heard", (), {"progress": lambda self, s: heard.append(s)})()
        )
    finally:
        torch.set_num_threads(threads)
    environment = observe_environment()
    facts = {"machine": environment.machine, "threads": 1, "libraries": {}}
    (device,) = Ceilings.model_validate({**json.loads(found.model_dump_json()), **facts}).devices
    assert device.device == "cpu"
    assert {*device.operations, *device.not_measured} == {"fp32", "bf16", "fp16", "int8"}
    assert device.operations["fp32"].how == "matrices of 256 x 256"
    assert 1e7 < device.operations["fp32"].per_s < 1e14
    assert 1e7 < device.bytes.per_s < 1e13
    assert heard[-1] == "cpu memory"
