"""Parts of a machine that a submission describes and no run depends on: clock, caches, disks, network cards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.system.processor import text_of

_SECTOR_BYTES = 512
"""The unit of /sys/block/*/size, whatever the disk's own sectors are."""
_VIRTUAL = ("vd", "xvd")
"""A hypervisor's disks say that they rotate, whatever is below."""
_INFINIBAND = "32"
"""ARPHRD_INFINIBAND of the kernel's if_arp.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk of this machine, or what a hypervisor shows as one."""

    size_bytes: int
    kind: str
    """``NVMe SSD``, ``SSD``, ``HDD`` or ``virtual disk``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCard:
    """A port of a network card."""

    is_infiniband: bool
    speed_mbit: int | None
    """None where there is no link, or the driver does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHardware:
    """A machine's parts, from the kernel."""

    max_clock_mhz: float | None
    caches: Sequence[str]
    """As one core has them: ``L1 data 32K``."""
    disks: Sequence[Disk]
    network_cards: Sequence[NetworkCard]


def observe_host_hardware(root: Path = Path("/")) -> HostHardware:
    """Observe the machine; ``root`` is where /sys is."""
    cpu0 = root / "sys/devices/system/cpu/cpu0"
    clock_khz = text_of(cpu0 / "cpufreq/cpuinfo_max_freq")
    return HostHardware(
        max_clock_mhz=int(clock_khz) / 1000 if clock_khz.isdecimal() else None,
        caches=[*_caches(cpu0)],
        disks=[*_disks(root)],
        network_cards=[*_network_cards(root)],
    )


def _caches(cpu0: Path) -> Iterator[str]:
    for index in sorted(cpu0.glob("cache/index*")):
        level, kind, size = (text_of(index / name) for name in ("level", "type", "size"))
        if level and size:
            yield f"L{level} {'' if kind == 'Unified' else f'{kind.lower()} '}{size}"


def _disks(root: Path) -> Iterator[Disk]:
    """Yield disks that have a device behind them: no loops, no volumes made of others."""
    for disk in sorted((root / "sys/block").glob("*")):
        sectors = text_of(disk / "size")
        if (disk / "device").exists() and sectors.isdecimal() and int(sectors):
            yield Disk(size_bytes=int(sectors) * _SECTOR_BYTES, kind=_kind_of(disk))


def _kind_of(disk: Path) -> str:
    if disk.name.startswith(_VIRTUAL):
        return "virtual disk"
    if disk.name.startswith("nvme"):
        return "NVMe SSD"
    return "HDD" if text_of(disk / "queue/rotational") == "1" else "SSD"


def _network_cards(root: Path) -> Iterator[NetworkCard]:
    """Yield ports of cards that have a device behind them: no loopback, no bridge."""
    for port in sorted((root / "sys/class/net").glob("*")):
        if (port / "device").exists():
            speed = text_of(port / "speed")
            yield NetworkCard(
                is_infiniband=text_of(port / "type") == _INFINIBAND,
                speed_mbit=int(speed) if speed.isdecimal() and int(speed) else None,
            )
