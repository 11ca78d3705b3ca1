"""How many tokens of streams a client process of the endpoint backend reads per second of its processor time.

python benchmarks/client_speed.py http://localhost:8000/v1 [--before TREE] [--streams 64] [--requests 512]

asks a server (`mlbench mock-server --ttft 5ms --tpot 5ms`), three times; with ``--before``, interleaved with the client
of another checkout, whose speed is the ratio's denominator. Processor time hardly changes where other work shares the
machine; one process at saturation has a second of it per second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import psutil

from mlbench.toolkit import SideProcess

ROOT = Path(__file__).parents[1]
TOKENS = 128


def measure(url: str, streams: int, requests: int) -> float:
    """Return tokens per second of processor time, of a client process of the packages that are imported here."""
    from mlbench_endpoint.client.messages import RequestMessage, to_line
    from mlbench_endpoint.client.settings import ClientSettings
    from mlbench_endpoint.options import EndpointOptions
    from mlbench_endpoint.text_format import text_format

    form = text_format(api=EndpointOptions().api, extra={"ignore_eos": True}, count="")
    options = EndpointOptions(url=url, connections=streams)
    settings = ClientSettings(targets=[url], fields=form.common, format=form.answer, options=options)
    process = SideProcess("mlbench_endpoint.client.process")
    lines = process.line.makefile("rb")
    process.line.sendall(settings.to_line())
    if "ready" not in json.loads(lines.readline()):
        raise SystemExit(f"{url} refused")
    child = psutil.Process(process.pid)
    began_s = float(sum(child.cpu_times()[:2]))
    fields = {"prompt": "word " * 32, "max_tokens": TOKENS}
    for number in range(requests):
        process.line.sendall(to_line(RequestMessage(id=number, fields=fields, limit=TOKENS)))
    read = 0.0
    while read < requests * TOKENS:
        message = json.loads(lines.readline())
        if message["kind"] == "Failed":
            raise SystemExit(message["reason"])
        read += float(message.get("answer_tokens", 0))
    return read / (float(sum(child.cpu_times()[:2])) - began_s)


def measure_in(tree: Path, words: list[str]) -> float:
    """Return the same in a process that imports a checkout's packages."""
    path = os.pathsep.join(map(str, (tree, tree / "plugins")))
    command = [sys.executable, __file__, *words, "--once"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout)


def main() -> None:
    """Measure the clients interleaved, and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    for name, default in (("--streams", 64), ("--requests", 512)):
        parser.add_argument(name, type=int, default=default)
    given = parser.parse_args()
    if given.once:
        print(measure(given.url, given.streams, given.requests))
        return
    words = [given.url, *(f"--{name}={getattr(given, name)}" for name in ("streams", "requests"))]
    trees = {"now": ROOT} | ({"before": given.before.resolve()} if given.before else {})
    found: dict[str, list[float]] = {name: [] for name in trees}
    for _ in range(3):
        for name, tree in trees.items():
            found[name].append(measure_in(tree, words))
    medians = {name: statistics.median(each) for name, each in found.items()}
    for name, each in medians.items():
        print(f"{name}: {each:,.0f} tokens per second of processor time")
    if given.before:
        print(f"now / before: {medians['now'] / medians['before']:.2f}")


if __name__ == "__main__":
    main()
