"""A sweep from its request to its curve: a table of contents."""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace

import click

from mlbench import UnavailableError, UsageError
from mlbench.toolkit import RateObservation, RateTrial, begin_imports, printable
from mlbench_endpoint.loads.load import Load, ScheduleFacts
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.sweep.goodput_search import find_goodput, goal_of
from mlbench_endpoint.sweep.lone_answers import ALONE_NAME, ask_alone
from mlbench_endpoint.sweep.report import draw_curve, results_json, table_lines
from mlbench_endpoint.sweep.request import SweepRequest
from mlbench_endpoint.sweep.results import LoadResult, results_of
from mlbench_endpoint.sweep.server_trial import ServerTrial, try_server
from mlbench_endpoint.sweep.suite import SUITE_NAME, most_connections, write_suite

_MOST_REQUESTS = 1_000_000
"""Most requests of a load: LoadGen prepares all of them in memory."""

_FEWEST_POINTS = 2


def carry_out(request: SweepRequest, run: click.Command) -> int:
    """Make the runs of a sweep, show them, and return the exit status.

    Args:
        request: the user's request.
        run: the command ``mlbench run``.

    Raises:
        MlbenchError: the request cannot be carried out; no run was made.
    """
    for load in request.loads:
        load.check()
    begin_imports()  # the runs need them; meanwhile this process waits for answers
    trial = try_server(request.backend, request.prompts)
    _check_loads(request, trial)
    click.echo(_introduction(request, trial), err=True)
    if request.good_share is not None:
        return _search(request, trial, run, request.good_share)
    if request.same_answers:
        request, trial = _with_answers_alone(request, trial, request.same_answers)
    results = _make_runs(run, request, trial)
    click.echo(results_json(results) if request.as_json else "\n".join(table_lines(results, is_wide=request.is_wide)))
    _draw(results, trial, request)
    wanted = len(request.loads) * request.repeats
    are_good = [not result.problem and not _is_too_different(request, result) for result in results]
    return 0 if len(results) == wanted and all(are_good) else 1


def _with_answers_alone(request: SweepRequest, trial: ServerTrial, count: int) -> tuple[SweepRequest, ServerTrial]:
    """Request the prompts alone, unless a resumed sweep did, and return the request and trial of the loads."""
    file = request.folder / ALONE_NAME
    prompts = PromptOptions(file=str(file.resolve()))
    if not (request.resume and file.exists()):
        prompts = ask_alone(request.backend, trial.prompts, count, file)
    backend = replace(request.backend, alone=str(file.resolve()))
    return replace(request, backend=backend), replace(trial, prompts=prompts)


def _is_too_different(request: SweepRequest, result: LoadResult) -> bool:
    """Return whether more answers of a run differ than the user allows, and say so."""
    most, found = request.max_different, result.same_answers
    if most is None or not found:
        return False
    if not found["compared"]:
        click.echo(f"{result.load.label}: no answer was compared, so --max-different cannot be checked.", err=True)
        return True
    if found["share"]["value"] <= most:
        return False
    told = f"{result.load.label}: {found['share']['value']:.2%} of the answers differ from those alone"
    click.echo(f"{told}, more than {most:.2%} (--max-different).", err=True)
    return True


def _check_loads(request: SweepRequest, trial: ServerTrial) -> None:
    """Raise `UsageError` for a load that no run can complete."""
    most = most_connections()
    place_s = trial.session_s
    what = "session" if place_s > trial.answer_s else "answer"
    for each in request.loads:
        if each.is_scheduled:
            ScheduleFacts.of(each.prompt_options(trial.prompts, request.duration_s))
        if each.rate_per_s and each.rate_per_s * request.duration_s > _MOST_REQUESTS:
            raise UsageError(
                f"--rate {each.rate_per_s:g} for {request.duration_s} s is more than {_MOST_REQUESTS:,} requests.",
                hint="Lower it.",
            )
        if each.rate_per_s and each.rate_per_s * place_s > most:
            raise UsageError(
                f"--rate {each.rate_per_s:g} cannot be sustained: a single {what} takes {place_s:.3g} s, "
                f"so more than {most} requests would be in flight.",
                hint=f"Stay below {most / place_s:.3g}.",
            )
        if each.in_flight and each.in_flight > most:
            raise UsageError(f"--concurrency {each.in_flight} is more than {most} connections.", hint="Lower it.")


