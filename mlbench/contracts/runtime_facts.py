"""What a backend says of its runtime after a run: a record keeps it, and the roofline and published results read it.

A record holds it as one JSON object with the names of the fields below, those of ``extra`` beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

UNKNOWN: Literal["unknown"] = "unknown"
"""Instead of a number: the backend cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """Facts about a runtime. None: the backend does not say."""

    device: str | None = None
    """``cpu``, or the accelerator's name as torch gives it: the run is compared with its ceilings."""
    devices: int | Literal["unknown"] | None = None
    """How many accelerators the whole run used; None: one for each instance. A record has null for `UNKNOWN`."""
    compiled: str | None = None
    """Which graphs were compiled because this machine can, where a setting leaves that to the backend: ``prefill,
    decode``. Runs in which these differ are not compared. None: settings alone decided."""
    device_peak_memory_bytes: int | None = None
    """The most that the device held in memory of its own, weights included, since this process began. None: it has
    none, or the backend cannot tell."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What only this backend knows, such as threads, instruction set and versions: JSON values by name."""
