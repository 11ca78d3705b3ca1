"""``mlbench bench-endpoint``: load-test a server at several rates or concurrencies."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mlbench import UsageError

_Number = TypeVar("_Number", int, float)

_CONCURRENCY = "1,2,4,8"


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


def _results_folder() -> Path:
    import os

    return Path(os.environ.get("MLBENCH_RESULTS") or "results")


EXAMPLES = """\b
Examples:
  mlbench bench-endpoint http://localhost:8000/v1 --concurrency 1,4,16,64 --ignore-eos
  mlbench bench-endpoint http://localhost:8000/v1 --api chat --rate 1,2,4,8 --tag before
  mlbench bench-endpoint http://localhost:8000/v1 --prompts own.jsonl --rate 2"""


@click.command("bench-endpoint", short_help="Load-test a server at several rates or concurrencies.", epilog=EXAMPLES)
@click.argument("url")
@click.option("--model", default="", help="Name of the model on the server.  [default: its only one]")
@click.option(
    "--api",
    type=click.Choice(["completions", "chat"]),
    default="completions",
    show_default=True,
    help="completions: continue prompts. chat: answer them as a chat.",
)
@click.option(
    "--tokens-in", default="512", show_default=True, help="Length of prompts: 512, uniform:128:1024, normal:512:64."
)
@click.option("--tokens-out", default="128", show_default=True, help="Maximum length of answers, in the same forms.")
@click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with prompts: one per line, or a .jsonl file.",
)
@click.option("--ignore-eos", is_flag=True, help="Request answers of full length (vLLM, SGLang).")
@click.option(
    "--concurrency",
    "in_flight",
    default="",
    callback=_listed(int, "number"),
    metavar="N,...",
    help=f"Concurrent requests.  [default: {_CONCURRENCY}, where no --rate is given]",
)
@click.option(
    "--rate", "rates_per_s", default="", callback=_listed(float, "rate"), metavar="R,...", help="Requests per second."
)
@click.option(
    "--seconds",
    type=click.IntRange(2, 86_400),
    default=30,
    show_default=True,
    help="Minimum duration of each load in seconds.",
)
@click.option(
    "--requests",
    type=click.IntRange(1, 1_000_000),
    default=44,
    show_default=True,
    help="Minimum number of requests of each load.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.IntRange(1, 86_400),
    default=600,
    show_default=True,
    help="Timeout in seconds per answer.",
)
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Runs of each load, interleaved.",
)
@click.option(
    "--tag", default="", metavar="NAME", help="Name the sweep, for `mlbench compare`.  [default: by the time]"
)
@click.option("--extra", default="", metavar="JSON", help="Additional fields of each request.")
@click.option(
    "--key-variable",
    default="",
    metavar="NAME",
    help="Environment variable with the API key.  [default: MLBENCH_ENDPOINT_KEY]",
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
    "--json", "as_json", is_flag=True, help="Print a JSON array of the result of each run, and nothing else, to stdout."
)
def bench_endpoint(**given: Any) -> int:
    """Load-test the server at URL (http://localhost:8000/v1) with LoadGen, one load after another.

    For each load it shows throughput, time to first token (TTFT) and time per output token (TPOT), and whether the run
    is valid. Runs are stored as runs of the workload `prompts`, and the curve as an SVG file. Exit status: 0 when every
    run is valid, 1 otherwise, 2 for wrong usage, before anything is measured.
    """
    from mlbench_endpoint.sweep_request import SweepRequest, carry_out

    if given["resume"] and not given["tag"]:
        raise UsageError("--resume needs the --tag to continue.", hint="Name the sweep with --tag.")
    if not given["in_flight"] and not given["rates_per_s"]:
        given["in_flight"] = tuple(map(int, _CONCURRENCY.split(",")))
    context = click.get_current_context()
    mlbench = context.find_root().command
    assert isinstance(mlbench, click.Group)
    run = mlbench.get_command(context, "run")
    assert run
    return carry_out(SweepRequest(**given), run)
