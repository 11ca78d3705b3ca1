"""Sensors that are read beside a run: their readings, their summary, and sensors that fail or hang."""

import csv
import threading
from itertools import count

import pytest

from mlbench import Sensor, SensorReading
from mlbench.comparison.compare import compare
from mlbench.records.machine.telemetry import TelemetryRecord
from mlbench.reports.console import one_line
from mlbench.reports.html.conditions import details_of
from mlbench.reports.page import page
from mlbench.running import telemetry as module
from mlbench.running.telemetry import Telemetry
from mlbench.wire.progress import ProgressMessage


class Scripted(Sensor):
    """Gives readings of a GPU in turn, and says when it gave the last of them."""

    name = "scripted"

    def __init__(self, *readings, failure=None):
        self.readings, self.failure = iter(readings), failure
        self.has_read_all, self.opened, self.own = threading.Event(), 0, []

    def probe(self):
        return ""

    def __enter__(self):
        self.opened += 1
        return self

    def __exit__(self, *_):
        self.opened -= 1

    def read(self, own):
        self.own = list(own)
        for reading in self.readings:
            return [reading]
        self.has_read_all.set()
        if self.failure:
            raise self.failure
        return []


def gpu(clock_mhz, *, device="GPU 0 Anvil", **more):
    return SensorReading(device=device, clock_mhz=clock_mhz, **more)


def telemetry_of(sensor, folder, stages=("warm-up", "performance", "statistics")):
    """Follow a run through its stages; it leaves ``performance`` when the sensor has given all its readings."""
    with Telemetry([sensor], folder, period_s=0.001) as telemetry:
        for stage in stages:
            telemetry.note(ProgressMessage(stage=stage))
            telemetry.note(ProgressMessage(stage=stage, facts={"answered": 1}))
            if stage == "performance":
                assert sensor.has_read_all.wait(30)
    return telemetry.record()


READINGS = (
    gpu(1980, temperature_c=60, power_w=500, busy=0.5, memory_bytes=10, strangers=0),
    gpu(1200, temperature_c=86, power_w=700, busy=1.0, memory_bytes=30, strangers=2, throttled_by=("heat", "power")),
    gpu(1500, temperature_c=80, power_w=600, busy=0.9, memory_bytes=20, throttled_by=("heat",)),
    gpu(1900, temperature_c=70),
)


def test_the_record_has_the_median_and_the_extremes_of_each_device(tmp_path):
    (found,) = telemetry_of(Scripted(*READINGS), tmp_path).devices
    assert (found.device, found.sensor, found.readings) == ("GPU 0 Anvil", "scripted", 4)
    assert (found.clock_mhz, found.lowest_clock_mhz) == (1700, 1200)
    assert (found.highest_temperature_c, found.mean_power_w) == (86, 600)
    assert (found.mean_busy, found.most_memory_bytes, found.strangers) == (pytest.approx(0.8), 30, 2)
    assert found.throttled == {"heat": 0.5, "power": 0.25}


def test_the_run_folder_has_each_reading(tmp_path):
    telemetry_of(Scripted(*READINGS), tmp_path)
    with (tmp_path / "telemetry.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["clock_mhz"] for row in rows] == ["1980", "1200", "1500", "1900"]
    assert [row["throttled_by"] for row in rows] == ["", "heat; power", "heat", ""]
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds) and seconds[0] > 0


def test_sensors_are_open_in_the_performance_test_alone(tmp_path):
    sensor = Scripted(*READINGS)
    with Telemetry([sensor], tmp_path, period_s=0.001) as telemetry:
        telemetry.note(ProgressMessage(stage="accuracy"))
        assert (sensor.opened, sensor.own) == (0, [])
        telemetry.note(ProgressMessage(stage="performance"))
        assert sensor.has_read_all.wait(30)
        assert sensor.opened == 1
        telemetry.note(ProgressMessage(stage="statistics"))
    assert sensor.opened == 0
    assert len(telemetry.record().devices) == 1


def test_a_sensor_that_fails_keeps_its_readings_and_costs_no_run(tmp_path):
    record = telemetry_of(Scripted(*READINGS, failure=OSError("the driver is gone")), tmp_path)
    assert record.devices[0].readings == 4


def test_readings_that_cannot_be_stored_cost_no_run(tmp_path):
    assert telemetry_of(Scripted(*READINGS), tmp_path / "gone").devices[0].readings == 4


