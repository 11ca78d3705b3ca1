"""``mlbench doctor``: describe this machine, its noise, and the missing parts of each backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mlbench.cli.output import echo_line, echo_wrapped
from mlbench.discovery import Plugins
from mlbench.reports.units import with_prefix
from mlbench.system.folders import cache_folder, data_folder, results_folder, system_settings_file
from mlbench.system.processor import usable_threads

if TYPE_CHECKING:
    from mlbench.records.environment import Environment
    from mlbench.records.machine.noise import Noise

INDENT = 12
"""Width of the first column."""


@click.command("doctor")
def command() -> None:
    """Describe the machine, measure its noise for a second, and list what each backend still needs."""
    from mlbench.records.environment import observe_environment
    from mlbench.records.machine.noise import measure_noise
    from mlbench.system.documents import is_file

    environment = observe_environment()
    for line in describe_machine(environment):
        echo_wrapped(line, INDENT)
    for line in describe_noise(measure_noise(), environment.load_average):
        echo_wrapped(line, INDENT)
    echo_line(f"results     {results_folder()}")
    echo_line(f"cache       {cache_folder()}")
    echo_line(f"data        {data_folder()}{'' if data_folder().is_dir() else ' (none)'}")
    echo_line(f"settings    {system_settings_file()}{'' if is_file(system_settings_file()) else ' (none)'}")
    for line in _ceilings(environment):
        echo_wrapped(line, INDENT)
    for line in _plugins(Plugins.discover()):
        echo_wrapped(line, INDENT)


def describe_machine(environment: Environment) -> Iterator[str]:
    """Yield lines that describe the machine."""
    cpu, allowance = environment.cpu, environment.allowance
    quota = "" if allowance.cpu_quota is None else f", by a quota of {allowance.cpu_quota:g} processors"
    threads = f"{usable_threads()} of {cpu.threads} threads usable{quota}"
    yield f"processor   {cpu.model}, {cpu.cores or '?'} cores, {threads}"
    yield f"            {' '.join(cpu.flags) or 'no known vector instructions'}"
    if cpu.is_virtual:
        yield "            a virtual machine: neighbours may share its cores"
    yield f"memory      {(environment.memory_bytes or 0) / 2**30:.1f} GiB"
    for accelerator in environment.accelerators:
        yield f"accelerator {accelerator.name}, driver {accelerator.driver}"
    if environment.accelerator_problem:
        known = "not all may be known" if environment.accelerators else "unknown"
        yield f"accelerator {known}: {environment.accelerator_problem}"
    elif not environment.accelerators:
        yield "accelerator none found"
    yield f"system      {environment.os}, kernel {environment.kernel}, {environment.python}"
    yield f"libraries   {', '.join(f'{name} {version}' for name, version in environment.libraries.items())}"


def describe_noise(noise: Noise, load_average: float | None) -> Iterator[str]:
    """Yield a line about the machine's noise."""
    verdict = "quiet" if noise.is_quiet else "noisy: repeat runs before trusting a difference of a few percent"
    if noise.is_busy:
        verdict = "busy: other processes use the processors, so results measured now are not reliable"
    spread = "over 100 %" if noise.is_busy else f"{noise.spread:.1%}"
    yield (
        f"noise       spread {spread}, longest pause {noise.longest_pause_ns / 1e6:.1f} ms, "
        f"load average {'?' if load_average is None else f'{load_average:.2f}'}: {verdict}"
    )


def _ceilings(environment: Environment) -> Iterator[str]:
    from mlbench.roofline.ceilings import load_ceilings

    known = load_ceilings(environment)
    for device in known.devices if known else ():
        products = ", ".join(f"{name} {with_prefix(each.per_s, 'op/s')}" for name, each in device.operations.items())
        yield f"ceilings    {device.device}: {products}, memory {with_prefix(device.bytes.per_s, 'B/s')}"
    if not known:
        yield "ceilings    not known: run `mlbench roofline` once"


def _plugins(plugins: Plugins) -> Iterator[str]:
    for name, probe in plugins.probes().items():
        if probe.is_available:
            yield f"backend     {name}: ready, {', '.join(probe.devices) or 'no device'}"
        else:
            yield f"backend     {name}: {probe.reason}; {probe.install}"
    for name, reason in plugins.meter_faults().items():
        yield f"power meter {name}: {reason or 'ready'}"
    if plugins.transforms:
        yield f"transforms  {', '.join(plugins.transforms)}"
    for broken in plugins.broken:
        yield f"broken      {broken.name} (from {broken.distribution}): {broken.reason}"
