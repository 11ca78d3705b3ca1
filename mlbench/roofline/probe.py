"""Measures the peak rates of devices, with torch, in a separate process."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import psutil
import torch

from mlbench.errors import first_line
from mlbench.execution.processes.channel import Channel
from mlbench.roofline.ceilings import Ceiling, DeviceCeilings, MeasuredDevices, ProbeRequest

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.int8}
"""Precisions that torch multiplies matrices in, both on a CPU and on a GPU."""

_SIZES = {"cpu": (1024, 2048, 4096), "cuda": (4096, 8192, 16384)}
_SECONDS = 1.0
"""Seconds per size: long enough for clocks to settle."""

_BUFFER_BYTES = {"cpu": 2**30, "cuda": 2**32}
"""Size of the buffer that is read and written: larger than any cache."""

_MEMORY_SHARE = 8
"""At most this share of free memory is used for it."""


def measure_devices(request: ProbeRequest, channel: Channel) -> MeasuredDevices:
    """Return the ceilings of the CPU and of each kind of GPU."""
    torch.set_num_threads(request.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    devices = [torch.device("cpu")]
    if torch.cuda.is_available():
        first = {torch.cuda.get_device_name(number): number for number in reversed(range(torch.cuda.device_count()))}
        devices += [torch.device("cuda", number) for number in sorted(first.values())]
    with torch.inference_mode():
        return MeasuredDevices(measured=datetime.now(UTC), devices=[_ceilings(device, channel) for device in devices])


def _ceilings(device: torch.device, channel: Channel) -> DeviceCeilings:
    name = "cpu" if device.type == "cpu" else torch.cuda.get_device_name(device)
    operations, not_measured = {}, {}
    for precision, dtype in DTYPES.items():
        channel.progress(f"{name} {precision}")
        try:
            operations[precision] = max(_products(device, dtype), key=lambda found: found.per_s)
        except (RuntimeError, NotImplementedError) as error:  # torch has no such product here
            not_measured[precision] = first_line(error)
    channel.progress(f"{name} memory")
    return DeviceCeilings(
        device=name,
        operations=operations,
        bytes=max(_copies(device), key=lambda found: found.per_s),
        not_measured=not_measured,
    )


def _products(device: torch.device, dtype: torch.dtype) -> Iterator[Ceiling]:
    """Multiply square matrices of several sizes."""
    for size in _SIZES[device.type]:
        a, b = (_matrix(size, dtype, device) for _ in range(2))
        multiply = torch._int_mm if dtype is torch.int8 else torch.mm
        seconds = _fastest_s(lambda a=a, b=b, multiply=multiply: multiply(a, b), device)  # type: ignore[misc]
        yield Ceiling(per_s=2 * size**3 / seconds, how=f"matrices of {size} x {size}")


def _matrix(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if dtype is torch.int8:
        return torch.randint(-128, 128, (size, size), dtype=dtype, device=device)
    return torch.randn(size, size, device=device).to(dtype)


def _copies(device: torch.device) -> Iterator[Ceiling]:
    """Read a buffer, and copy one to another."""
    free = psutil.virtual_memory().available if device.type == "cpu" else torch.cuda.mem_get_info(device)[0]
    count = min(_BUFFER_BYTES[device.type], free // _MEMORY_SHARE) // 4
    source, target = torch.ones(count, device=device), torch.empty(count, device=device)
    mebibytes = f"{4 * count / 2**20:,.0f} MiB"
    yield Ceiling(per_s=4 * count / _fastest_s(source.sum, device), how=f"summing up {mebibytes}")
    yield Ceiling(per_s=8 * count / _fastest_s(lambda: target.copy_(source), device), how=f"copying {mebibytes}")


def _fastest_s(work: Callable[[], object], device: torch.device) -> float:
    """Return the minimum time of some work, repeated for a while: a peak is the undisturbed time."""
    fastest_s, until_s = math.inf, time.perf_counter() + _SECONDS
    while time.perf_counter() < until_s or fastest_s == math.inf:
        started_s = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        fastest_s = min(fastest_s, time.perf_counter() - started_s)
    return fastest_s
