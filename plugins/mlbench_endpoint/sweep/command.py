"""``mlbench bench-endpoint``: load-test a server at several rates or concurrencies."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from mlbench.toolkit import parse_time_ns

_Number = TypeVar("_Number", int, float)

_LONGEST_MS = 86_400_000


def _listed(kind: Callable[[str], _Number], what: str) -> Callable[..., tuple[_Number, ...]]:
    """Return a callback that reads positive numbers, divided by commas."""

    def parse(context: click.Context, parameter: click.Parameter, text: str) -> tuple[_Number, ...]:
        found = []
        for each in text.split(",") if text else []:
            try:
                number = kind(each)
            except ValueError:
                number = kind("0")
            if not (number > 0 and math.isfinite(number)):
                raise click.BadParameter(f"{each.strip()!r} is not a {what} above 0; give them like 1,2,4.")
            found.append(number)
        if len(found) != len(set(found)):
            raise click.BadParameter(f"{text!r} has a number twice; use --repeat to repeat runs.")
        return tuple(found)

    return parse


def _duration_ms(context: click.Context, parameter: click.Parameter, text: str) -> int:
    """Read a duration with its unit."""
    try:
        duration_ms = round(parse_time_ns(text) / 1e6)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}.") from None
    if duration_ms > _LONGEST_MS:
        raise click.BadParameter(f"{text!r} is longer than a day.")
    return duration_ms


def _share(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Read a share, as a percentage or a number from 0 to 1."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise click.BadParameter(f"{text!r} is no share; give it as 1% or 0.01.")
    return share


def _clients(context: click.Context, parameter: click.Parameter, text: str) -> int | str:
    """Read a number of processes."""
    return text if text == "auto" else int(click.IntRange(1, 64)(text, parameter, context))


def _results_folder() -> Path:
    import os

    return Path(os.environ.get("MLBENCH_RESULTS") or "results")


_option = partial(click.option, show_default=True)

EXAMPLES = """\b
Examples:
  mlbench bench-endpoint http://localhost:8000/v1 --concurrency 1,4,16,64 --ignore-eos
  mlbench bench-endpoint http://localhost:8000/v1 --api chat --rate 1,2,4,8 --tag before
  mlbench bench-endpoint http://localhost:8000/v1 --prompts own.jsonl --rate 2"""


