"""A sensor: the state of a device while a run is measured, read once a second."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorReading:
    """The state of one device at one moment; None stands for a quantity that it does not show."""

    device: str
    """``GPU 0 NVIDIA H200``, ``host processors``; the same in every reading."""
    clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    busy: float | None = None
    """Share of the time in which it computed, 0 to 1, for whomever."""
    memory_bytes: int | None = None
    """Memory in use, by whomever."""
    received_bytes_per_s: float | None = None
    """Traffic on its link from the host; the next one to the host."""
    sent_bytes_per_s: float | None = None
    throttled_by: Sequence[str] = ()
    """Reasons why its clock is lowered now: ``power``, ``heat``. That it has nothing to do is none."""
    strangers: int | None = None
    """Processes that use it and are not the run's."""


class Sensor(AbstractContextManager["Sensor"], ABC):
    """Reads devices between its enter and its exit, in a process that waits for the run's own.

    Runs side by side enter and read it from several threads. What it raises ends the readings, and never the run.
    """

    name: str
    title: str = ""
    """One line for `mlbench list`."""

    @abstractmethod
    def probe(self) -> str:
        """Return the reason why it shows nothing on this machine, and the fix; empty when it shows something."""

    @abstractmethod
    def read(self, own: Collection[int]) -> Sequence[SensorReading]:
        """Return the state of each device now, within a fraction of a second and with little processor time.

        Args:
            own: numbers of the run's processes.
        """
