"""``mlbench system``: describe the machine for a submission."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from mlbench.cli.options import output_option
from mlbench.cli.output import echo_json, echo_line
from mlbench.records.store.whole_file import write_whole


@click.group("system")
def command() -> None:
    """Describe the machine for a submission."""


@command.command("describe")
@click.option(
    "--from",
    "own",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="JSON file with fields that replace detected ones; repeatable.",
)
@click.option("--network", is_flag=True, help="Add the fields of the network division; call it on a node.")
@output_option("FILE", "Write the description to this file.")
def describe(own: tuple[Path, ...], network: bool, output: Path | None) -> int:
    """Print systems/<system>.json of this machine: all fields that v4.1 requires, filled where they can be detected.

    Fields that only a person knows (cooling, interconnects, submitter) are empty and listed on stderr; fill them in a
    JSON file and pass it with --from. The framework field lists all installed libraries: name those that your results
    use. Exit status: 0 when no field is empty, 1 otherwise.
    """
    from mlbench.records.environment import observe_environment
    from mlbench.records.machine.host_hardware import observe_host_hardware
    from mlbench.submission.system_description import describe_network, describe_system, empty_fields

    environment, hardware = observe_environment(), observe_host_hardware()
    fields: Mapping[str, object] = describe_system(environment, hardware)
    if network:
        fields = {**fields, **describe_network(environment, hardware)}
    for file in own:
        fields = {**fields, **_read_own(file)}
    text = json.dumps(fields, indent=2, ensure_ascii=False)
    if output:
        write_whole(output, f"{text}\n")
    else:
        echo_json(text)
    if environment.accelerator_problem:
        echo_line(f"Accelerators may be missing: {environment.accelerator_problem}.", to_stderr=True)
    missing = empty_fields(fields)
    if missing:
        echo_line(f"Fill in {len(missing)} fields: {', '.join(missing)}.", to_stderr=True)
    return 1 if missing else 0


def _read_own(file: Path) -> Mapping[str, str | int]:
    """Return a user's fields.

    Raises:
        DataError: it cannot be read.
        UsageError: the type of a field would crash the official checker.
    """
    from mlbench.submission.system_fields import check_types
    from mlbench.system.documents import read_json_object

    fields = read_json_object(file, what="description of a system")
    check_types(file, fields)
    return fields
