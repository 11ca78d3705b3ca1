"""``mlbench audit``: run MLPerf's compliance tests on a stored run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_rounds, offer_runs
from mlbench.cli.options import network_options, results_option, word_options
from mlbench.cli.output import echo_json, echo_wrapped
from mlbench.discovery import Plugins

if TYPE_CHECKING:
    from mlbench.records.job_spec import NetworkSpec
    from mlbench.settings.layers import OwnWord
    from mlbench.submission.auditing.audit import Audit
    from mlbench.submission.auditing.plan import AuditPlan
    from mlbench.submission.auditing.verdicts import AuditVerdict

_TESTS = ("TEST01", "TEST04", "TEST05", "TEST06")


@click.command("audit")
@click.argument("run", shell_complete=offer_runs)
@click.option(
    "--test",
    "tests",
    multiple=True,
    type=click.Choice(_TESTS),
    help="Test to run; repeatable.  [default: all required for the workload]",
)
@click.option(
    "--variant",
    type=click.Choice(["99", "99.9"]),
    default=None,
    help="Accuracy target of the entry; 99.9 needs scores that agree ten times as closely.  [default: the run's]",
)
@click.option(
    "--round",
    metavar="ROUND",
    shell_complete=offer_rounds,
    help="Round of the entry; the run must be of it.  [default: the run's]",
)
@click.option("--plan", "only_plans", is_flag=True, help="Print the tests and their duration, and run nothing.")
@network_options
@results_option
@word_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, and nothing else, to stdout.")
def command(
    run: str,
    tests: tuple[str, ...],
    variant: str | None,
    round: str | None,
    only_plans: bool,
    network: NetworkSpec | None,
    results: Path,
    word: OwnWord,
    as_json: bool,
) -> int:
    """Run the compliance tests of the closed division on RUN, a valid run of tier valid.

    Each test runs the same engine again under LoadGen's official audit configuration, and is stored whether it passes
    or fails. mlbench's verdict is printed beside the official script's, which checks less. For a run over a network,
    name the same nodes with --network. Exit status: 0 when all tests made now pass, 1 otherwise, 2 for a run that
    cannot be audited.
    """
    from mlbench.cli.run_maker import ProgressingMaker
    from mlbench.cluster.demand import NetworkDemand
    from mlbench.reports.audit import plan_lines
    from mlbench.submission.auditing.audit import audit, judge_stored
    from mlbench.submission.auditing.plan import plan_audit, with_nodes

    plugins = Plugins.discover()
    plan = plan_audit(results, run, tests, plugins, variant=variant or "", round=round or "", word=word)
    if only_plans:
        earlier = tuple(judge_stored(plan, plugins))
        if as_json:
            echo_json(_plan_json(plan, earlier))
            return 0
        for line in plan_lines(plan):
            echo_wrapped(line, 4)
        _print(plan, earlier, is_earlier=True)
        return 0
    plan = with_nodes(plan, NetworkDemand.of_spec(network) if network else None)
    for line in plan_lines(plan):
        echo_wrapped(line, 4, to_stderr=True)
    found = audit(plan, plugins, ProgressingMaker(plugins))
    if as_json:
        echo_json(_audit_json(found))
    else:
        _print(plan, found.earlier, is_earlier=True)
        _print(plan, found.made)
    return 0 if found.passed else 1


def _print(plan: AuditPlan, verdicts: tuple[AuditVerdict, ...], *, is_earlier: bool = False) -> None:
    from mlbench.reports.audit import verdict_lines

    unit = "ns" if plan.record.result and not plan.record.result.higher_is_better else "samples/s"
    for verdict in verdicts:
        for line in verdict_lines(verdict, unit, is_earlier=is_earlier):
            echo_wrapped(line, 4)


def _plan_json(plan: AuditPlan, earlier: tuple[AuditVerdict, ...]) -> str:
    tests = [dataclasses.asdict(each) for each in plan.tests]
    return json.dumps({"run": plan.record.run_id, "tests": tests, "earlier": _verdicts_json(earlier)}, indent=2)


def _audit_json(found: Audit) -> str:
    made, earlier = _verdicts_json(found.made), _verdicts_json(found.earlier)
    run = found.plan.record.run_id
    return json.dumps({"run": run, "passed": found.passed, "made": made, "earlier": earlier}, indent=2)


def _verdicts_json(verdicts: tuple[AuditVerdict, ...]) -> list[object]:
    return [dataclasses.asdict(each) | {"folder": str(each.folder)} for each in verdicts]