@click.command("bench-endpoint", short_help="Load-test a server at several rates or concurrencies.", epilog=EXAMPLES)
@click.argument("url")
@click.option("--model", default="", help="Name of the model on the server.  [default: its only one]")
@_option(
    "--api",
    type=click.Choice(["completions", "chat", "embeddings", "rerank"]),
    default="completions",
    help="completions: continue prompts. chat: answer them as a chat. embeddings, rerank: those endpoints.",
)
@_option(
    "--tokens-in",
    default="512",
    help="Length of prompts: 512, uniform:128:1024, normal:512:64, hist:128=1,1024=3 or hist:FILE.",
)
@_option("--tokens-out", default="128", help="Maximum length of answers, in the same forms.")
@click.option(
    "--prompts",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with prompts, one per line or .jsonl, or with sessions: .jsonl with messages, ShareGPT's .json.",
)
@_option("--turns", type=click.IntRange(1, 1000), default=1, help="Turns of generated sessions (chat).")
@_option(
    "--think-time",
    "think_ms",
    default="0ms",
    callback=_duration_ms,
    metavar="TIME",
    help="Time between an answer and the next turn: 500ms, 2s.",
)
@_option(
    "--history",
    type=click.Choice(["answers", "given"]),
    default="answers",
    help="Answers in the history of a session: the server's, or those of the --prompts file.",
)
@click.option(
    "--shared-prefix",
    default="",
    metavar="SHARE:TOKENS",
    help="0.5:1024: half of the prompts begin with the same 1024 tokens, before their own.  [default: none do]",
)
@click.option(
    "--documents",
    type=click.IntRange(1, 10_000),
    default=None,
    metavar="N",
    help="Documents of a request to rerank, which share the length of --tokens-in.  [default: 8]",
)
@click.option("--image", default="", metavar="WxH", help="Add images of this size to each prompt: 512x512 (chat).")
@_option("--images-per-request", type=click.IntRange(1, 64), default=1, help="Their number.")
@click.option("--ignore-eos", is_flag=True, help="Request answers of full length (vLLM, SGLang).")
@click.option(
    "--concurrency",
    "in_flight",
    default="1,2,4,8",
    callback=_listed(int, "number"),
    metavar="N,...",
    help="Concurrent requests.  [default: 1,2,4,8, where no rate or trace is given]",
)
@click.option(
    "--rate", "rates_per_s", default="", callback=_listed(float, "rate"), metavar="R,...", help="Requests per second."
)
@_option(
    "--arrival",
    "pattern",
    default="poisson",
    metavar="PATTERN",
    help="Arrivals at a --rate: poisson, constant, gamma:SHAPE (vLLM's burstiness; below 1: burstier).",
)
@click.option("--ramp", default="", metavar="FIRST:LAST", help="A rate that changes evenly over --seconds: 1:20.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Send the requests of a trace at its times: Mooncake's, Azure's, BurstGPT's form, or at_s in JSON lines.",
)
@click.option(
    "--speed",
    "speeds",
    default="",
    callback=_listed(float, "speed"),
    metavar="X,...",
    help="Speeds of the trace: 2 sends it in half the time.  [default: 1]",
)
@_option(
    "--seconds",
    "duration_s",
    type=click.IntRange(2, 86_400),
    default=30,
    help="Minimum duration of each load in seconds.",
)
@_option("--requests", type=click.IntRange(1, 1_000_000), default=44, help="Minimum number of requests of each load.")
@_option(
    "--timeout", "total_timeout_s", type=click.IntRange(1, 86_400), default=600, help="Timeout in seconds per answer."
)
@_option("--repeat", "repeats", type=click.IntRange(1, 1000), default=1, help="Runs of each load, interleaved.")
@click.option(
    "--tag", default="", metavar="NAME", help="Name the sweep, for `mlbench compare`.  [default: by the time]"
)
@click.option(
    "--slo",
    default="",
    metavar="LIMITS",
    help="Limits of an answer that counts as good: ttft=500ms,tpot=30ms,e2e=5s,itl=50ms.",
)
@click.option(
    "--find-goodput",
    "good_share",
    type=click.FloatRange(0.5, 1, max_open=True),
    is_flag=False,
    flag_value=0.99,
    default=None,
    metavar="[SHARE]",
    help="Find the highest rate at which this share of requests is within the --slo.  [0.99 without a number]",
)
@click.option(
    "--same-answers",
    type=click.IntRange(1, 100_000),
    is_flag=False,
    flag_value=32,
    default=None,
    metavar="[N]",
    help="Also request N fixed prompts alone, and count answers under load that differ.  [32 without a number]",
)
@click.option(
    "--max-different",
    callback=_share,
    default=None,
    metavar="SHARE",
    help="With --same-answers: exit status 1 if a larger share differs at a load, as 1% or 0.01.",
)
@_option(
    "--metrics",
    default="auto",
    metavar="auto|none|URL",
    help="The server's own metrics: /metrics at its address if it is there, none, or a URL of Prometheus text.",
)
@click.option("--extra", default="", metavar="JSON", help="Additional fields of each request.")
@click.option(
    "--count",
    default="",
    metavar="BY",
    help="Who counts tokens: server, chunks, or tokenizer:PATH of a tokenizer.json.  [default: server]",
)
@_option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=0,
    help="Retries of a request that failed before its first token; waits as the server asks, else longer each time.",
)
@_option(
    "--clients",
    "client_processes",
    default="auto",
    callback=_clients,
    metavar="N",
    help="Processes that share the requests in flight, where one is the bottleneck. auto: by concurrency and threads.",
)
@click.option("--strict", is_flag=True, help="Fail answers that deviate from the protocol in any way.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Header of each request; not kept in records."
)
@click.option(
    "--header-env",
    "header_variables",
    multiple=True,
    metavar="NAME=VARIABLE",
    help="Header of each request, whose value is in an environment variable.",
)
@click.option(
    "--ca", type=click.Path(path_type=Path), metavar="FILE", help="Certificates of authorities to trust, in PEM form."
)
@click.option("--insecure", is_flag=True, help="Accept any certificate of the server.")
@_option(
    "--key-variable",
    "--api-key-env",
    "key_variable",
    default="MLBENCH_ENDPOINT_KEY",
    metavar="NAME",
    help="Environment variable with the API key.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=_results_folder,
    help="Folder of run folders.  [default: results]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the suite file and the curve.  [default: sweeps/TAG]",
)
@click.option("--resume", is_flag=True, help="Make only the runs of this --tag that are missing or failed.")
@click.option(
    "--wide", "is_wide", is_flag=True, help="Also show all quantities: percentiles, rates and their intervals."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON array of the result of each run, and nothing else, to stdout."
)
def bench_endpoint(**given: Any) -> int:
    """Load-test the server at URL (http://localhost:8000/v1) with LoadGen, one load after another.

    For each load it shows throughput, time to first token (TTFT) and time per output token (TPOT), and whether the run
    is valid. Runs are stored as runs of the workload `prompts`, and the curve as an SVG file. Exit status: 0 when every
    run is valid, or the rate of --find-goodput is found, 1 otherwise, 2 for wrong usage, before anything is measured.
    """
    from mlbench_endpoint.sweep.given_options import request_of
    from mlbench_endpoint.sweep.sweep import carry_out

    context = click.get_current_context()
    names = {each.name: each.opts[0] for each in context.command.params if each.name}
    is_given = {name: context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in names}
    mlbench = context.find_root().command
    assert isinstance(mlbench, click.Group)
    run = mlbench.get_command(context, "run")
    assert run
    return carry_out(request_of(given, {name: option for name, option in names.items() if is_given[name]}), run)
