"""NVML: a counter of millijoules on each GPU board, since its driver was loaded (Volta and later).

Source: NVML API reference, nvmlDeviceGetTotalEnergyConsumption.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from mlbench import Energy, PowerMeter

INSTALL = "pip install 'mlbench-inference[power]'"
LIBRARY = "libnvidia-ml.so.1"
"""Comes with the driver; what the bindings load."""


class Nvml(PowerMeter):
    """Reads each GPU's counter at the beginning and at the end: nothing runs in between.

    All GPUs that the driver shows are counted, used or not; `Energy.parts` tells them apart. A GPU without a counter is
    left out; using its power instead would be an estimate.
    """

    name = "nvml"
    title = "energy counters of NVIDIA GPU boards"

    def __init__(self) -> None:
        self._began_mj: Mapping[str, int] = {}
        self._ended_mj: Mapping[str, int] = {}
        self._without: list[str] = []
        self._began_s = self._seconds = 0.0

    def probe(self) -> str:
        """Check the library of the driver, and that a GPU has a counter."""
        if fault := find_fault():
            return fault
        import pynvml

        try:
            with _library():
                counters = self._counters_mj()
        except pynvml.NVMLError as error:
            return f"{type(error).__name__}: {error}"
        return "" if counters else f"no GPU has an energy counter: {', '.join(self._without) or 'no GPU is shown'}"

    def __enter__(self) -> Self:
        """Read the counters."""
        with _library():
            self._began_mj = self._counters_mj()
        self._began_s = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Read the counters again."""
        self._seconds = time.monotonic() - self._began_s
        with _library():
            self._ended_mj = self._counters_mj()

    def energy(self) -> Energy:
        """Return the sum over all GPUs."""
        parts = {name: (self._ended_mj[name] - began_mj) / 1e3 for name, began_mj in self._began_mj.items()}
        others = "processor, memory, disks, fans, losses of the power supply"
        return Energy(
            joules=sum(parts.values()),
            seconds=self._seconds,
            source="NVML",
            covers=", ".join(parts),
            leaves_out=", ".join([*self._without, others]),
            parts=parts,
        )

    def _counters_mj(self) -> dict[str, int]:
        """Return the counter of each GPU that has one, by ``GPU 0 NVIDIA H200``."""
        import pynvml

        counters, self._without = {}, []
        for number in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(number)
            name = device_name(number, device)
            try:
                counters[name] = int(pynvml.nvmlDeviceGetTotalEnergyConsumption(device))
            except pynvml.NVMLError_NotSupported:
                self._without.append(name)
        return counters


@contextmanager
def _library() -> Iterator[None]:
    """Hold the driver's library open; it counts how often."""
    import pynvml

    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def device_name(number: int, device: Any) -> str:
    """Return ``GPU 0 NVIDIA H200``; bindings before version 12 give a name as bytes."""
    import pynvml

    name = pynvml.nvmlDeviceGetName(device)
    return f"GPU {number} {name.decode() if isinstance(name, bytes) else name}"


def find_fault() -> str:
    """Return why the driver's library cannot be used; empty where it can."""
    if find_spec("pynvml") is None:
        return f"nvidia-ml-py is not installed: {INSTALL}"
    import ctypes

    try:
        ctypes.CDLL(LIBRARY)  # a hundredth of the time that importing its bindings takes
    except OSError:
        return f"no NVIDIA driver: {LIBRARY} cannot be loaded"
    return ""
