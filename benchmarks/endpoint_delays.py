"""Whether the endpoint backend recovers what a server does: delays of a scripted server against TTFT and TPOT of a run.

    python benchmarks/endpoint_delays.py

The server runs in a process of its own on loopback, sends each token when it is due, and notes when it really sent it.
Each row is one run of Llama 2's mini prompts in Server; the server's medians and LoadGen's stand side by side.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

TOKENS = 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LISTED = b'{"data": [{"id": "scripted"}]}'
MODELS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(LISTED), LISTED)


def chunk(text: str) -> bytes:
    """Return a part of an answer as HTTP/1.1 sends it on a connection that it keeps."""
    return b"%x\r\n%b\r\n" % (len(text), text.encode())


def serve(first_s: float, token_s: float, line: Connection) -> None:
    """Send the port, answer until told to end, then send (TTFT, TPOT) of each answer as they were, in seconds."""
    sent: list[tuple[float, float]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # the client hangs up
            while head := (await reader.readuntil(b"\r\n\r\n")).lower():
                arrived = time.monotonic()
                if head.startswith(b"get"):
                    writer.write(MODELS)
                    continue
                size = next(part.split(b":")[1] for part in head.split(b"\r\n") if part.startswith(b"content-length"))
                request = json.loads(await reader.readexactly(int(size)))
                times = await stream(writer, arrived, len(request["prompt"]))
                sent.append((times[0] - arrived, (times[-1] - times[0]) / (TOKENS - 1)))

    async def stream(writer: asyncio.StreamWriter, arrived: float, prompt_tokens: int) -> list[float]:
        times = []
        writer.write(HEAD)
        for number in range(TOKENS):
            await asyncio.sleep(arrived + first_s + number * token_s - time.monotonic())
            last = number == TOKENS - 1
            choice = {"token_ids": [2 if last else 50 + number], "finish_reason": "stop" if last else None}
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": number + 1} if last else None
            message = {"model": "scripted", "choices": [choice], "usage": usage}
            writer.write(chunk(f"data: {json.dumps(message)}\n\n"))
            await writer.drain()
            times.append(time.monotonic())
        writer.write(chunk("data: [DONE]\n\n") + chunk(""))
        return times

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512)
        line.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(line.recv)
        line.send(sent)

    asyncio.run(run())


def measured(port: int, rate_per_s: float, folder: Path) -> tuple[dict[str, float], int]:
    """Run Llama 2 in Server; return latencies in ns by LoadGen's names, and the number of answers."""
    settings = {
        "backend.url": f"http://127.0.0.1:{port}/v1",
        "load.target_qps": rate_per_s,
        "load.min_query_count": 1,
        "load.min_duration_ms": 10_000,
    }
    chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    what = ["run", "llama2-70b", "--backend", "endpoint", "--scenario", "Server", "--no-accuracy", "--json"]
    command = [sys.executable, "-m", "mlbench", *what, "--results", str(folder), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    records = [json.loads(path.read_text()) for path in folder.glob("*/record.json")]
    if not records or not records[0]["result"]:
        raise click.ClickException(done.stderr)
    (result,) = (record["result"] for record in records)
    return result["latency_ns"], result["counts"]["queries"]


@click.command()
@click.option("--rate", default=20.0, show_default=True, help="Requests per second.")
@click.option("--first-ms", "firsts_ms", multiple=True, default=(20.0, 100.0, 400.0), show_default=True)
@click.option("--token-ms", default=10.0, show_default=True)
def main(rate: float, firsts_ms: Sequence[float], token_ms: float) -> None:
    """Print scripted, sent and measured medians, and how far apart the last two are."""
    table = Table(title=f"{rate:g} requests/s, {TOKENS} tokens, {token_ms:g} ms from token to token; medians in ms")
    for heading in ("scripted TTFT", "sent", "measured", "off", "scripted TPOT", "sent", "measured", "off"):
        table.add_column(heading, justify="right")
    for first_ms in firsts_ms:
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(first_ms / 1e3, token_ms / 1e3, theirs))
        server.start()
        with tempfile.TemporaryDirectory() as folder:
            latencies, queries = measured(ours.recv(), rate, Path(folder))
        ours.send("end")
        sent = ours.recv()[-queries:]  # those before were warming up
        server.join()
        row = []
        for scripted_ms, key, times in (
            (first_ms, "first_token_50.00_percentile_latency", [first for first, _ in sent]),
            (token_ms, "time_per_output_token_50.00_percentile", [each for _, each in sent]),
        ):
            sent_ms, found_ms = 1e3 * statistics.median(times), latencies[key] / 1e6
            row += [f"{scripted_ms:g}", f"{sent_ms:.2f}", f"{found_ms:.2f}", f"{found_ms / sent_ms - 1:+.1%}"]
        table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
