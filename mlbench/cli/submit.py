"""``mlbench submit``: plan, build and check submission trees."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_rounds
from mlbench.cli.options import output_option, results_option
from mlbench.cli.output import echo_json, echo_line
from mlbench.cli.submit_build import command as build
from mlbench.cli.submit_build import stored_runs
from mlbench.cli.submit_plan import command as plan
from mlbench.discovery import Plugins
from mlbench.reports.units import plural, quantity

if TYPE_CHECKING:
    from mlbench.submission.checking.findings import TreeFinding
    from mlbench.submission.checking.whole_tree import EntryCheck, TreeCheck


@click.group("submit")
def command() -> None:
    """Submission trees, as MLCommons' submission checker of their round reads them."""


command.add_command(plan)
command.add_command(build)


@command.command("check")
@click.argument("tree", type=click.Path(path_type=Path))
@click.option(
    "--round",
    "round_name",
    metavar="ROUND",
    shell_complete=offer_rounds,
    help="Round of TREE.  [default: by the seeds in its logs]",
)
@click.option("--notes", is_flag=True, help="Also print findings that invalidate no result.")
@click.option("--json", "as_json", is_flag=True, help="Print results and findings as JSON.")
def check(tree: Path, round_name: str | None, notes: bool, as_json: bool) -> int:
    """Check every result in TREE, the folder that holds closed, open or network.

    TREE may be any submitter's, of any round that `mlbench rounds` lists. Each result is a line with its verdict, and
    each finding says how the official checker of the round decides. TREE is never changed. Exit status: 0, or 1 when a
    result was refused.
    """
    from mlbench.rules.official import round_named
    from mlbench.submission.checking.whole_tree import check_tree

    checked = check_tree(tree, round_named(round_name) if round_name else None)
    if as_json:
        echo_json(_json(checked))
    else:
        _tell(checked, notes=notes)
    return 0 if checked.is_accepted else 1


@command.command("demo")
@output_option("TREE", "Folder to write; it must not exist.", default="not-submittable", show_default=True)
@results_option
def demo(output: Path, results: Path) -> int:
    """Build an example tree from the stored runs, including mini ones, and check it.

    It shows the form of a tree before you fetch anything large. It is marked as not submittable, and refused.
    """
    from mlbench.submission.building.build import build_example, check_place
    from mlbench.submission.building.example import example_entries, example_system

    check_place(output)
    system = example_system()
    checked = build_example(output, system, example_entries(system, stored_runs(results, (), Plugins.discover())))
    for file in sorted(each.relative_to(output) for each in output.rglob("*") if each.is_file()):
        if "code" not in file.parts:
            echo_line(f"  {file}")
    _tell(checked, notes=False)
    echo_line(
        f"{output} is an example and not submittable; `mlbench submit plan` lists the required runs of a submission."
    )
    return 0


def _tell(checked: TreeCheck, *, notes: bool) -> None:
    if checked.other_round:
        echo_line(f"{checked.other_round.removesuffix('.')}: all {plural(len(checked.entries), 'result')} are refused.")
        return
    of_entries = {id(each) for entry in checked.entries for each in entry.findings if each.loses == entry.entry.path}
    wide = [each for each in checked.findings if id(each) not in of_entries and not each.is_note]
    for finding in wide:
        lost = sum(finding.concerns(entry.entry.path) for entry in checked.entries)
        echo_line(f"{_finding_line(finding)} It costs {plural(lost, 'result')}.")
    for entry in checked.entries:
        echo_line(_entry_line(entry))
        for finding in entry.findings:
            if id(finding) in of_entries:
                echo_line(f"  {_finding_line(finding)}")
    remarks = [each for each in checked.findings if each.is_note]
    for finding in remarks if notes else ():
        echo_line(f"note: {_finding_line(finding)}")
    if remarks and not notes:
        echo_line(f"{plural(len(remarks), 'note')} that cost no result: --notes prints them.", to_stderr=True)
    count = len(checked.entries)
    echo_line(
        f"{checked.accepted} of {plural(count, 'result')} accepted; "
        f"the official checker {checked.round} would accept {checked.accepted_officially}."
    )


def _entry_line(check: EntryCheck) -> str:
    word = "accepted" if check.is_accepted else "REFUSED "
    value = quantity(check.result.value, check.result.unit) if check.result else "no result"
    differs = check.is_accepted is not check.is_accepted_officially
    official = "accepts" if check.is_accepted_officially else "refuses"
    return f"{word} {check.entry.path}: {value}" + (f" (the official checker {official} it)" if differs else "")


def _finding_line(finding: TreeFinding) -> str:
    from mlbench.reports.console import format_rule_values

    text = finding.message
    if finding.evidence:
        measured, limit = format_rule_values(finding.evidence)
        text = f"{measured}, limit {limit}. {text}"
    return f"{finding.rule}: {finding.path}: {text} [official checker: {finding.official}]"


def _json(checked: TreeCheck) -> str:
    entries = [
        {
            "path": each.entry.path,
            "round": each.entry.round.name,
            "value": each.result.value if each.result else None,
            "unit": each.result.unit if each.result else None,
            "scores": dict(each.scores),
            "is_accepted": each.is_accepted,
            "is_accepted_officially": each.is_accepted_officially,
        }
        for each in checked.entries
    ]
    findings = [
        {**dataclasses.asdict(each), "evidence": each.evidence.model_dump(mode="json") if each.evidence else None}
        for each in checked.findings
    ]
    return json.dumps({"is_accepted": checked.is_accepted, "results": entries, "findings": findings}, indent=2)