@pytest.mark.parametrize(
    "junk",
    [
        42,
        None,
        gpu("fast"),
        gpu(float("nan")),
        gpu(1900, memory_bytes=-1),
        gpu(1900, strangers=0.5),
        gpu(1900, throttled_by="heat"),
        gpu(1900, throttled_by=(7,)),
        gpu(1900, device=None),
    ],
)
def test_readings_that_are_none_end_a_sensor_and_cost_no_run(tmp_path, junk):
    class Broken(Scripted):
        def read(self, own):
            found = super().read(own)
            if found == [junk] or found[0] is junk:
                self.has_read_all.set()
            return found

    record = telemetry_of(Broken(gpu(1900), junk), tmp_path)
    assert [each.readings for each in record.devices] == [1]


def test_a_runs_next_stage_waits_for_no_sensor(tmp_path, monkeypatch):
    """The process that waits times bursts of samples by its own clock, and would find them shorter."""
    monkeypatch.setattr(module, "PATIENCE_S", 60)
    is_over, is_reading, order = threading.Event(), threading.Event(), []

    class Slow(Scripted):
        def read(self, own):
            is_reading.set()
            is_over.wait(20)
            order.append("reading")
            return super().read(own)

    with Telemetry([Slow(gpu(1900))], tmp_path, period_s=0.001) as telemetry:
        telemetry.note(ProgressMessage(stage="performance"))
        assert is_reading.wait(20)
        telemetry.note(ProgressMessage(stage="statistics"))
        order.append("next stage")
        is_over.set()
    assert order == ["next stage", "reading"]
    assert telemetry.record().devices[0].readings == 1


def test_a_sensor_that_cannot_be_opened_leaves_no_record(tmp_path):
    class Closed(Scripted):
        def __enter__(self):
            self.has_read_all.set()
            raise OSError("no driver")

    assert telemetry_of(Closed(*READINGS), tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_a_sensor_that_hangs_does_not_hold_up_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    is_over, turns = threading.Event(), count()

    class Hanging(Scripted):
        def read(self, own):
            if next(turns):
                self.has_read_all.set()
                is_over.wait()
            return super().read(own)

    try:
        record = telemetry_of(Hanging(*READINGS), tmp_path)
    finally:
        is_over.set()
    assert record.devices[0].readings == 1


@pytest.fixture
def run_at(a_run, tmp_path):
    """Return a function that returns a run whose GPU had readings."""

    def run_at(*readings, **changes):
        return a_run(telemetry=telemetry_of(Scripted(*readings), tmp_path).model_dump(mode="json"), **changes)

    return run_at


def test_a_runs_line_says_that_a_device_was_throttled_for_more_than_a_twentieth_of_the_time(run_at):
    hot = gpu(1200, throttled_by=("heat",))
    assert "with GPU 0 Anvil throttled 10% of the time for heat" in one_line(run_at(*[gpu(1900)] * 18, hot, hot))
    assert "throttled" not in one_line(run_at(*[gpu(1900)] * 39, hot))


def test_the_page_shows_a_device_without_what_it_does_not_show(run_at):
    shown = page(run_at(*READINGS))
    assert "GPU 0 Anvil            1,700 MHz, 1,200 at the least, 86 °C at the most, 600 W, 80% busy" in shown
    assert "processes beside the run's: 2, throttled 50% of the time for heat and 25% of the time for power" in shown
    assert "None" not in shown


def test_the_report_shows_it_too(run_at):
    assert details_of(run_at(*READINGS))["Devices during the test"]["GPU 0 Anvil"].startswith("1,700 MHz, 1,200 at")


@pytest.mark.parametrize(("clock_mhz", "is_said"), [(1900, False), (1850, False), (1840, True), (1960, True)])
def test_a_comparison_says_when_clocks_differ_by_more_than_three_percent(run_at, clock_mhz, is_said):
    base, new = run_at(gpu(1900), run_id="a"), run_at(gpu(clock_mhz), run_id="b")
    (cell,) = compare([base], [new]).cells
    words = f"the clock of GPU 0 Anvil was {clock_mhz:,} MHz on the new side, 1,900 MHz in the base"
    assert (words in cell.beside) is is_said


def test_a_record_survives_its_file(run_at):
    record = run_at(*READINGS).telemetry
    assert TelemetryRecord.model_validate_json(record.model_dump_json()) == record
