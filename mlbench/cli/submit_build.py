"""``mlbench submit build``: build a submission tree from stored runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.options import output_option, results_option, round_option, word_options
from mlbench.cli.output import echo_line
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError, UsageError
from mlbench.records.store.run_names import has_record
from mlbench.reports.units import plural, quantity
from mlbench.rules.round_parts import Category

if TYPE_CHECKING:
    from mlbench.records.run_record import RunRecord
    from mlbench.settings.layers import OwnWord
    from mlbench.submission.building.entries import BuiltEntry
    from mlbench.submission.building.stored import StoredRun
    from mlbench.submission.checking.whole_tree import EntryCheck


@click.command("build")
@click.argument("runs", nargs=-1, metavar="[RUNS]...")
@click.option("--submitter", required=True, metavar="ORG", help="Name of the submitter, and of the folder in the tree.")
@click.option(
    "--system",
    "description",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Description of the system, from `mlbench system describe`.",
)
@output_option("TREE", "Folder to write; it must not exist.", required=True)
@click.option(
    "--division",
    type=click.Choice(["closed", "open", "network"]),
    default="closed",
    show_default=True,
    help="Division of the submission.",
)
@click.option(
    "--category",
    "categories",
    type=click.Choice([each.value for each in Category]),
    multiple=True,
    help="System category; repeatable.  [default: its system_type]",
)
@click.option(
    "--variant",
    "variants",
    type=click.Choice(["99", "99.9"]),
    multiple=True,
    help="Accuracy target of the entries; repeatable.  [default: each that a run meets]",
)
@round_option
@results_option
@word_options
def command(
    runs: tuple[str, ...],
    submitter: str,
    description: Path,
    output: Path,
    division: str,
    categories: tuple[str, ...],
    variants: tuple[str, ...],
    round: str,
    results: Path,
    word: OwnWord,
) -> None:
    """Build a submission tree from RUNS and their compliance tests.

    RUNS are runs, folders or tags; default: the results folder. Each entry uses the newest run that qualifies, as
    `mlbench submit plan` shows. If an entry would not pass, its rule is printed and no tree is written. `mlbench submit
    check` accepts the finished tree. Logs are copied unchanged, and only if they confirm the record.
    """
    from mlbench.rules.official import round_named
    from mlbench.submission.building.build import build_tree, check_place
    from mlbench.submission.building.entries import choose_entries
    from mlbench.submission.building.system import read_system, with_recorded

    check_place(output)
    of = [Category(each) for each in dict.fromkeys(categories)]
    system, plugins = read_system(description, submitter, division, of, round_named(round)), Plugins.discover()
    stored = list(stored_runs(results, runs, plugins))
    entries = choose_entries(system, stored, variants, are_named=bool(runs))
    system = with_recorded(system, entries[0].run.record)
    for entry in {each.run.record.run_id: each for each in entries}.values():
        _check_logs(entry.run, plugins, word)
        if division != "open":
            _check_tests(entry, plugins)
    _print(entries, build_tree(output, system, entries), output)


def stored_runs(results: Path, names: Sequence[str], plugins: Plugins) -> Iterator[StoredRun]:
    """Yield the named runs, or all of the results folder, with their logs, tests and sources."""
    from mlbench.records.store.selection import Filter, select_records
    from mlbench.submission.building.stored import StoredRun

    for record in select_records(results, names, Filter()):
        folder = _folder_of(record, results, names)
        yield StoredRun(
            record=record, folder=folder, tests=_tests_of(record, folder), sources=_sources_of(record, plugins)
        )


def _folder_of(record: RunRecord, results: Path, names: Sequence[str]) -> Path:
    """Return the run folder of a record; a baseline's record may have none, and the path does not exist then."""
    from mlbench.records.store.run_folder import find_run

    named = [place for name in names for place in (Path(name), Path(name) / record.run_id)]
    places = [place for place in named if os.path.basename(os.path.realpath(place)) == record.run_id]
    for place in (*places, results / record.run_id):
        if has_record(place):
            return find_run(results, str(place)).resolve()
    return results / record.run_id


def _tests_of(record: RunRecord, folder: Path) -> Mapping[str, Path]:
    """Return the folder of the newest repeat of each compliance test."""
    from mlbench.records.run_record import read
    from mlbench.records.store.run_folder import runs_in
    from mlbench.submission.auditing.plan import AUDITS

    found = {}
    for run in runs_in(folder.parent / AUDITS / record.run_id):
        audit = read(run).audit
        if audit and audit.of == record.run_id:
            found[audit.test] = run / audit.test
    return {test: place for test, place in found.items() if os.path.isdir(place)}


def _sources_of(record: RunRecord, plugins: Plugins) -> Mapping[str, Path]:
    """Return the installed packages or modules of mlbench, the workload and the backend."""
    packages = {"mlbench"}
    for find, name in ((plugins.workload, record.workload), (plugins.backend, record.backend)):
        try:
            packages.add(type(find(name)).__module__.partition(".")[0])
        except MlbenchError:
            continue  # `choose_entries` says what keeps such a run from serving, if anything does
    files = {name: getattr(sys.modules[name], "__file__", None) for name in sorted(packages)}
    paths = {name: Path(file) for name, file in files.items() if file}
    return {name: file.parent if file.name == "__init__.py" else file for name, file in paths.items()}


def _check_logs(run: StoredRun, plugins: Plugins, word: OwnWord) -> None:
    """Raise `UsageError` where the logs do not confirm a run's record."""
    from mlbench.measurement.verification import verify
    from mlbench.planning.repeats import check_scoring

    check_scoring(run.record, plugins, word)
    if found := verify(run.record, run.folder, plugins).differences:
        raise UsageError(
            f"run {run.record.run_id} differs from its logs: {found[0]}.", hint="`mlbench verify` lists all."
        )


def _check_tests(entry: BuiltEntry, plugins: Plugins) -> None:
    """Raise `UsageError` where the logs of a compliance test show that it failed, even if its files say otherwise."""
    from mlbench.submission.auditing.audit import judge_stored
    from mlbench.submission.auditing.files import edited_files
    from mlbench.submission.auditing.plan import AUDITS, AuditPlan

    run = entry.run
    place = run.folder.parent / AUDITS / run.record.run_id
    plan = AuditPlan(record=run.record, folder=run.folder, place=place, tests=())
    for verdict in judge_stored(plan, plugins):
        is_used = verdict.test in entry.required.tests and run.tests[verdict.test].parent == verdict.folder
        if is_used and not verdict.passed:
            raise UsageError(
                f"{verdict.test} of run {run.record.run_id} does not pass: test run {verdict.run_id}.",
                hint="`mlbench audit RUN --plan` prints the reason.",
            )
        if is_used and (edited := edited_files(verdict)):
            raise UsageError(
                f"{verdict.test} of run {run.record.run_id}: {verdict.test}/{edited[0]} does not follow from "
                f"the logs of test run {verdict.run_id}.",
                hint="Make the test again: `mlbench audit`.",
            )


def _print(entries: Sequence[BuiltEntry], checks: Sequence[EntryCheck], place: Path) -> None:
    for entry, check in zip(entries, checks, strict=True):
        value = quantity(check.result.value, check.result.unit) if check.result else "no result"
        echo_line(f"{check.entry.path}: {value}, run {entry.run.record.run_id}")
    count = plural(len(entries), "result")
    echo_line(f"{count} in {place}, accepted by `mlbench submit check`; unverified, not reviewed by MLCommons.")
