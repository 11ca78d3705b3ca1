"""A power meter: energy of a run, measured and never estimated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

AUTO, NONE = "auto", "none"
"""Reserved names that a request may have instead of a meter's: all available meters, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """A measurement between a meter's enter and exit."""

    joules: float
    seconds: float
    source: str
    """Source of the number: ``RAPL``."""
    covers: str
    """Measured parts: ``package-0, package-0 dram``."""
    leaves_out: str = ""
    """Parts of the machine that were not measured."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Joules of each separately measured part; their sum is `joules`."""
    readings: int = 2
    """How often the meter was read, including at begin and end."""


class PowerMeter(ABC):
    """A context manager around the measured section. One meter is used by one run at a time."""

    name: str
    title: str = ""
    """One line for `mlbench list`."""
    covers_machine: bool = False
    """Whether it measures the whole machine, as a wall meter does. Its reading is then used alone; readings of meters
    of parts are added up."""

    @abstractmethod
    def probe(self) -> str:
        """Return the reason why it cannot measure on this machine, and the fix; empty when it can."""

    @abstractmethod
    def __enter__(self) -> Self:
        """Start to measure. Until exit it must not take processor time from the run."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the measured section."""

    @abstractmethod
    def energy(self) -> Energy:
        """Return the energy of the last measured section."""
