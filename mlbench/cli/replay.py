"""``mlbench replay``: repeat a stored run, and compare the two."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.compare import Question, print_and_offer
from mlbench.cli.completions import offer_runs
from mlbench.cli.options import results_option, word_options
from mlbench.cli.output import echo_json, echo_wrapped
from mlbench.discovery import Plugins

if TYPE_CHECKING:
    from mlbench.comparison.compare import Comparison
    from mlbench.planning.replay import ReplayPlan
    from mlbench.records.run_record import RunRecord
    from mlbench.settings.layers import OwnWord


@click.command("replay")
@click.argument("run", shell_complete=offer_runs)
@results_option
@word_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, and nothing else, to stdout.")
def command(run: str, results: Path, word: OwnWord, as_json: bool) -> int:
    """Repeat RUN with the settings in its record, and compare the new run with it.

    The batch, the number of instances and the rate are those that the run chose by measuring. Settings that run code,
    name a file or a secret, or open an address need your permission: see --trust. Differences in the machine and in
    versions are printed first; the comparison is that of `mlbench compare`, across these differences. Exit status: 0,
    or 1 when the new run failed or the two cannot be compared, 2 when RUN cannot be repeated here.
    """
    from mlbench.cli.run_maker import run_and_print
    from mlbench.comparison.kinds import margins_of
    from mlbench.comparison.scores import ACCURACY_MARGIN
    from mlbench.comparison.verdicts import MARGIN
    from mlbench.planning.replay import plan_replay
    from mlbench.reports.replay import plan_lines

    plugins = Plugins.discover()
    plan = plan_replay(results, run, plugins, word)
    for line in plan_lines(plan):
        echo_wrapped(line, 4, to_stderr=True)
    made = run_and_print([plan.request], plugins)
    if not made:
        return 1
    (new,) = made
    question = Question(
        names=(plan.name, new.run_id),
        across=plan.across,
        margin=margins_of(MARGIN),
        accuracy_margin=ACCURACY_MARGIN,
        results=results,
        word=word,
    )
    sides = [[plan.record], [new]]
    comparisons = question.compare(sides)
    if as_json:
        echo_json(_replay_json(plan, new, comparisons[0]))
    else:
        print_and_offer(question, sides, comparisons)
    return 0 if new.status == "completed" else 1


def _replay_json(plan: ReplayPlan, new: RunRecord, comparison: Comparison) -> str:
    from mlbench.reports.comparison import comparison_json

    differing = [dataclasses.asdict(each) for each in (*plan.machine, *plan.software)]
    parts = {
        "of": json.dumps(plan.record.run_id),
        "differences": json.dumps(differing),
        "run": new.text(),
        "comparison": comparison_json(comparison),
    }
    return "{" + ",".join(f"{json.dumps(name)}: {text}" for name, text in parts.items()) + "}"
