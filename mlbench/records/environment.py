"""The machine's state when a run was made.

Nothing personal: no user, host or serial number, no environment variables.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from mlbench.records.commits import find_plugins, observe_commits, observe_plugins
from mlbench.records.machine.accelerators import Accelerator, device_files, observe_nvidia_gpus
from mlbench.records.machine.amd_gpus import observe_amd_gpus
from mlbench.records.machine.cpu import Cpu, observe_cpu
from mlbench.records.stored import Count, Stored
from mlbench.system.installed import versions_of
from mlbench.system.processor import control_groups, cpu_quota, text_of

LIBRARIES = (
    *("mlcommons-loadgen", "numpy", "scipy", "pydantic"),
    *("torch", "torchvision", "onnx", "onnxscript", "onnxruntime", "onnxruntime-gpu"),
    *("tensorrt", "openvino", "vllm", "transformers", "tokenizers", "diffusers"),
    *("safetensors", "opencv-python-headless", "pillow", "scikit-learn"),
)
"""Distributions whose version can affect speed or results."""

_NO_LIMIT_BYTES = 2**60
"""Above it, version 1 of control groups means no limit."""


class Allowance(Stored):
    """The part of the machine that this process may use; null: all of it."""

    threads: Count | None
    """Hardware threads it may run on; null where unknown."""
    cpu_quota: float | None
    """CPU quota in processors: 2.0 is two processors."""
    memory_bytes: int | None
    container: str | None
    """``docker``, ``podman`` or ``kubernetes``, if recognised."""
    image: str | None = None
    """The container's image with its id, where known."""


class Environment(Stored):
    """A machine and its software, at one moment."""

    machine: str
    """A hash of the hardware: runs with different hashes were made on different machines."""
    cpu: Cpu
    memory_bytes: int | None
    allowance: Allowance
    accelerators: list[Accelerator]
    accelerator_problem: str = ""
    """Reason why there may be more accelerators, such as a driver's tool that fails; empty otherwise."""
    devices: list[str]
    """Device files of accelerators, with or without a working driver."""
    os: str
    kernel: str
    libc: str
    python: str
    load_average: float | None
    """Load average of the last minute: a busy machine gives noisy numbers."""
    libraries: dict[str, str]
    """Versions by distribution name: of libraries, and of plugins that others brought."""
    commits: dict[str, str] = Field(default_factory=dict)
    """Commits of mlbench and installed plugins by distribution name, where installed from a repository."""

    @property
    def processor(self) -> str:
        """The processor with the threads that may be used, and a quota: ``AMD EPYC 9374F, 8 threads, quota 2``."""
        threads, quota = self.allowance.threads, self.allowance.cpu_quota
        named = self.cpu.model if threads is None else f"{self.cpu.model}, {threads} threads"
        return named if quota is None else f"{named}, quota {quota:g}"

    def with_libraries(self, versions: Mapping[str, str]) -> Environment:
        """Return it with the versions of more libraries: a backend names those that it runs on (`Probe.versions`)."""
        return self.model_copy(update={"libraries": {**self.libraries, **versions}})


def observe_environment(root: Path = Path("/")) -> Environment:
    """Observe the machine; ``root`` is where /proc, /sys, /dev and /etc are."""
    cpu, memory_bytes = observe_cpu(root), _memory_bytes(root)
    nvidia_gpus, problem = observe_nvidia_gpus(root)
    accelerators, plugins = [*nvidia_gpus, *observe_amd_gpus(root)], find_plugins()
    return Environment(
        machine=_machine(cpu, memory_bytes, accelerators),
        cpu=cpu,
        memory_bytes=memory_bytes,
        allowance=_allowance(root),
        accelerators=accelerators,
        accelerator_problem=problem,
        devices=device_files(root),
        os=_os_name(root),
        kernel=f"{platform.system()} {platform.release()}",
        libc=" ".join(platform.libc_ver()).strip(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        load_average=_load_average(root),
        libraries={**versions_of(LIBRARIES), **observe_plugins(plugins)},
        commits=observe_commits(plugins),
    )


def _machine(cpu: Cpu, memory_bytes: int | None, accelerators: list[Accelerator]) -> str:
    """Hash what identifies the machine; kernels reserve different amounts of memory, hence whole GiB."""
    facts = [cpu.model, cpu.architecture, cpu.sockets, cpu.cores, cpu.threads]
    gib = round((memory_bytes or 0) / 2**30)
    text = json.dumps([*facts, gib, *sorted(accelerator.name for accelerator in accelerators)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _memory_bytes(root: Path) -> int | None:
    found = re.search(r"^MemTotal:\s*(\d+) kB", text_of(root / "proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _os_name(root: Path) -> str:
    found = re.search(r'^PRETTY_NAME="?(.*?)"?$', text_of(root / "etc/os-release"), re.MULTILINE)
    return found[1] if found else platform.system()


def _load_average(root: Path) -> float | None:
    first, _, _ = text_of(root / "proc/loadavg").partition(" ")
    return float(first) if first else None


def _allowance(root: Path) -> Allowance:
    memories = [limit for group in control_groups(root) if (limit := _memory_limit(group)) is not None]
    return Allowance(
        threads=len(os.sched_getaffinity(0)),
        cpu_quota=cpu_quota(root),
        memory_bytes=min(memories, default=None),
        container=_container(root),
        image=_image(root),
    )


def _memory_limit(group: Path) -> int | None:
    text = text_of(group / "memory.max") or text_of(group / "memory.limit_in_bytes")
    return int(text) if text.isdigit() and int(text) < _NO_LIMIT_BYTES else None


def _container(root: Path) -> str | None:
    groups = text_of(root / "proc/1/cgroup")
    if "kubepods" in groups or (root / "var/run/secrets/kubernetes.io").exists():
        return "kubernetes"
    if (root / "run/.containerenv").exists():
        return "podman"
    return "docker" if (root / ".dockerenv").exists() or "docker" in groups else None


def _image(root: Path) -> str | None:
    """Return the image as podman reports it inside a container; Docker and Kubernetes do not report it."""
    told = dict(re.findall(r'^(image|imageid)="(.+)"$', text_of(root / "run/.containerenv"), re.MULTILINE))
    return " ".join(told[key] for key in ("image", "imageid") if key in told) or None
