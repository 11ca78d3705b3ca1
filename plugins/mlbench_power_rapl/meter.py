"""RAPL: counters of microjoules in the processor, which wrap around to zero."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from mlbench import Energy, PowerMeter

POWERCAP = Path("/sys/class/powercap")

MOST_W = 1000
"""An upper bound of a package's or memory's power: it gives the shortest time until a counter wraps."""

_LONGEST_PAUSE_S = 60.0
_OTHER_PARTS = "accelerators, disks, fans, losses of the power supply"


@dataclass(slots=True)
class Domain:
    """A part of the machine with its own counter."""

    name: str
    """``package-0``, ``package-0 dram``."""
    counter: Path
    range_uj: int
    """The counter's range: it wraps there."""
    _last_uj: int = field(default=0, init=False)
    _counted_uj: int = field(default=0, init=False)

    def begin(self) -> None:
        """Start counting."""
        self._last_uj, self._counted_uj = self._read_uj(), 0

    def count(self) -> None:
        """Add the energy since the last reading, with at most one wrap of the counter."""
        now_uj = self._read_uj()
        drawn_uj = now_uj - self._last_uj
        self._counted_uj += drawn_uj if drawn_uj >= 0 else drawn_uj + self.range_uj
        self._last_uj = now_uj

    @property
    def joules(self) -> float:
        """Energy since the start."""
        return self._counted_uj / 1e6

    def _read_uj(self) -> int:
        return int(self.counter.read_text())


class Rapl(PowerMeter):
    """Adds up packages and, where they have a counter, their memory, for all processes of the machine.

    A thread sleeps during the measured section and reads the counters often enough that none wraps twice: with the
    usual range of 262 kJ once a minute, some tens of microseconds each time. So it does not delay the run, and a
    separate process would gain nothing.
    """

    name = "rapl"
    title = "energy counters of processor packages and their memory"

    def __init__(self, powercap: Path = POWERCAP) -> None:
        """Store where the counters are."""
        self._powercap = powercap
        self._domains: Sequence[Domain] = ()
        self._thread = threading.Thread()
        self._over = threading.Event()
        self._readings = 0
        self._began_s = self._seconds = 0.0

    def probe(self) -> str:
        """Return the reason why the packages' counters cannot be read."""
        packages = [zone for zone in self._zones() if _name(zone).startswith("package")]
        if not packages:
            return f"{self._powercap} shows no RAPL package: no such processor or driver, or a virtual machine"
        for zone in packages:
            counter = zone / "energy_uj"
            try:
                int(counter.read_text())
            except PermissionError:
                return f"{counter} is readable by root only: sudo chmod a+r {self._powercap}/intel-rapl*/energy_uj"
            except (OSError, ValueError) as error:
                return f"{counter} cannot be read: {error}"
        return ""

    def __enter__(self) -> Self:
        """Read the counters, and start a thread that reads them before they wrap."""
        self._domains = list(filter(None, map(self._domain, self._zones())))
        pause_s = min([_LONGEST_PAUSE_S, *(each.range_uj / 1e6 / MOST_W / 2 for each in self._domains)])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(pause_s,), name="mlbench-rapl", daemon=True)
        self._readings = 1
        self._began_s = time.monotonic()
        for domain in self._domains:
            domain.begin()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Read the counters for the last time."""
        self._over.set()
        self._thread.join()
        self._read()
        self._seconds = time.monotonic() - self._began_s

    def energy(self) -> Energy:
        """Return the sum over all counters."""
        parts = {domain.name: domain.joules for domain in self._domains}
        has_memory = any(name.endswith("dram") for name in parts)
        return Energy(
            joules=sum(domain.joules for domain in self._domains),
            seconds=self._seconds,
            source="RAPL",
            covers=", ".join(parts),
            leaves_out=_OTHER_PARTS if has_memory else f"memory, {_OTHER_PARTS}",
            parts=parts,
            readings=self._readings,
        )

    def _watch(self, pause_s: float) -> None:
        while not self._over.wait(pause_s):
            self._read()

    def _read(self) -> None:
        for domain in self._domains:
            domain.count()
        self._readings += 1

    def _zones(self) -> list[Path]:
        """Return all zones of the main interface; ``intel-rapl-mmio`` shows the same counters once more."""
        return sorted(self._powercap.glob("intel-rapl:*"))

    def _domain(self, zone: Path) -> Domain | None:
        """Return the counter of a package or of memory; cores are in their package, and psys is about all of them."""
        name = _name(zone)
        if name == "dram":
            name = f"{_name(zone.with_name(zone.name.rpartition(':')[0]))} dram"
        elif not name.startswith("package"):
            return None
        try:
            domain = Domain(name, zone / "energy_uj", int((zone / "max_energy_range_uj").read_text()))
            domain.begin()
        except (OSError, ValueError):  # memory may be unreadable where packages are not; it is reported as left out
            return None
        return domain


def _name(zone: Path) -> str:
    try:
        return (zone / "name").read_text().strip()
    except (OSError, ValueError):
        return ""
