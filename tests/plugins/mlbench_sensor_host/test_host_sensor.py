"""The host's sensor: on this machine, and on files as the kernel of a physical one shows them."""

import time

import pytest
from mlbench_sensor_host.sensor import Host


@pytest.fixture
def system(tmp_path):
    """Return a folder as /sys/devices/system/cpu of two processors, with their clocks in kHz."""
    for number, khz in enumerate((2_400_000, 1_800_000)):
        for file, text in (("cpufreq/scaling_cur_freq", khz), ("thermal_throttle/package_throttle_count", 3)):
            path = tmp_path / f"cpu{number}" / file
            path.parent.mkdir(parents=True)
            path.write_text(f"{text}\n")
    (tmp_path / "cpufreq").mkdir()  # no processor
    return tmp_path


def test_this_machine_shows_its_use_and_its_memory():
    with Host() as sensor:
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            pass
        (reading,) = sensor.read(own=())
    assert 0 < reading.busy <= 1
    assert reading.memory_bytes > 1 << 24
    assert reading.strangers is None


def test_the_clock_is_the_mean_of_the_processors(system):
    with Host(system) as sensor:
        (reading,) = sensor.read(own=())
    assert (reading.clock_mhz, reading.throttled_by) == (2100, ())


def test_it_was_throttled_if_the_kernel_counted_once_more_since_the_reading_before(system):
    count = system / "cpu1/thermal_throttle/package_throttle_count"
    with Host(system) as sensor:
        count.write_text("4\n")
        assert sensor.read(own=())[0].throttled_by == ("heat",)
        assert sensor.read(own=())[0].throttled_by == ()


def test_a_virtual_machine_without_these_files_has_no_clock(tmp_path):
    with Host(tmp_path) as sensor:
        (reading,) = sensor.read(own=())
    assert (reading.clock_mhz, reading.throttled_by) == (None, ())
