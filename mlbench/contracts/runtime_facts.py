"""Facts that a backend reports about its runtime after a run; kept in records, used for the roofline.

A record holds them as one JSON object, with the fields below and the names in ``extra``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

UNKNOWN: Literal["unknown"] = "unknown"
"""Value for a number that the backend cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """Facts about a runtime. None: the backend does not report it."""

    device: str | None = None
    """``cpu``, or the accelerator's name as torch gives it: selects the ceilings for the roofline."""
    devices: int | Literal["unknown"] | None = None
    """Number of accelerators that the whole run used; None: one for each instance. A record has null for `UNKNOWN`."""
    compiled: str | None = None
    """Graphs that were compiled where a setting leaves that to the backend: ``prefill, decode``. Runs that differ in
    them are not compared. None: settings alone decided."""
    device_peak_memory_bytes: int | None = None
    """Peak memory of the device since this process began, weights included. None: the device has no memory of its own,
    or the backend cannot tell."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Facts that only this backend has, such as threads, instruction set and versions: JSON values by name."""
