"""A sweep from its request to its curve: a table of contents."""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from mlbench import UsageError
from mlbench.toolkit import printable
from mlbench_endpoint.api import Api
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.prompt_options import PromptOptions
from mlbench_endpoint.server_trial import ServerTrial, try_server
from mlbench_endpoint.sweep import Load, LoadResult, results_of, suite_text
from mlbench_endpoint.sweep_report import draw_curve, results_json, table_lines

_MOST_REQUESTS = 1_000_000
"""Most requests of a load: LoadGen prepares all of them in memory."""

_MOST_CONNECTIONS = 4096
_SPARE_FILES = 64
_PER_PLACE = 10
"""Fewest requests per concurrent one, so that start and end are a small part of the time."""

_TIERS = ((600, "valid"), (60, "dev"), (0, "smoke"))
"""Tier by seconds of a load; it must not require more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """The user's request; see the options of the command."""

    url: str
    model: str
    api: str
    tokens_in: str
    tokens_out: str
    prompts: Path | None
    ignore_eos: bool
    in_flight: tuple[int, ...]
    rates_per_s: tuple[float, ...]
    seconds: int
    requests: int
    timeout_s: int
    repeats: int
    tag: str
    extra: str
    key_variable: str
    results: Path
    out: Path | None
    resume: bool
    as_json: bool

    @property
    def loads(self) -> Sequence[Load]:
        """Return the loads, the least first."""
        at_once = [Load(in_flight=each) for each in sorted(self.in_flight)]
        return [*at_once, *(Load(rate_per_s=each) for each in sorted(self.rates_per_s))]

    @property
    def name(self) -> str:
        """Return the sweep's tag."""
        return self.tag or f"sweep-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"

    @property
    def tier(self) -> str:
        """Return the tier whose duration each load has."""
        return next(tier for seconds, tier in _TIERS if self.seconds >= seconds)

    @property
    def backend(self) -> EndpointOptions:
        """Return the options of the endpoint."""
        extra = _with_ignore_eos(self.extra) if self.ignore_eos else self.extra
        return EndpointOptions(
            url=self.url,
            model=self.model,
            api=Api(self.api),
            extra=extra,
            total_timeout_s=self.timeout_s,
            key_variable=self.key_variable or EndpointOptions().key_variable,
        )

    @property
    def prompt_options(self) -> PromptOptions:
        """Return the options of the workload that the user chose."""
        file = str(self.prompts.resolve()) if self.prompts else ""
        return PromptOptions(file=file, tokens_in=self.tokens_in, tokens_out=self.tokens_out)


def carry_out(request: SweepRequest, run: click.Command) -> int:
    """Make the runs of a sweep, show them, and return the exit status.

    Args:
        request: the user's request.
        run: the command ``mlbench run``.

    Raises:
        MlbenchError: the request cannot be carried out; no run was made.
    """
    name = request.name
    if not re.fullmatch(r"[\w.+-]{1,200}", name):
        raise UsageError(f"--tag is {name!r}.", hint="A tag has letters, digits, '_', '.', '+' and '-'.")
    trial = try_server(request.backend, request.prompt_options)
    _check_loads(request, trial)
    click.echo(_introduction(request, trial), err=True)
    folder = request.out or Path("sweeps") / name
    suite = _write_suite(request, trial, name, folder)
    results = _make_runs(run, suite, request)
    click.echo(results_json(results) if request.as_json else "\n".join(table_lines(results)))
    _draw(results, trial, folder)
    wanted = len(request.loads) * request.repeats
    return 0 if len(results) == wanted and not any(result.problem for result in results) else 1


def _with_ignore_eos(extra: str) -> str:
    """Return the fields of ``--extra`` with one more; unchanged if they are invalid, which the backend reports."""
    try:
        found = json.loads(extra or "{}")
    except (ValueError, RecursionError):
        return extra
    return json.dumps({"ignore_eos": True, **found}) if isinstance(found, dict) else extra


