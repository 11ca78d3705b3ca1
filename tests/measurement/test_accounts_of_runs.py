"""What whole runs say of their work, their share of the machine, and their energy."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from invoking import invoke
from mlbench_resnet50.mini_profile import MiniProfile

from mlbench import Profile, Variant, Weights
from mlbench.discovery import Plugins
from mlbench.records.run_record import read
from mlbench.roofline.ceilings import Ceilings

PLUGIN = Path(__file__).parents[1] / "data" / "faulty_plugin"
QUICK = ("--set", "load.min_duration_ms=200", "--no-accuracy")


@pytest.fixture
def mlbench(tmp_path, monkeypatch):
    """Run a command line, and return it with the record of the run, if there is one."""
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))

    def mlbench(*arguments):
        done = invoke(*arguments)
        folders = [*(tmp_path / "results").glob("2*")]
        return done, read(folders[0]) if folders else None

    return mlbench


@pytest.fixture
def known_machine(monkeypatch):
    """Let this machine be known: a thousand billion operations and a hundred billion bytes per second."""
    device = {
        "device": "cpu",
        "operations": {"fp32": {"per_s": 1e12, "how": ""}},
        "bytes": {"per_s": 1e11, "how": ""},
        "not_measured": {},
    }
    facts = {"machine": "this one", "threads": 1, "libraries": {}, "devices": [device]}
    ceilings = Ceilings.model_validate({"measured": datetime(2026, 11, 21, tzinfo=UTC), **facts})
    monkeypatch.setattr("mlbench.running.started_run.load_ceilings", lambda environment: ceilings)


def flops_of_one_image():
    """Return what torch's own counter makes of the network, run for real on one image."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    workload = Plugins.discover().workload("resnet50")
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
    graph = workload.model(variant).graphs["classifier"]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        graph.module()(torch.zeros(1, *graph.inputs[0].shape[1:]))
    return counter.get_total_flops()


@pytest.mark.thorough("engines")
def test_a_run_tells_its_work_and_its_share_of_a_known_machine(mlbench, known_machine):
    _, record = mlbench("run", "resnet50", "--backend", "pytorch", "--scenario", "Offline", *QUICK)
    work, roofline = record.work, record.roofline
    assert work.operations_per_sample == flops_of_one_image()
    (graph,) = work.graphs
    assert graph.operations == work.operations_per_sample * record.samples["issued"]
    assert graph.calls == sum(record.engine.batches_by_size.values())
    assert work.samples_per_s == record.result.value
    assert roofline.operations_per_s == pytest.approx(work.operations_per_sample * record.result.value)
    assert roofline.share == pytest.approx(
        max(roofline.operations_per_s / 1e12, roofline.bytes_per_s / 1e11)
    )  # of the ceilings above
    done, _ = mlbench("show", record.run_id)
    assert f"{roofline.share:.1%} of {roofline.bound} on cpu" in done.stdout
    done, _ = mlbench("table")
    assert "% of peak" in done.stdout
    done, _ = mlbench("verify", record.run_id)
    assert done.exit_code == 0, done.stdout


@pytest.mark.thorough("engines")
def test_rows_of_padding_are_work_and_are_reported(mlbench, known_machine):
    """497 samples in batches of 8, each filled up: 63 batches, 504 rows."""
    settings = ("--set", "execution.batching=fixed", "--set", "execution.batch=8", *QUICK)
    _, record = mlbench("run", "resnet50", "--backend", "pytorch", "--scenario", "Offline", *settings)
    rows = 8 * record.work.graphs[0].calls
    size, classes = MiniProfile.shipped().image_size, MiniProfile.shipped().classes
    (sent,) = record.transfers.graphs
    assert (sent.input_bytes, sent.output_bytes) == (rows * 3 * size**2 * 4, rows * classes * 4)
    assert record.work.useful_share == record.samples["issued"] / rows
    assert record.work.operations_per_sample == pytest.approx(flops_of_one_image() / record.work.useful_share)


@pytest.mark.thorough("engines")
def test_energy_is_that_of_the_test_alone(mlbench, monkeypatch):
    """A hundred watts: what it says in joules is a hundred times the length of the test by LoadGen's clock."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    settings = ("--set", "backend.delay_ms=20", "--set", "load.min_duration_ms=2000", "--no-accuracy")
    power = ("--power", "steady")
    _, record = mlbench("run", "resnet50", "--backend", "null", "--scenario", "SingleStream", *settings, *power)
    energy, queries = record.energy, record.result.counts["queries"]
    loadgen_s = queries * record.result.latency_ns["mean_latency"] / 1e9
    assert energy.joules == pytest.approx(100 * loadgen_s, rel=0.25)
    assert energy.joules_per_sample == energy.joules / queries
    assert (energy.source, energy.covers, energy.joules_per_token) == ("steady", "a heater", None)
    assert energy.idle_w == pytest.approx(100, rel=0.01)
    assert "energy" not in record.not_measured
    done, _ = mlbench("show", record.run_id)
    assert "J/sample, 100.0 W, idle 100.0 W" in done.stdout
    done, _ = mlbench("verify", record.run_id)
    assert done.exit_code == 0, done.stdout


@pytest.mark.slow
def test_what_is_not_measured_is_reported_with_its_reason(mlbench, known_machine):
    arguments = ("run", "resnet50", "--backend", "null", "--scenario", "SingleStream", "--power", "none", *QUICK)
    _, record = mlbench(*arguments)
    assert (record.energy, record.work, record.roofline) == (None, None, None)
    assert record.not_measured == {
        "energy": "not asked for",
        "work": "the engine does not count its graph calls",
        "roofline": "the work per sample is unknown",
        "processor_time": "the backend computes nothing",
    }


@pytest.mark.thorough("engines")
def test_work_is_counted_only_where_a_ceiling_is_known_to_hold_it_against(mlbench):
    arguments = ("run", "resnet50", "--backend", "pytorch", "--scenario", "SingleStream", "--power", "none", *QUICK)
    _, record = mlbench(*arguments)
    assert (record.work, record.roofline) == (None, None)
    once = "run `mlbench roofline` once: the ceilings of this machine are not known"
    assert record.not_measured["work"] == once
    assert record.not_measured["roofline"] == once


@pytest.mark.parametrize(
    ("power", "told"),
    [("rapel", "Error: unknown power meter 'rapel'. Did you mean 'rapl'?\n"), ("nvml", None), ("rapl", None)],
)
def test_a_meter_that_is_named_and_cannot_measure_is_refused_before_anything_runs(mlbench, power, told):
    reason = "" if told else Plugins.discover().power_meter(power).probe()
    if not (told or reason):
        pytest.skip(f"{power} measures here")
    done, record = mlbench("run", "resnet50", "--backend", "null", "--scenario", "Offline", "--power", power)
    assert done.exit_code == 2
    assert done.stderr == (told or f"Error: power meter {power} cannot measure here: {reason}.\n")
    assert record is None