def _introduction(request: SweepRequest, trial: ServerTrial) -> str:
    """Return the line before the first load."""
    prompts = (
        ""
        if trial.prompts.file or not trial.longest_prompt_tokens
        else (f" A word is {trial.prompts.tokens_per_word:.3g} tokens, the template {trial.prompts.template_tokens}.")
    )
    return printable(
        f"{trial.model}: {trial.longest_prompt}; its "
        f"answer, alone, {trial.answer_tokens} in {trial.answer_s:.3g} s.{prompts} {len(request.loads)} loads"
        f"{'' if request.prompts.trace else f' of {request.duration_s} s or more'}."
    )


def _make_runs(run: click.Command, request: SweepRequest, trial: ServerTrial) -> Sequence[LoadResult]:
    """Make the runs of a sweep, or those that are missing, and return all results."""
    write_suite(request, trial)
    words = ["--suite", str(request.folder / SUITE_NAME), "--results", str(request.results), "--json"]
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout):
        run.main([*words, *([] if request.resume else ["--fresh"])], prog_name="mlbench run", standalone_mode=False)
    return results_of(json.loads(stdout.getvalue()))


def _search(request: SweepRequest, trial: ServerTrial, run: click.Command, good_share: float) -> int:
    """Find the highest rate with the requested goodput, show it, and return the exit status."""
    goal = goal_of(good_share, seconds=request.duration_s, requests=request.requests)

    def make(asked: SweepRequest) -> LoadResult:
        return _make_runs(run, asked, trial)[0]

    def measure(step: RateTrial) -> LoadResult:
        load = Load(rate_per_s=step.rate_per_s, arrival=request.arrival)
        duration_s = max(1, math.ceil(step.seconds))
        return make(replace(request, loads=[load], duration_s=duration_s, requests=step.queries))

    def show(seen: RateObservation) -> None:
        kind = "full run" if seen.is_full else "probe"
        share = 1 - seen.late / seen.answered if seen.answered else 0.0
        click.echo(f"{kind} at {seen.rate_per_s:g}/s: {share:.2%} of {seen.answered} requests are good", err=True)

    crowd = make(replace(request, duration_s=math.ceil(goal.probe_s)))
    if not crowd.requests_per_s:
        raise UnavailableError(f"no request was answered: {crowd.problem}", hint="No rate can be found then.")
    most_per_s = min(_MOST_REQUESTS / request.duration_s, most_connections() / trial.session_s)
    outcome = find_goodput(goal, crowd.requests_per_s, most_per_s, measure, show)
    click.echo(outcome.text() if request.as_json else outcome.line(request.backend.slo))
    return 0 if outcome.rate_per_s is not None else 1


def _draw(results: Sequence[LoadResult], trial: ServerTrial, request: SweepRequest) -> None:
    """Draw the curve, or print the reason why not."""
    file = request.folder / "curve.svg"
    if results and not any(result.tokens_per_s for result in results):
        click.echo("No curve is drawn: it would be of tokens, and there are none.", err=True)
        return
    loads = {result.load for result in results if not result.problem}
    if len(loads) < _FEWEST_POINTS:
        found = "only one load has" if loads else "none has"
        click.echo(f"No curve is drawn: it takes two loads with valid runs, and {found} one.", err=True)
        return
    try:
        draw_curve(results, f"{trial.model}: times of tokens over throughput", file)
        click.echo(f"Curve: {file}. Repeat: mlbench run --suite {request.folder / SUITE_NAME} --fresh", err=True)
    except ImportError:
        click.echo("No curve is drawn: pip install 'mlbench-inference[report]'.", err=True)
    except OSError as error:
        click.echo(f"No curve is drawn: {file}: {error.strerror}.", err=True)