def _check_loads(request: SweepRequest, trial: ServerTrial) -> None:
    """Raise `UsageError` for a load that no run can complete."""
    most = most_connections()
    for each in request.loads:
        if each.rate_per_s and each.rate_per_s * request.seconds > _MOST_REQUESTS:
            raise UsageError(
                f"--rate {each.rate_per_s:g} for {request.seconds} s is more than {_MOST_REQUESTS:,} requests.",
                hint="Lower it.",
            )
        if each.rate_per_s and each.rate_per_s * trial.answer_s > most:
            raise UsageError(
                f"--rate {each.rate_per_s:g} cannot be sustained: a single answer takes {trial.answer_s:.3g} s, "
                f"so more than {most} requests would be in flight.",
                hint=f"Stay below {most / trial.answer_s:.3g}.",
            )
        if each.in_flight and each.in_flight > most:
            raise UsageError(f"--concurrency {each.in_flight} is more than {most} connections.", hint="Lower it.")


def most_connections() -> int:
    """Return the most concurrent requests: each has a connection, which is an open file."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(_MOST_CONNECTIONS, files - _SPARE_FILES)) if files > 0 else _MOST_CONNECTIONS


def _introduction(request: SweepRequest, trial: ServerTrial) -> str:
    """Return the line before the first load."""
    prompts = (
        ""
        if trial.prompts.file
        else (f" A word is {trial.prompts.tokens_per_word:.3g} tokens, the template {trial.prompts.template_tokens}.")
    )
    return printable(
        f"{trial.model}: the longest prompt has {trial.longest_prompt_tokens} tokens by the server's count; its "
        f"answer, alone, {trial.answer_tokens} in {trial.answer_s:.3g} s.{prompts} {len(request.loads)} loads of "
        f"{request.seconds} s or more."
    )


def _write_suite(request: SweepRequest, trial: ServerTrial, name: str, folder: Path) -> Path:
    """Write the suite file and return its path.

    Raises:
        UsageError: it cannot be written.
    """
    runs = [(load, _settings(request, trial, load)) for load in request.loads]
    file = folder / "sweep.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(suite_text(name, runs, tier=request.tier, repeats=request.repeats), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.", hint="Choose a folder with --out.") from None
    return file


def _settings(request: SweepRequest, trial: ServerTrial, load: Load) -> Mapping[str, str | float]:
    """Return the settings of a load's run: those that differ from the defaults."""
    backend, prompts, default = request.backend, trial.prompts, PromptOptions()
    chosen = {
        "backend.url": backend.url,
        "backend.model": trial.model,
        "backend.api": str(backend.api),
        "backend.total_timeout_s": backend.total_timeout_s,
        "backend.wait_timeout_s": float(request.timeout_s) if load.rate_per_s else EndpointOptions().wait_timeout_s,
        "load.min_duration_ms": 1000 * request.seconds,
        "load.min_query_count": max(request.requests, _PER_PLACE * (load.in_flight or 0)),
        **load.settings(most_connections=most_connections()),
    }
    if backend.extra:
        chosen["backend.extra"] = backend.extra
    if request.key_variable:
        chosen["backend.key_variable"] = request.key_variable
    names = ("file", "tokens_in", "tokens_out", "tokens_per_word", "template_tokens")
    values = {name: getattr(prompts, name) for name in names}
    changed = {name: value for name, value in values.items() if value != getattr(default, name)}
    return {**chosen, **{f"workload.{name}": value for name, value in changed.items()}}


def _make_runs(run: click.Command, suite: Path, request: SweepRequest) -> Sequence[LoadResult]:
    """Make the runs of the suite file, or those that are missing, and return all results."""
    words = ["--suite", str(suite), "--results", str(request.results), "--json"]
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout):
        run.main([*words, *([] if request.resume else ["--fresh"])], prog_name="mlbench run", standalone_mode=False)
    return results_of(json.loads(stdout.getvalue()))


def _draw(results: Sequence[LoadResult], trial: ServerTrial, folder: Path) -> None:
    """Draw the curve, or print the reason why not."""
    file = folder / "curve.svg"
    if all(result.problem for result in results):
        click.echo("No curve is drawn: no run is valid.", err=True)
        return
    try:
        draw_curve(results, f"{trial.model}: times of tokens over throughput", file)
        click.echo(f"Curve: {file}. Repeat: mlbench run --suite {folder / 'sweep.toml'} --fresh", err=True)
    except ImportError:
        click.echo("No curve is drawn: pip install 'mlbench-inference[report]'.", err=True)
    except OSError as error:
        click.echo(f"No curve is drawn: {file}: {error.strerror}.", err=True)
