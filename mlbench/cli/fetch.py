"""``mlbench fetch``: official models and data into one folder, where the full profile finds them."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from mlbench.cli.completions import offer_workloads
from mlbench.cli.output import echo, echo_facts, echo_heading, echo_line
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.errors import UsageError
from mlbench.system.folders import data_folder

if TYPE_CHECKING:
    from mlbench.contracts.workload import Workload
    from mlbench.discovery import Plugins
    from mlbench.fetching.plan import PlannedArtifact, WorkloadPlan


INDENT = 4


@click.command("fetch")
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...", shell_complete=offer_workloads)
@click.option("--plan", "only_plan", is_flag=True, help="Print sizes, sources and licences, and fetch nothing.")
@click.option(
    "--from",
    "given",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File or folder to copy files from, matched by checksum, instead of downloading; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(workloads: tuple[str, ...], only_plan: bool, given: tuple[Path, ...], as_json: bool) -> int:
    """Download the files of the full profile of each WORKLOAD into the data folder, verify, unpack and convert them.

    Without WORKLOAD: all workloads that have official files. Repeat the command to continue; it fetches only missing
    files. The folder is $MLBENCH_DATA, or the user's data folder; `mlbench doctor` prints it. Exit status: 0 when all
    files are there, 1 where you must provide a file by hand, 2 where a file is missing or wrong; all others are still
    fetched.
    """
    from mlbench.discovery import Plugins as _Plugins
    from mlbench.fetching.fetched_settings import sources_of
    from mlbench.fetching.local_files import check_paths
    from mlbench.fetching.lock_file import LockFile
    from mlbench.fetching.plan import check_room, plan_workload

    data, chosen = data_folder(), choose_workloads(workloads, _Plugins.discover())
    sources = {each.name: sources_of(each, data) for each in chosen}
    plans = [plan_workload(name, found, LockFile.read(data)) for name, found in sources.items()]
    for name in sources:
        print_own_sources(name, data)
    if as_json:
        echo_facts([dataclasses.asdict(plan) for plan in plans])
    elif only_plan:
        print_plans(plans, data)
    if only_plan:
        return 0
    check_paths(given)
    for plan in plans:
        print_terms(plan)
    from mlbench.fetching.data_folder import only_fetch
    from mlbench.fetching.fetch import Fetch

    outcomes = {}
    with only_fetch(data) as lock:
        check_room(plans, data, is_manual_included=bool(given))
        with FetchProgress(sum(plan.missing_bytes for plan in plans)) as progress:
            for name, found in sources.items():
                fetch = Fetch(
                    workload=name,
                    sources=found,
                    data=data,
                    lock=lock,
                    given=given,
                    on_bytes=progress.on_bytes,
                    on_step=progress.on_step,
                )
                outcomes[name] = fetch.run()
    for name, outcome in outcomes.items():
        for each in outcome.failed:
            echo_line(f"Error: {name}: {each.artifact.id}: {each.error}", to_stderr=True)
        failed = [f"{each.artifact.id} failed" for each in outcome.failed]
        echo_line(f"{name}: {'; '.join([*failed, *(each.ask for each in outcome.waiting)]) or 'complete'}")
    if any(each.failed for each in outcomes.values()):
        return UsageError.exit_code
    return 1 if any(each.waiting for each in outcomes.values()) else 0


def choose_workloads(names: Sequence[str], plugins: Plugins) -> list[Workload]:
    """Return the named workloads; without names, those of the default round that have sources.

    Raises:
        UsageError: one is unknown, or names no official files.
    """
    from mlbench.rules.round_files import has_rules

    if not names:
        return [each for each in plugins.workloads.values() if each.sources and has_rules(each, DEFAULT_ROUND)]
    chosen = [plugins.workload(name) for name in dict.fromkeys(names)]
    if without := next((each.name for each in chosen if not each.sources), ""):
        raise UsageError(f"{without} has no files to fetch.", hint="See `mlbench fetch --plan`.")
    return chosen


def print_terms(plan: WorkloadPlan) -> None:
    """Print the licences of the missing files before the download begins."""
    licences = dict.fromkeys(each.licence for each in plan.artifacts if each.licence and not each.is_there)
    if licences:
        echo_line(f"{plan.workload}: licences and terms: {'; '.join(licences)}", to_stderr=True)


def print_own_sources(workload: str, data: Path) -> None:
    """Name the list of sources that a data folder contains."""
    from mlbench.fetching.fetched_settings import own_sources

    if (path := own_sources(workload, data)).exists():
        echo_line(f"{workload}: addresses and checksums are those of {path}", to_stderr=True)


def print_plans(plans: Sequence[WorkloadPlan], data: Path) -> None:
    """Print the downloads, and the disk and memory that they need."""
    for plan in plans:
        echo_heading(f"{plan.workload} ({plan.round})")
        for artifact in plan.artifacts:
            _print_artifact(artifact)
        echo_line(
            f"    to download {_format_bytes(plan.missing_bytes)} of {_format_bytes(plan.download_bytes)}, "
            f"disk at peak {_format_bytes(plan.disk_bytes)}, memory of an fp32 run {_format_bytes(plan.memory_bytes)}"
        )
        echo()
    total, missing = (sum(getattr(plan, name) for plan in plans) for name in ("download_bytes", "missing_bytes"))
    echo_line(f"all: {_format_bytes(missing)} to download of {_format_bytes(total)}, into {data}")


def _print_artifact(artifact: PlannedArtifact) -> None:
    from mlbench.fetching.plan import host_of

    size = (
        f"{'~' if artifact.size_is_estimate else ''}{_format_bytes(artifact.size_bytes)}" if artifact.size_bytes else ""
    )
    where = host_of(artifact.where) + (f" and {artifact.others} more" if artifact.others else "")
    state = "there" if artifact.is_there else size
    echo_line(f"  {artifact.id:<26} {state:>9}  {where}")
    echo_line(f"    verified by {artifact.verified_by}")
    if artifact.licence or artifact.gate != "none":
        echo_line(f"    licence: {artifact.licence or 'not stated'}; gate: {artifact.gate}")
    if artifact.ask and not artifact.is_there:
        echo_line(f"    {artifact.ask}")


def _format_bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:.0f} {unit}"
    return f"{count} B"


QUIET_PERIOD_S = 60.0


class FetchProgress:
    """Shows the current artifact and the bytes received."""

    def __init__(self, total_bytes: int, *, quiet_period_s: float = QUIET_PERIOD_S) -> None:
        """Start to show progress; the total may be an estimate."""
        console = Console(stderr=True)
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._bar = Progress(TextColumn("{task.description}"), *columns, console=console, transient=True)
        self._task = self._bar.add_task("", total=total_bytes or None)
        self._has_terminal = console.is_interactive
        self._quiet_period_s = quiet_period_s
        self._printed_s = time.monotonic()
        self._total_bytes = total_bytes
        self._come_bytes = 0
        self._step = ""
        self._counting = threading.Lock()

    def __enter__(self) -> Self:
        if self._has_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_terminal:
            self._bar.stop()

    def on_step(self, step: str) -> None:
        """Show the name of a step that begins."""
        self._step = step
        self._bar.update(self._task, description=step)
        if not self._has_terminal:
            echo_line(step, to_stderr=True)

    def on_bytes(self, count: int) -> None:
        """Count received bytes; several threads call it."""
        with self._counting:
            self._come_bytes += count
            self._bar.advance(self._task, count)
            now = time.monotonic()
            if self._has_terminal or now - self._printed_s < self._quiet_period_s:
                return
            self._printed_s = now
        echo_line(f"{self._step}: {self._come_bytes / 1e9:.1f} of {self._total_bytes / 1e9:.1f} GB", to_stderr=True)
