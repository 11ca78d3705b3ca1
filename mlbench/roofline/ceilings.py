"""The ceilings of a machine: measured once, kept in the cache under what they depend on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, Field, ValidationError

from mlbench.errors import DataError, MlbenchError
from mlbench.execution.processes.isolation import ChildFunction, Failure, OnProgress, ProcessLimits, call_isolated
from mlbench.records.environment import Environment
from mlbench.records.store.whole_file import write_whole
from mlbench.records.stored import Stored
from mlbench.system.documents import read_json
from mlbench.system.folders import cache_folder, make_cache_folder
from mlbench.system.processor import usable_threads

_LIBRARIES = ("torch", "numpy")
_SILENCE_S = 300.0


class Ceiling(Stored):
    """A peak rate, and how it was reached."""

    per_s: Annotated[float, Field(gt=0)]
    how: str
    """``4096 x 4096 matrices``."""


class DeviceCeilings(Stored):
    """Peak rates of one device."""

    device: str
    """``cpu``, or the accelerator's name."""
    operations: dict[str, Ceiling]
    """Peak of matrix products by precision; a multiply-add is two operations."""
    bytes: Ceiling
    """Peak memory bandwidth, reads and writes together."""
    not_measured: dict[str, str]
    """Precisions without a ceiling, and why."""


class MeasuredDevices(Stored):
    """Peak rates of a machine's devices."""

    measured: AwareDatetime
    devices: list[DeviceCeilings]


class Ceilings(MeasuredDevices):
    """Peak rates of a machine, with the conditions of their measurement."""

    machine: str
    """The machine, as `Environment.machine`."""
    threads: int
    """CPU threads that were used."""
    libraries: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """The request to the measuring process."""

    threads: int
    """CPU threads to use."""


_CACHE = "roofline"


def ceilings_file(environment: Environment) -> Path:
    """Return where the ceilings of a machine are kept: they depend on hardware, allowance, drivers and libraries."""
    allowance = environment.allowance
    facts = [
        *(environment.machine, allowance.threads, allowance.cpu_quota, environment.kernel),
        *(f"{each.name} {each.driver} {each.power_limit_w}" for each in environment.accelerators),
        *(environment.libraries.get(name, "") for name in _LIBRARIES),
    ]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    return cache_folder() / _CACHE / f"{key}.json"


def load_ceilings(environment: Environment) -> Ceilings | None:
    """Return this machine's measured ceilings; None without any, or if the file is damaged."""
    try:
        return Ceilings.model_validate(read_json(ceilings_file(environment), what="ceilings"))
    except (DataError, ValidationError):
        return None


def measure_ceilings(environment: Environment, on_progress: OnProgress = lambda progress: None) -> Ceilings:
    """Measure this machine, for some seconds a precision, and keep what was found.

    Raises:
        UnavailableError: torch is not installed.
        UsageError: the cache cannot be written.
        MlbenchError: the measurement failed.
    """
    file = make_cache_folder(_CACHE) / ceilings_file(environment).name
    log = file.with_suffix(".log")
    memory_bytes = environment.allowance.memory_bytes or environment.memory_bytes or 2**33
    threads = usable_threads()
    found = call_isolated(
        ChildFunction("mlbench.roofline.probe:measure_devices", MeasuredDevices),
        ProbeRequest(threads=threads),
        log,
        ProcessLimits.for_helper(_SILENCE_S, free_bytes=memory_bytes),
        on_progress,
    )
    if isinstance(found, Failure):
        raise MlbenchError(f"the ceilings could not be measured: {found.kind}: {found.message}.", hint=f"See {log}.")
    ceilings = Ceilings(
        measured=found.measured,
        devices=found.devices,
        machine=environment.machine,
        threads=threads,
        libraries={name: environment.libraries[name] for name in _LIBRARIES if name in environment.libraries},
    )
    write_whole(file, ceilings.model_dump_json(indent=2) + "\n")
    return ceilings
