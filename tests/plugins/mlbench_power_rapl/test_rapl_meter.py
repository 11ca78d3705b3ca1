"""RAPL against a tree of files that behaves as sysfs does: counters that go up, and begin again when they are full."""

import os
import threading
from types import SimpleNamespace

import pytest
from mlbench_power_rapl.meter import Rapl

JOULE = 1_000_000  # in microjoules, the unit of the counters


class Zone:
    """One counter, which somebody advances."""

    def __init__(self, powercap, place, name, *, range_j, start_j=0.0):
        self.folder = powercap / place
        self.folder.mkdir(parents=True)
        (self.folder / "name").write_text(f"{name}\n")
        (self.folder / "max_energy_range_uj").write_text(f"{round(range_j * JOULE)}\n")
        self._range_uj = round(range_j * JOULE)
        self._uj = round(start_j * JOULE)
        self.drawn_j = 0.0
        self._show()

    def draw(self, joules):
        """Use so much energy."""
        self.drawn_j += joules
        self._uj = (self._uj + round(joules * JOULE)) % self._range_uj
        self._show()

    def _show(self):
        beside = self.folder / "beside"  # a file of sysfs is never seen half written
        beside.write_text(f"{self._uj}\n")
        beside.replace(self.folder / "energy_uj")


@pytest.fixture
def powercap(tmp_path):
    return tmp_path / "powercap"


def test_packages_and_their_memory_are_added_up_and_nothing_is_counted_twice(powercap):
    drawn = {
        Zone(powercap, "intel-rapl:0", "package-0", range_j=262143): 30,
        Zone(powercap, "intel-rapl:0:0", "core", range_j=262143): 20,  # part of its package
        Zone(powercap, "intel-rapl:0:1", "dram", range_j=65712): 5,  # not part of it
        Zone(powercap, "intel-rapl:1", "package-1", range_j=262143, start_j=1000): 40,
        Zone(powercap, "intel-rapl:1:0", "dram", range_j=65712): 6,
        Zone(powercap, "intel-rapl:2", "psys", range_j=262143): 90,  # the packages once more, and what is around them
        Zone(powercap, "intel-rapl-mmio:0", "package-0", range_j=262143): 30,  # the first once more
    }
    meter = Rapl(powercap)
    assert meter.probe() == ""
    with meter:
        for zone, joules in drawn.items():
            zone.draw(joules)
    energy = meter.energy()
    assert energy.parts == {"package-0": 30, "package-0 dram": 5, "package-1": 40, "package-1 dram": 6}
    assert energy.joules == 81
    assert energy.covers == "package-0, package-0 dram, package-1, package-1 dram"
    assert (energy.source, energy.readings) == ("RAPL", 2)
    assert not energy.leaves_out.startswith("memory")


def test_what_was_drawn_before_and_after_is_not_in_it(powercap):
    package = Zone(powercap, "intel-rapl:0", "package-0", range_j=262143)
    meter = Rapl(powercap)
    for joules in (7, 11):
        package.draw(500)
        with meter:
            package.draw(joules)
        package.draw(500)
        assert meter.energy().joules == joules


def test_a_counter_that_is_full_begins_again_and_nothing_is_lost(powercap):
    package = Zone(powercap, "intel-rapl:0", "package-0", range_j=262143, start_j=262140)
    with (meter := Rapl(powercap)):
        package.draw(10)
    assert meter.energy().joules == pytest.approx(10, abs=1e-5)


class Pauses:
    """The event that a meter's thread waits for, on a clock that only the test moves."""

    def __init__(self):
        self.lengths_s = []
        self._changed = threading.Condition()
        self._is_set, self._to_pass = False, 0

    def wait(self, seconds):
        with self._changed:
            self.lengths_s.append(seconds)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_set or self._to_pass)
            self._to_pass = 0
            return self._is_set

    def set(self):
        with self._changed:
            self._is_set = True
            self._changed.notify_all()

    def pass_one(self):
        """Let the pause end in which the thread is or will be; return when it is in the next."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.lengths_s, 60)
            begun, self._to_pass = len(self.lengths_s), 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: len(self.lengths_s) > begun, 60)


@pytest.fixture
def pauses(monkeypatch):
    found = Pauses()
    monkeypatch.setattr(
        "mlbench_power_rapl.meter.threading", SimpleNamespace(Thread=threading.Thread, Event=lambda: found)
    )
    return found


def test_a_counter_that_is_full_again_and_again_is_read_in_between(powercap, pauses):
    """40 J at up to 1000 W: full after 40 ms at the soonest, so looked at every 20 ms."""
    package = Zone(powercap, "intel-rapl:0", "package-0", range_j=40)
    with (meter := Rapl(powercap)):
        for _ in range(10):
            package.draw(15)
            pauses.pass_one()
    energy = meter.energy()
    assert energy.joules == pytest.approx(150, rel=1e-4)
    assert energy.readings == 12
    assert set(pauses.lengths_s) == {0.02}
    assert energy.seconds > 0


def test_a_large_counter_is_left_alone_for_a_minute(powercap, pauses):
    Zone(powercap, "intel-rapl:0", "package-0", range_j=262143)
    with (meter := Rapl(powercap)):
        pauses.pass_one()
    assert pauses.lengths_s == [60.0, 60.0]
    assert meter.energy().readings == 3, "at the beginning, after a minute, and at the end"


def test_no_counter_is_a_reason(powercap):
    assert "shows no RAPL package" in Rapl(powercap).probe()
    Zone(powercap, "intel-rapl:0", "psys", range_j=262143)
    assert "shows no RAPL package" in Rapl(powercap).probe()


def test_memory_without_a_counter_is_reported_as_left_out(powercap):
    Zone(powercap, "intel-rapl:0", "package-0", range_j=262143)
    with (meter := Rapl(powercap)):
        pass
    assert meter.energy().leaves_out.startswith("memory, ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_counters_that_only_root_may_read_are_named_with_what_mends_it(powercap):
    package = Zone(powercap, "intel-rapl:0", "package-0", range_j=262143)
    (package.folder / "energy_uj").chmod(0)
    assert "intel-rapl:0/energy_uj is readable by root only: sudo chmod a+r" in Rapl(powercap).probe()


def test_a_counter_that_may_not_be_read_is_named_with_what_mends_it(powercap, monkeypatch):
    """The same as root, who may read all: the refusal is the kernel's, here said by the file's own `read_text`."""
    package = Zone(powercap, "intel-rapl:0", "package-0", range_j=262143)
    kind, read_text = type(package.folder), type(package.folder).read_text

    def refused(path, *arguments, **more):
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *arguments, **more)

    monkeypatch.setattr(kind, "read_text", refused)
    reason = Rapl(powercap).probe()
    assert reason.startswith(f"{powercap}/intel-rapl:0/energy_uj is readable by root only: sudo chmod a+r {powercap}/")


def test_a_counter_that_says_no_number_is_a_reason(powercap):
    package = Zone(powercap, "intel-rapl:0", "package-0", range_j=262143)
    (package.folder / "energy_uj").write_text("off\n")
    assert "energy_uj cannot be read" in Rapl(powercap).probe()
