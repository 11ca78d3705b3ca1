"""Which meters measure a run, what they say together, and what is said when they cannot."""

import time

import pytest

from mlbench import Energy, PowerMeter, UsageError
from mlbench.discovery import Plugins
from mlbench.measurement.metering import Metering


class Steady(PowerMeter):
    """Draws ten watts."""

    def __init__(self, name, *, reason="", covers_machine=False):
        self.name = name
        self.covers_machine = covers_machine
        self._reason = reason

    def probe(self):
        return self._reason

    def __enter__(self):
        self._began_s = time.monotonic()
        return self

    def __exit__(self, *_):
        self._seconds = time.monotonic() - self._began_s

    def energy(self):
        joules = 10 * self._seconds
        return Energy(
            joules=joules, seconds=self._seconds, source=self.name, covers=f"{self.name}s", parts={self.name: joules}
        )


class Breaking(Steady):
    def energy(self):
        raise OSError("the counter is gone")


def metering(power, *meters):
    return Metering.from_request(power, Plugins(power_meters={meter.name: meter for meter in meters}))


def values(metered, **counts):
    with metered:
        time.sleep(0.05)
    return metered.record(**{"samples": 10, "tokens": None, **counts})


def test_meters_of_parts_are_added_up():
    found = values(metering("auto", Steady("cpu"), Steady("gpu"), Steady("tpu", reason="no such board")))
    assert found.parts.keys() == {"cpu", "gpu"}
    assert found.joules == sum(found.parts.values())
    assert (found.source, found.covers) == ("cpu, gpu", "cpus, gpus")
    assert 0.05 * 20 <= found.joules == pytest.approx(20 * found.seconds, rel=0.05)


def test_a_meter_of_the_whole_machine_is_taken_alone():
    assert values(metering("auto", Steady("cpu"), Steady("wall", covers_machine=True))).source == "wall"


def test_a_meter_that_is_named_is_taken_alone():
    assert values(metering("cpu", Steady("cpu"), Steady("gpu"))).source == "cpu"


def test_energy_is_shared_among_samples_and_tokens():
    found = values(metering("cpu", Steady("cpu")), samples=4, tokens=100.0)
    assert found.joules_per_sample == found.joules / 4
    assert found.joules_per_token == found.joules / 100


def test_idle_power_is_measured_by_the_same_meters():
    metered = metering("cpu", Steady("cpu"))
    metered.watch_idle(0.05)
    assert values(metered).idle_w == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(
    ("power", "meters", "reason"),
    [
        ("none", [Steady("cpu")], "not asked for"),
        ("auto", [], "no power meter is installed"),
        ("auto", [Steady("cpu", reason="no counter"), Steady("gpu", reason="no driver")],
         "cpu: no counter; gpu: no driver"),
        ("auto", [Breaking("cpu")], "a meter failed: OSError: the counter is gone"),
    ],
)  # fmt: skip
def test_where_nothing_is_measured_the_reason_is_told(power, meters, reason):
    metered = metering(power, *meters)
    assert values(metered) is None
    assert metered.reason == reason


def test_without_a_meter_nobody_waits_to_see_the_machine_idle():
    started_s = time.monotonic()
    metering("auto").watch_idle(5)
    assert time.monotonic() - started_s < 1


def test_an_unknown_meter_is_named():
    with pytest.raises(UsageError, match=r"unknown power meter 'rapel'.*'rapl'"):
        metering("rapel", Steady("rapl"))
