"""Which meters measure a run, what they say together, and what is said when they cannot."""

import pytest

from mlbench import Energy, PowerMeter, UsageError
from mlbench.discovery import Plugins
from mlbench.measurement.metering import IDLE_S, Metering


class Clock:
    """Moves only when somebody waits."""

    now_s = 100.0

    def wait(self, seconds):
        self.now_s += seconds


CLOCK = Clock()


class Steady(PowerMeter):
    """Draws ten watts, by a clock that the test moves."""

    def __init__(self, name, *, reason="", covers_machine=False, leaves_out="", readings=2):
        self.name = name
        self.leaves_out, self.readings = leaves_out, readings
        self.covers_machine = covers_machine
        self._reason = reason

    def probe(self):
        return self._reason

    def __enter__(self):
        self._began_s = CLOCK.now_s
        return self

    def __exit__(self, *_):
        self._seconds = CLOCK.now_s - self._began_s

    def energy(self):
        joules = 10 * self._seconds
        return Energy(
            joules=joules,
            seconds=self._seconds,
            source=self.name,
            covers=f"{self.name}s",
            parts={self.name: joules},
            leaves_out=self.leaves_out,
            readings=self.readings,
        )


class Breaking(Steady):
    def energy(self):
        raise OSError("the counter is gone")


def metering(power, *meters):
    return Metering.from_request(power, Plugins(power_meters={meter.name: meter for meter in meters}))


def values(metered, **counts):
    with metered:
        CLOCK.wait(5)
    return metered.record(**{"samples": 10, "tokens": None, **counts})


def test_meters_of_parts_are_added_up():
    found = values(metering("auto", Steady("cpu"), Steady("gpu"), Steady("tpu", reason="no such board")))
    assert found.parts == {"cpu": 50, "gpu": 50}
    assert (found.source, found.covers) == ("cpu, gpu", "cpus, gpus")
    assert (found.joules, found.seconds) == (100, 5), "side by side"


def test_a_meter_of_the_whole_machine_is_taken_alone():
    assert values(metering("auto", Steady("cpu"), Steady("wall", covers_machine=True))).source == "wall"


def test_a_meter_that_is_named_is_taken_alone():
    assert values(metering("cpu", Steady("cpu"), Steady("gpu"))).source == "cpu"


def test_energy_is_shared_among_samples_and_tokens():
    found = values(metering("cpu", Steady("cpu")), samples=4, tokens=100.0)
    assert found.joules_per_sample == found.joules / 4
    assert found.joules_per_token == found.joules / 100


def test_what_was_not_counted_has_no_share_of_the_energy():
    found = values(metering("cpu", Steady("cpu")), samples=0, tokens=None)
    assert (found.joules_per_sample, found.joules_per_token) == (None, None)


def test_what_each_meter_leaves_out_is_reported_with_its_name():
    found = values(metering("auto", Steady("cpu", leaves_out="fans"), Steady("gpu"), Steady("tpu", leaves_out="disks")))
    assert found.leaves_out == "cpu: fans; tpu: disks"


def test_the_readings_are_those_of_the_meter_that_was_read_most():
    assert values(metering("auto", Steady("cpu", readings=2), Steady("gpu", readings=50))).readings == 50


def test_idle_power_is_measured_by_the_same_meters_for_two_seconds():
    metered = metering("auto", Steady("cpu"), Steady("gpu"))
    began_s = CLOCK.now_s
    metered.watch_idle(CLOCK.wait)
    assert CLOCK.now_s - began_s == IDLE_S == 2
    found = values(metered)
    assert (found.idle_w, found.idle_seconds) == (20, 2)
    assert found.joules == 100, "of the test alone"


def test_a_machine_that_was_not_watched_idle_has_no_idle_power():
    found = values(metering("cpu", Steady("cpu")))
    assert (found.idle_w, found.idle_seconds) == (None, None)


def test_a_meter_that_breaks_while_the_machine_idles_measures_nothing_later():
    metered = metering("cpu", Breaking("cpu"))
    metered.watch_idle(CLOCK.wait)
    assert values(metered) is None
    assert metered.reason == "a meter failed: OSError: the counter is gone"


def test_a_meter_that_cannot_begin_lets_the_test_go_on():
    class Refusing(Steady):
        def __enter__(self):
            raise PermissionError("not allowed")

    metered = metering("cpu", Refusing("cpu"))
    assert values(metered) is None
    assert metered.reason == "a meter failed: PermissionError: not allowed"


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
def test_where_nothing_is_measured_the_reason_is_reported(power, meters, reason):
    metered = metering(power, *meters)
    assert values(metered) is None
    assert metered.reason == reason


def test_without_a_meter_no_idle_power_is_measured():
    waited = []
    metering("auto").watch_idle(waited.append)
    assert waited == []


def test_an_unknown_meter_is_named():
    with pytest.raises(UsageError, match=r"unknown power meter 'rapel'.*'rapl'"):
        metering("rapel", Steady("rapl"))
