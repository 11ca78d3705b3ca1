"""``mlbench published``: list published results, compare rounds, and rank a run among those of its round."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlbench.cli.completions import offer_published_rounds, offer_runs, offer_scenarios, offer_workloads
from mlbench.cli.options import output_option, results_option
from mlbench.cli.output import echo_facts, echo_line, terminal_width
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.errors import UsageError
from mlbench.records.store.whole_file import write_whole

if TYPE_CHECKING:
    from mlbench.records.published import Published


@click.command("published")
@click.argument("workload", required=False, shell_complete=offer_workloads)
@click.option("--scenario", metavar="SCENARIO", shell_complete=offer_scenarios, help="Only this scenario.")
@click.option("--accelerator", default="", metavar="TEXT", help="Only accelerators whose name contains TEXT.")
@click.option("--submitter", default="", metavar="TEXT", help="Only submitters whose name contains TEXT.")
@click.option(
    "--place",
    metavar="RUN",
    shell_complete=offer_runs,
    help="Rank a run among the closed results of its benchmark and accuracy.",
)
@click.option("--variant", metavar="99|99.9", help="With --place: accuracy variant to rank RUN in.")
@click.option(
    "--round",
    "round_name",
    metavar="ROUND",
    shell_complete=offer_published_rounds,
    help=f"Round of the results that are listed.  [default: {DEFAULT_ROUND}]",
)
@click.option(
    "--rounds",
    type=click.Choice(["all"]),
    help="Print the best closed result of each accelerator in all rounds, per accelerator.",
)
@output_option("FILE", "With --rounds: also draw it as FILE.svg.", is_file=True)
@click.option("--claims", is_flag=True, help="Print claims of press releases and blogs about v4.1, each checked.")
@click.option("--nvidia", is_flag=True, help="Print NVIDIA's tables for v4.1, each row with its official result.")
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    workload: str | None,
    scenario: str | None,
    accelerator: str,
    submitter: str,
    place: str | None,
    variant: str | None,
    round_name: str | None,
    rounds: str | None,
    output: Path | None,
    claims: bool,
    nvidia: bool,
    results: Path,
    as_json: bool,
) -> None:
    """List published results of WORKLOAD, or of all."""
    from rich.console import Console

    from mlbench.records.published import CLAIMS, NVIDIA_TABLES, place_of, table
    from mlbench.records.run_record import read
    from mlbench.records.store.run_folder import find_run
    from mlbench.reports.published import PUBLISHED_WIDTH, build_published_table, place_lines, rows_table

    _refuse_together(
        variant=variant,
        place=place,
        round_name=round_name,
        rounds=rounds,
        output=output,
        is_table=claims or nvidia,
    )
    if claims or nvidia:
        rows = table(CLAIMS if claims else NVIDIA_TABLES)
        if as_json:
            echo_facts(rows)
        else:
            Console(width=terminal_width() or 240).print(rows_table(rows))
        return
    if place:
        found = place_of(read(find_run(results, place)), variant=variant)
        if as_json:
            echo_facts(dataclasses.asdict(found))
            return
        for line in place_lines(found):
            echo_line(line)
        return
    filters = {"workload": workload, "scenario": scenario, "accelerator": accelerator, "submitter": submitter}
    found_rows = _select(None if rounds else round_name or DEFAULT_ROUND, filters)
    if rounds:
        _print_rounds(found_rows, output, as_json=as_json)
    elif as_json:
        echo_facts([dataclasses.asdict(each) for each in found_rows])
    else:
        console = Console(width=terminal_width() or PUBLISHED_WIDTH)
        console.print(build_published_table(found_rows, console.width))


def _refuse_together(
    *,
    variant: str | None,
    place: str | None,
    round_name: str | None,
    rounds: str | None,
    output: Path | None,
    is_table: bool,
) -> None:
    """Raise `UsageError` for an option that would not be read beside another one."""
    if variant and not place:
        raise UsageError("--variant belongs to --place.", hint="`mlbench query` can filter by accuracy_variant.")
    if (round_name or rounds) and (place or is_table):
        raise UsageError(
            "--round and --rounds choose the results that are listed.",
            hint="Leave them out: --place takes the run's own round, and claims and NVIDIA's tables are of v4.1.",
        )
    if round_name and rounds:
        raise UsageError("--round and --rounds exclude each other.", hint="Leave one out.")
    if output and not rounds:
        raise UsageError("a picture is drawn of several rounds only.", hint="Add --rounds all.")


def _select(round_name: str | None, filters: Mapping[str, Any]) -> list[Published]:
    """Return the results of a round, or of all, that filters let through."""
    from mlbench.records.published import list_published_rounds, select_published

    known = list_published_rounds()
    if round_name and round_name not in known:
        raise UsageError(
            f"no results of round {round_name!r} are here.", hint=f"There are those of {', '.join(known)}."
        )
    names = [round_name] if round_name else known
    found = [each for name in names for each in select_published(round_name=name, **filters)]
    if not found:
        raise UsageError(
            "no published result matches.", hint=f"`mlbench published --round {names[-1]}` lists all of it."
        )
    return found


def _print_rounds(found: Sequence[Published], output: Path | None, *, as_json: bool) -> None:
    """Print the best result of each accelerator, round by round, and draw it."""
    from rich.console import Console

    from mlbench.records.published import compare_rounds
    from mlbench.reports.published import PUBLISHED_WIDTH, build_rounds_table

    compared = compare_rounds(found)
    if not compared:
        raise UsageError("no closed result of a system with accelerators matches.", hint="Leave a filter out.")
    if output:
        from mlbench.reports.html.rendering import check_installed, stand_alone

        check_installed("a picture")
        from mlbench.reports.html.published_rounds import draw_rounds

        if len({each.unit for each in compared}) > 1 or output.suffix != ".svg":
            raise UsageError(
                "a picture shows results of one unit, as FILE.svg.", hint="Name a workload and a --scenario."
            )
        write_whole(output, stand_alone(draw_rounds(compared)).encode())
    if as_json:
        echo_facts([dataclasses.asdict(each) for each in compared])
    else:
        Console(width=terminal_width() or PUBLISHED_WIDTH).print(build_rounds_table(compared))
