"""AMD SMI: clock, temperature, power, use and memory of each AMD GPU.

Source: AMD SMI Python API reference, version 7.0, and its bindings. It was never run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from mlbench import Sensor, SensorReading
from mlbench_rocm.devices import obstacles


class AmdSmiSensor(Sensor):
    """Shows each GPU that the driver shows; why a clock is lowered is not asked, which takes tenths of a second."""

    name = "amdsmi"
    title = "clocks, temperature, power and memory of AMD GPUs"

    def probe(self) -> str:
        """Look for the driver's files and the bindings, which load the driver's library when they are imported."""
        reasons = list(obstacles())
        if find_spec("amdsmi") is None:
            reasons.append("amdsmi is not installed; it comes with ROCm")
        return " and ".join(reasons)

    def __enter__(self) -> Self:
        """Open the driver's library."""
        import amdsmi

        amdsmi.amdsmi_init()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        import amdsmi

        amdsmi.amdsmi_shut_down()

    def read(self, own: Collection[int]) -> Sequence[SensorReading]:
        """Return the state of each GPU."""
        import amdsmi

        handles = amdsmi.amdsmi_get_processor_handles()
        return [_ask(handle).reading(number, own) for number, handle in enumerate(handles)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdSmiAnswers:
    """What the library says of a GPU: each of its dictionaries as it is, empty where the GPU has none.

    A number that the GPU does not show is ``N/A``.
    """

    chip: Mapping[str, Any]
    clock: Mapping[str, Any]
    power: Mapping[str, Any]
    use: Mapping[str, Any]
    memory: Mapping[str, Any]
    temperature_c: Any
    processes: Sequence[Mapping[str, Any]] | None

    def reading(self, number: int, own: Collection[int]) -> SensorReading:
        """Return the state of the GPU of this number, given the run's processes."""
        power_w = _number(self.power.get("current_socket_power")) or _number(self.power.get("average_socket_power"))
        busy, used = _number(self.use.get("gfx_activity")), _number(self.memory.get("vram_used"))
        return SensorReading(
            device=f"GPU {number} {self.chip.get('market_name', 'AMD')}",
            clock_mhz=_number(self.clock.get("clk")),
            temperature_c=_number(self.temperature_c),
            power_w=power_w,
            busy=None if busy is None else busy / 100,
            memory_bytes=None if used is None else int(used * 2**20),
            strangers=None if self.processes is None else len({each["pid"] for each in self.processes} - set(own)),
        )


def _number(answer: object) -> float | None:
    return answer if isinstance(answer, int | float) else None


def _ask(gpu: Any) -> AmdSmiAnswers:
    """Ask the library about a GPU."""
    import amdsmi

    def ask(question: Callable[..., Any], *details: object, otherwise: Any = None) -> Any:
        try:
            return question(gpu, *details)
        except amdsmi.AmdSmiException:  # this GPU has no answer
            return otherwise

    hottest, now = amdsmi.AmdSmiTemperatureType.HOTSPOT, amdsmi.AmdSmiTemperatureMetric.CURRENT
    return AmdSmiAnswers(
        chip=ask(amdsmi.amdsmi_get_gpu_asic_info, otherwise={}),
        clock=ask(amdsmi.amdsmi_get_clock_info, amdsmi.AmdSmiClkType.GFX, otherwise={}),
        power=ask(amdsmi.amdsmi_get_power_info, otherwise={}),
        use=ask(amdsmi.amdsmi_get_gpu_activity, otherwise={}),
        memory=ask(amdsmi.amdsmi_get_gpu_vram_usage, otherwise={}),
        temperature_c=ask(amdsmi.amdsmi_get_temp_metric, hottest, now),
        processes=ask(amdsmi.amdsmi_get_gpu_process_list),
    )
