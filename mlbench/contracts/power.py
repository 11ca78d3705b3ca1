"""A power meter: what a run drew, measured and never estimated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """What was measured between a meter's enter and exit."""

    joules: float
    seconds: float
    source: str
    """Where the number comes from: ``RAPL package-0``."""
    covers: str
    """What it includes: ``CPU package``, ``GPU board``."""


class PowerMeter(ABC):
    """A context manager around the measured section. One meter is used by one run at a time."""

    name: str

    @abstractmethod
    def probe(self) -> str:
        """Return why it cannot measure on this machine; empty when it can."""

    @abstractmethod
    def __enter__(self) -> Self:
        """Begin to measure."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the measured section."""

    @abstractmethod
    def energy(self) -> Energy:
        """Return what the last measured section drew."""
