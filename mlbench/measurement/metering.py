"""Power meters around the measured section, and around an idle pause before it."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Self

from mlbench.contracts.power import AUTO, NONE, Energy, PowerMeter
from mlbench.discovery import Plugins
from mlbench.records.run_outcome import NO_METERING
from mlbench.records.work_record import EnergyRecord

logger = logging.getLogger(__name__)

IDLE_S = 2.0
"""How long idle power is measured, before the test."""


class Metering:
    """A context manager that measures with all its meters, or has the reason why not; it never raises."""

    def __init__(self, meters: Sequence[PowerMeter], reason: str = "") -> None:
        """Store the available meters, or why there are none."""
        self._meters = meters
        self._stack = ExitStack()
        self._energies: list[Energy] = []
        self._idle_w: float | None = None
        self.reason = reason
        """Reason why energy is not measured."""

    @classmethod
    def from_request(cls, power: str, plugins: Plugins) -> Self:
        """Return the metering that a request names: ``auto``, ``none``, or a meter."""
        if power == NONE:
            return cls([], NO_METERING)
        reasons = plugins.meter_faults() if power == AUTO else {power: plugins.meter_fault(power)}
        able = [plugins.power_meters[name] for name, reason in reasons.items() if not reason]
        if not able:
            told = [f"{name}: {reason}" for name, reason in reasons.items()]
            return cls([], "; ".join(told) or "no power meter is installed")
        whole = [meter for meter in able if meter.covers_machine]
        return cls(whole[:1] or able)

    def watch_idle(self, wait: Callable[[float], None] = time.sleep) -> None:
        """Measure the idle power for `IDLE_S`, if possible."""
        if self._meters:
            with self:
                wait(IDLE_S)
            self._guard(self._note_idle)

    def _note_idle(self) -> None:
        if self._energies:
            idle = _together(self._energies)
            self._idle_w = idle.joules / idle.seconds

    def __enter__(self) -> Self:
        self._energies = []
        self._guard(lambda: [self._stack.enter_context(meter) for meter in self._meters])
        return self

    def __exit__(self, *_: object) -> None:
        self._guard(self._stack.close)
        self._guard(lambda: self._energies.extend(meter.energy() for meter in self._meters))

    def record(self, *, samples: int, tokens: float | None) -> EnergyRecord | None:
        """Return the energy of the last section; None with `reason` set if unknown."""
        if not self._energies:
            return None
        energy = _together(self._energies)
        return EnergyRecord(
            **dataclasses.asdict(energy),
            idle_w=self._idle_w,
            idle_seconds=None if self._idle_w is None else IDLE_S,
            joules_per_sample=energy.joules / samples if samples else None,
            joules_per_token=energy.joules / tokens if tokens else None,
        )

    def _guard(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # a plugin's code, called in the middle of a test
            logger.exception("a power meter failed")
            self.reason = f"a meter failed: {type(error).__name__}: {error}"
            self._meters, self._energies = [], []


def _together(energies: Sequence[Energy]) -> Energy:
    """Add up simultaneous measurements of different parts."""
    return Energy(
        joules=sum(each.joules for each in energies),
        seconds=max(each.seconds for each in energies),
        source=", ".join(each.source for each in energies),
        covers=", ".join(each.covers for each in energies),
        leaves_out="; ".join(f"{each.source}: {each.leaves_out}" for each in energies if each.leaves_out),
        parts={name: joules for each in energies for name, joules in each.parts.items()},
        readings=max(each.readings for each in energies),
    )
