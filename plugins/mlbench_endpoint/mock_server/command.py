"""``mlbench mock-server``: a server of OpenAI's protocols without a model."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlbench import UsageError
from mlbench_endpoint.mock_server.options import MockOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mlbench_endpoint.mock_server.lateness import LatenessReport
    from mlbench_endpoint.mock_server.server import MockServer

_DEFAULT = MockOptions()


def _option(name: str, **facts: Any) -> Callable[[Any], Any]:
    """Return an option whose default, which help shows, is that of `MockOptions`."""
    default = getattr(_DEFAULT, name.removeprefix("--").replace("-", "_"))
    return click.option(name, default=default, show_default=True, **facts)


EXAMPLES = """\b
Examples:
  mlbench mock-server --ttft 20ms --tpot 5ms
  mlbench mock-server --ttft lognormal:80ms:400ms --tpot normal:10ms:1ms --slots 32
  mlbench mock-server --fault 429-seconds:0.05 --fault done-twice --port 8001"""


@click.command("mock-server", short_help="Serve words at given delays, with faults on request.", epilog=EXAMPLES)
@_option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="0: a free one.")
@_option("--model", help="Name of the model.")
@_option(
    "--ttft",
    metavar="DELAY",
    help="Time to the first token: 20ms, normal:20ms:2ms, uniform:10ms:30ms, lognormal:20ms:80ms (median, 99th "
    "percentile), exponential:20ms.",
)
@_option("--tpot", metavar="DELAY", help="Time per further token of a request.")
@_option("--jitter", metavar="DELAY", help="Delay of each token on top.")
@_option(
    "--prefill", metavar="DELAY", help="Time per prompt token that the prefix cache lacks, before the first token."
)
@click.option(
    "--answer-tokens",
    default="",
    metavar="LENGTH",
    help="Length of answers: 100, uniform:64:256, normal:128:16.  [default: as long as requested]",
)
@_option("--slots", type=click.IntRange(1), help="Most requests at once; others wait.")
@_option("--queue", type=click.IntRange(0), help="Most waiting requests; further ones get a 429.")
@_option("--context", type=click.IntRange(1), help="Most tokens of prompt and answer.")
@_option("--cache-blocks", type=click.IntRange(0), help="Size of the prefix cache, in blocks of 16 tokens.")
@click.option("--key", default="", help="API key that requests need.  [default: none]")
@click.option(
    "--require-header", "headers", multiple=True, metavar="NAME:VALUE", help="Header that requests need. Repeatable."
)
@_option("--metrics", type=click.Choice(["vllm", "sglang", "none"]), help="Names at /metrics.")
@click.option("--tls", nargs=2, type=str, metavar="CERT KEY", default=None, help="PEM files, for https.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME[:SHARE]",
    help="A fault, or oddity, of all requests or of a share. Repeatable.",
)
@_option("--calm", type=click.IntRange(0), help="Requests at the beginning without faults.")
@_option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of all that is drawn.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="JSON file for the counts at the end.")
@click.option("--list-faults", is_flag=True, help="List the faults and exit.")
def mock_server(*, report: Path | None, list_faults: bool, **given: Any) -> None:
    """Serve completions and chats without a model, until Ctrl+C: to try a dashboard, or to calibrate a client.

    A token is a word, and the same prompt always gets the same answer. The first line of output is the URL; the last
    ones say how late tokens were sent: a server that does not keep its own delays calibrates nothing.
    """
    if list_faults:
        click.echo("\n".join(_fault_lines()))
        return
    try:
        from mlbench_endpoint.mock_server.server import MockServer
    except ImportError:
        raise UsageError("aiohttp is not installed.", hint="pip install 'mlbench-inference[endpoint]'") from None
    from mlbench_endpoint.mock_server.pacer import PreciseSelector

    def make_loop() -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(PreciseSelector())

    with asyncio.Runner(loop_factory=make_loop) as runner:
        server = runner.run(_serve(lambda: MockServer(MockOptions(**given))))
    found = server.report()
    click.echo("\n".join(_summary(found.lateness)))
    if report:
        try:
            report.write_text(json.dumps(asdict(found), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"{report} cannot be written: {error.strerror}.", hint="Choose another --report."
            ) from None


async def _serve(make: Any) -> MockServer:
    """Serve until a signal comes, and return the server."""
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    server: MockServer = make()
    async with server.serve() as url:
        click.echo(url)
        await over.wait()
    return server


def _summary(lateness: LatenessReport) -> Iterator[str]:
    """Yield lines on how well the delays were kept."""
    if not lateness.pieces:
        yield "No token was sent."
        return
    times = (lateness.p50_s, lateness.p99_s, lateness.most_s)
    p50, p99, most = (f"{1e3 * each:.3g}" if each < 1 else f"{each:.3g} s and more, in" for each in times)
    yield f"{lateness.pieces:,} tokens were sent {p50} ms late in the median; p99 {p99} ms, at most {most} ms."
    if not lateness.in_time_per_s and lateness.late_per_s is None:
        return
    kept = f"Its delays were kept (99 % within 1 ms) at up to {lateness.in_time_per_s:,} tokens/s"
    yield f"{kept}." if lateness.late_per_s is None else f"{kept}; they were not at {lateness.late_per_s:,}."


def _fault_lines() -> Iterator[str]:
    from mlbench_endpoint.mock_server.faults import FAULTS

    width = max(map(len, FAULTS))
    for name, fault in FAULTS.items():
        yield f"{name:<{width}}  {fault.about}"
