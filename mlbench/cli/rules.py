"""``mlbench rules``: print what a round asks of a workload."""

from __future__ import annotations

import itertools

import click

from mlbench.cli.completions import offer_workloads
from mlbench.cli.options import round_option
from mlbench.cli.output import echo_facts, echo_heading, echo_wrapped
from mlbench.discovery import Plugins


@click.command("rules")
@click.argument("workload", shell_complete=offer_workloads)
@round_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(workload: str, round: str, as_json: bool) -> None:
    """Print what a round asks of WORKLOAD: counts, targets, limits, seeds and compliance tests, with their sources.

    WORKLOAD is a name from `mlbench list`, or from `mlbench rounds` of one that mlbench cannot run.
    """
    from mlbench.rules.official import round_named
    from mlbench.rules.own import rules_of
    from mlbench.rules.round_facts import facts_of_rules
    from mlbench.rules.round_files import find_loadgen_name

    of, plugins = round_named(round), Plugins.discover()
    official = "" if workload in plugins.workloads else find_loadgen_name(workload)
    rules = of.rules(official) if official else rules_of(plugins.workload(workload), of)
    facts = list(facts_of_rules(rules))
    if as_json:
        listed = [fact._asdict() for fact in facts]
        echo_facts({"round": of.name, "workload": rules.workload, "facts": listed})
        return
    echo_heading(f"{rules.workload} in {of}, submissions until {of.deadline}")
    width = max(len(fact.name) for fact in facts) + 2
    for group, found in itertools.groupby(facts, lambda fact: (fact.group, fact.source)):
        echo_heading(group[0].capitalize())
        for fact in found:
            echo_wrapped(f"  {fact.name:<{width}}{fact.value}", width + 2)
        if group[1]:
            echo_wrapped(f"  source: {group[1]}", 4)
