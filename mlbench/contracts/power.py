"""A power meter: what a run drew, measured and never estimated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

AUTO, NONE = "auto", "none"
"""What a request may name instead of a meter: all that can measure here, or none. No meter may be called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """What was measured between a meter's enter and exit."""

    joules: float
    seconds: float
    source: str
    """Where the number comes from: ``RAPL``."""
    covers: str
    """What it includes: ``package-0, package-0 dram``."""
    leaves_out: str = ""
    """What of the machine it does not include."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """The joules of each part that was measured by itself; their sum is `joules`."""
    readings: int = 2
    """How often the meter was read, begin and end included."""


class PowerMeter(ABC):
    """A context manager around the measured section. One meter is used by one run at a time."""

    name: str
    title: str = ""
    """One line for `mlbench list`."""
    covers_machine: bool = False
    """Whether it measures all that the machine draws, as a meter at the wall does. What such a meter says is taken
    alone; meters of parts are added up."""

    @abstractmethod
    def probe(self) -> str:
        """Return why it cannot measure on this machine, with what mends it; empty when it can."""

    @abstractmethod
    def __enter__(self) -> Self:
        """Begin to measure. What it does until exit must not take a processor from what is measured."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the measured section."""

    @abstractmethod
    def energy(self) -> Energy:
        """Return what the last measured section drew."""
