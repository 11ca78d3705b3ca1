"""``mlbench demo``: a one-minute tour of this machine, one run, its result, and the next commands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.options import backend_option, results_option
from mlbench.cli.output import echo_heading, echo_line, echo_wrapped
from mlbench.discovery import Plugins
from mlbench.system.folders import results_folder

if TYPE_CHECKING:
    from mlbench.planning.requests import ResolvedRequest
    from mlbench.records.run_record import RunRecord

WORKLOAD = "resnet50"


@click.command("demo")
@backend_option
@results_option
def command(backend: str | None, results: Path) -> int:
    """Describe this machine, measure one workload for half a minute, explain the result, and suggest commands.

    The run is stored like any other. Exit status: 0 when it is valid and accurate, 1 otherwise.
    """
    from mlbench.cli.doctor import INDENT, describe_machine, describe_noise
    from mlbench.planning.requests import RunRequest, resolve
    from mlbench.records.environment import observe_environment
    from mlbench.records.machine.noise import measure_noise

    plugins = Plugins.discover()
    chosen = plugins.backend(backend) if backend else plugins.best_backend()
    scenario = next(name for name, each in plugins.scenarios.items() if each.sends_all_at_once)
    request = resolve(RunRequest(workload=WORKLOAD, backend=chosen.name, scenario=scenario, results=results), plugins)
    environment = observe_environment()
    echo_heading("1. This machine (all of it: mlbench doctor)")
    for line in (*describe_machine(environment), *describe_noise(measure_noise(), environment.load_average)):
        echo_wrapped(f"  {line}", 2 + INDENT)
    echo_heading(f"2. One run: mlbench run {WORKLOAD} --backend {chosen.name} --scenario {scenario}")
    record = _measure(request, plugins)
    if record is None:
        return 1
    _explain(record, results, plugins)
    return 0 if record.is_good else 1


def _measure(request: ResolvedRequest, plugins: Plugins) -> RunRecord | None:
    """Make the run, in about half a minute; None where it cannot be stored."""
    from mlbench.cli.run_maker import run_and_print

    return next(iter(run_and_print([request], plugins)), None)


def _explain(record: RunRecord, results: Path, plugins: Plugins) -> None:
    from mlbench.reports.console import DISCLAIMER
    from mlbench.reports.explanation import explain, next_step, sentence

    echo_heading("3. The result")
    echo_wrapped(f"  {sentence(record)}", 2)
    if record.result:
        parts = list(explain(record))
        width = max(len(part) for part, _ in parts)
        for part, meaning in parts:
            echo_wrapped(f"    {part:<{width}}  {meaning}", width + 6)
    echo_wrapped(f"  {next_step(record)}", 2)
    echo_wrapped(f"  Everything recorded about this run is in {results / record.run_id}", 4)
    echo_heading("4. What to type next")
    place = [] if results == results_folder() else ["--results", str(results)]
    for typed, meaning in _suggestions(record, plugins):
        echo_line(f"  {shlex.join(['mlbench', *typed.split(), *(place if typed != 'list' else [])])}")
        echo_line(f"      {meaning}")
    echo_wrapped(DISCLAIMER, 0)


def _suggestions(record: RunRecord, plugins: Plugins) -> list[tuple[str, str]]:
    """Return commands that work here, without the name of the program, each with its purpose."""
    others = [
        (probe.precisions[0] == record.precision, probe.rank, name)
        for name, probe in plugins.probes().items()
        if probe.is_available and probe.rank >= 0 and name != record.backend
    ]
    found = [(f"show {record.run_id[-4:]}", "this run: every rule, the machine and the settings")]
    found += [
        (f"run {WORKLOAD} --backend {name} --scenario {record.scenario}", "the same on another backend")
        for *_, name in sorted(others, reverse=True)[:1]  # comparable with this run, if any is
    ]
    return [
        *found,
        (f"run --backend {record.backend}", "all workloads in all scenarios, in ten minutes on a small machine"),
        ("table", "all runs so far"),
        ("list", "workloads, backends and scenarios, and what each still needs"),
    ]
