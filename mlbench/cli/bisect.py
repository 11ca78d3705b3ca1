"""``mlbench bisect``: find the commit, or the installation, that made a product slower or less accurate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli import options
from mlbench.cli.completions import offer_backends, offer_measures, offer_scenarios, offer_workloads
from mlbench.cli.output import echo_json, echo_line, echo_wrapped, terminal_width
from mlbench.contracts.workload import Profile, Weights
from mlbench.errors import UsageError
from mlbench.reports.units import plural, rough_time

if TYPE_CHECKING:
    from mlbench.comparison.bisection import Rule, Tried
    from mlbench.contracts.precision import Precision
    from mlbench.records.run_record import RunRecord
    from mlbench.running.bisection import Bisection, Notices
    from mlbench.running.installations import Installations


SHORTEST = {"load.min_duration_ms": "1", "load.min_query_count": "1"}
"""Settings of a performance test whose result is not asked for."""


@click.command("bisect")
@click.argument("workload", shell_complete=offer_workloads)
@click.option("--backend", required=True, metavar="BACKEND", shell_complete=offer_backends, help="Backend to run on.")
@click.option("--scenario", required=True, metavar="SCENARIO", shell_complete=offer_scenarios, help="Scenario to run.")
@click.option("--good", metavar="COMMIT", help="A commit that is still good.")
@click.option("--bad", metavar="COMMIT", help="A later commit that is bad.  [default: HEAD]")
@click.option("--repo", type=click.Path(path_type=Path, file_okay=False), help="Its repository.  [default: .]")
@click.option(
    "--install",
    metavar="COMMAND",
    help="Shell command that installs a commit; it runs in a clone of it. {commit} and {folder} stand for its hash "
    "and its clone.",
)
@click.option(
    "--mlbench",
    "commands",
    required=True,
    multiple=True,
    metavar="COMMAND",
    help="The mlbench command of an installed commit, such as {folder}/.venv/bin/mlbench. Without --good: that of an "
    "installation; give two or more, the good one first.",
)
@click.option(
    "--measure",
    default="speed",
    show_default=True,
    metavar="NAME",
    shell_complete=offer_measures,
    help="What got worse: speed, accuracy, memory, ..., or a number by its name, as `mlbench compare` prints it.",
)
@click.option(
    "--pairs", type=click.IntRange(3, 100), default=10, show_default=True, help="Most pairs of runs a version."
)
@click.option(
    "--margin",
    type=options.Finite(0, 1, max_open=True),
    help="The ends must differ by more than this.  [default: that of the kind of number, as of `mlbench compare`]",
)
@options.profile_option
@options.tier_option
@click.option(
    "--precision", type=options.PrecisionName(), help="Precision to compute in.  [default: the backend's first]"
)
@options.weights_option
@options.overrides_option
@options.results_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    good: str | None,
    bad: str | None,
    repo: Path | None,
    install: str | None,
    commands: tuple[str, ...],
    pairs: int,
    margin: float | None,
    measure: str,
    results: Path,
    as_json: bool,
    workload: str,
    backend: str,
    scenario: str,
    profile: str,
    tier: str,
    precision: Precision | None,
    weights: str,
    overrides: dict[str, str],
) -> int:
    """Find the version that changed a number of WORKLOAD: a commit after --good, or one of several installations.

    Each version is compared with the good end by runs that alternate, until there is a verdict: three pairs, or more
    where runs vary. A commit that cannot be installed or run is skipped. Runs are kept: after an interruption, repeat
    the command to continue.

    Exit status: 0 when one version was found; 1 when the ends do not differ, or several are left; 2
    when an end cannot be measured, and for wrong usage.
    """
    from mlbench.comparison.bisection import ACCURACY, rule_for
    from mlbench.planning.requests import RunRequest
    from mlbench.reports.bisect import bisection_json, print_bisected
    from mlbench.rules.tiers import Tier
    from mlbench.running.bisection import Bisection

    installations = _installations(good, bad, repo, install, commands)
    wants_accuracy = measure == ACCURACY
    request = RunRequest(
        workload=workload,
        backend=backend,
        scenario=scenario,
        profile=Profile(profile),
        tier=Tier(tier),
        precision=precision,
        weights=Weights(weights),
        overrides={**SHORTEST, **overrides} if wants_accuracy else overrides,
        wants_accuracy=wants_accuracy,
        results=results,
    )
    rule = rule_for(measure, versions=len(installations.versions), pairs=pairs, margin=margin)
    bisection = Bisection(
        installations=installations,
        request=request,
        measure=measure,
        rule=rule,
        told=_print_notices(installations, rule),
    )
    _announce(bisection)
    try:
        found = bisection.run()
    except KeyboardInterrupt:
        kept = bisection.count_stored()
        echo_wrapped(f"{kept} runs are stored; repeat the command to go on from there.", 2, to_stderr=True)
        raise
    if as_json:
        echo_json(bisection_json(found))
    else:
        print_bisected(found, terminal_width())
    return 0 if len(found.suspects) == 1 else 1


def _installations(
    good: str | None, bad: str | None, repo: Path | None, install: str | None, commands: tuple[str, ...]
) -> Installations:
    """Return the versions that the options name."""
    from mlbench.running.installations import Commits, Listed, commits_between

    if good is None:
        given = {"--bad": bad, "--repo": repo, "--install": install}
        for name in (name for name, value in given.items() if value is not None):
            raise UsageError(f"{name} is given without --good.", hint="--good COMMIT names the last commit known good.")
        if len(commands) < 2:
            raise UsageError("one installation has no versions.", hint="Name commits with --good, or --mlbench again.")
        return Listed(commands)
    if len(commands) > 1:
        raise UsageError("--mlbench is given more than once.", hint="With --good, {folder} in it is each commit's.")
    repository = repo or Path()
    versions = commits_between(repository, good, bad or "HEAD")
    return Commits(repository=repository, versions=versions, install=install or "", mlbench=commands[0])


def _announce(bisection: Bisection) -> None:
    rule, stored = bisection.rule, bisection.count_stored()
    runs = "a run each" if rule.is_exact else f"{rule.least} to {rule.most} pairs of runs each"
    steps = f"{plural(rule.versions, 'version')}: the bad end, then about {rule.steps} more, {runs}."
    there = f" {plural(stored, 'run')} are stored from an earlier try." if stored else ""
    echo_wrapped(f"{steps}{there} Everything is kept in {bisection.folder}", 2, to_stderr=True)


def _print_notices(installations: Installations, rule: Rule) -> Notices:
    """Return what prints a line for each run and each verdict."""
    from mlbench.reports.bisect import describe_tried, short_name
    from mlbench.reports.console import one_line
    from mlbench.running.bisection import Notices

    def name(place: int) -> str:
        version = installations.versions[place]
        return f"{short_name(version)} {version.subject}".strip()

    def on_run(place: int, record: RunRecord) -> None:
        echo_line(f"{name(place)}: {one_line(record)}", to_stderr=True)

    def on_verdict(place: int, tried: Tried) -> None:
        echo_wrapped(f"{name(place)}: {describe_tried(tried)}", 2, to_stderr=True)

    def on_step(seconds: float) -> None:
        runs = 1 if rule.is_exact else 2 * rule.least
        echo_line(f"The ends differ. About {rough_time(seconds * rule.steps * runs)} to go, or more.", to_stderr=True)

    def on_doubt() -> None:
        text = "The loss may have come in parts, as it does not differ from the version before it: looking once more."
        echo_wrapped(text, 2, to_stderr=True)

    return Notices(on_run=on_run, on_verdict=on_verdict, on_step=on_step, on_doubt=on_doubt)
