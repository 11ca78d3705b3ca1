"""AMD SMI's sensor: answers in the form that its reference documents become readings; no GPU was asked."""

from dataclasses import replace

import pytest
from mlbench_rocm.sensor import AmdSmiAnswers, AmdSmiSensor

ANSWERS = AmdSmiAnswers(
    chip={"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002"},
    clock={"clk": 2100, "min_clk": 132, "max_clk": 2100, "clk_locked": False, "clk_deep_sleep": 0},
    power={"current_socket_power": 141, "average_socket_power": "N/A", "power_limit": 750000000},
    use={"gfx_activity": 25, "umc_activity": 3, "mm_activity": "N/A"},
    memory={"vram_total": 196592, "vram_used": 3},
    temperature_c=42,
    processes=[{"name": "python", "pid": 7}, {"name": "python", "pid": 8}, {"name": "N/A", "pid": 9}],
)


def test_a_gpu_shows_its_clock_heat_power_use_memory_and_strangers():
    found = ANSWERS.reading(1, own=[7, 9])
    assert found.device == "GPU 1 AMD Instinct MI300X"
    assert (found.clock_mhz, found.temperature_c, found.power_w, found.busy) == (2100, 42, 141, 0.25)
    assert (found.memory_bytes, found.strangers) == (3 * 1024 * 1024, 1)


def test_an_older_gpu_shows_an_average_of_its_power():
    power = {"current_socket_power": "N/A", "average_socket_power": 90}
    assert replace(ANSWERS, power=power).reading(0, own=[]).power_w == 90


def test_what_a_gpu_does_not_show_is_none():
    nothing = AmdSmiAnswers(
        chip={}, clock={"clk": "N/A"}, power={}, use={}, memory={}, temperature_c=None, processes=None
    )
    found = nothing.reading(0, own=[])
    assert found.device == "GPU 0 AMD"
    assert {found.clock_mhz, found.temperature_c, found.power_w, found.busy, found.memory_bytes, found.strangers} == {
        None
    }


def test_a_machine_without_the_bindings_says_so():
    if not (reason := AmdSmiSensor().probe()):
        pytest.skip("AMD SMI is here")
    assert "amdsmi is not installed; it comes with ROCm" in reason or "dev/kfd" in reason
