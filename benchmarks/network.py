"""What the network costs: the null backend in this process, behind a node on loopback, and behind HTTP with JSON.

    python benchmarks/network.py --rounds 5

All ways answer the same samples with the same engine, which computes nothing, in turns. HTTP is the published
reference's way, with less in it: a connection that stays, and a server of the standard library. Latencies are of single
queries, one at a time: as LoadGen measures them in SingleStream, over the network through its QDL, and to a thread that
waits for the answer. Rates are of queries of one sample sent as fast as they are taken, and of LoadGen's Offline query
through its QDL. Beside a rate stands what one processor second of this process gives: on a machine that is busy with
something else that says more.
"""

from __future__ import annotations

import http.client
import http.server
import json
import multiprocessing
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from mlbench import Dataset, Engine, Model, Reply, Samples
from mlbench.cluster.network_engine import NetworkEngine
from mlbench.cluster.nodes_engine import NodesEngine
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail, samples_per_s
from mlbench.loadgen.network import Network
from mlbench.loadgen.scenarios import OFFLINE, SINGLE_STREAM
from mlbench.loadgen.settings import Mode, Seeds, Test
from mlbench.loadgen.watchdog import ProgressCallbacks
from mlbench.measurement.job import Job
from mlbench.planning.requests import RunRequest, resolve
from mlbench.records.job_spec import JobSpec, NetworkSpec

LOOPBACK = "127.0.0.1"
SEEDS = Seeds(qsl=1, sample_index=2, schedule=3, accuracy_log=4)


class Counted(Reply):
    """Lets a thread wait for answers."""

    def __init__(self) -> None:
        self._came: queue.SimpleQueue[int] = queue.SimpleQueue()

    def complete(self, samples: Samples, outputs: Any, token_counts: Any = None) -> None:
        """Count answers."""
        self._came.put(len(samples))

    def first_token(self, samples: Samples, tokens: Any) -> None:
        """Do nothing."""

    def fail(self, samples: Samples, reason: str) -> None:
        """End the benchmark."""
        raise SystemExit(f"a sample failed: {reason}")

    def invalidate(self, reason: str) -> None:
        """End the benchmark."""
        raise SystemExit(reason)

    def wait(self, count: int) -> None:
        """Wait for so many answers."""
        while count > 0:
            count -= self._came.get()


@dataclass(kw_only=True)
class Found:
    """What the rounds of a way gave; `loadgen_` is what LoadGen measured."""

    loadgen_p50_us: list[float] = field(default_factory=list)
    loadgen_p99_us: list[float] = field(default_factory=list)
    p50_us: list[float] = field(default_factory=list)
    p99_us: list[float] = field(default_factory=list)
    queries_per_s: list[float] = field(default_factory=list)
    queries_per_processor_s: list[float] = field(default_factory=list)


def job_of(workload: str, folder: str, network: NetworkSpec | None = None) -> Job:
    """Return a run on the null backend."""
    plugins = Plugins.discover()
    request = resolve(RunRequest(workload=workload, backend="null", scenario=OFFLINE.name), plugins)
    spec = JobSpec(
        workload=workload,
        backend="null",
        scenario=OFFLINE.name,
        profile="mini",
        tier="smoke",
        weights="trained",
        precision="fp32",
        settings=request.settings.plain(),
        folder=folder,
        network=network,
    )
    return Job.of_spec(spec, plugins)


@contextmanager
def node(workload: str, folder: Path, *more: str) -> Iterator[NetworkSpec]:
    """Start ``mlbench serve`` on loopback, and return how it is reached."""
    token = folder / "token"
    words = ["serve", workload, "--backend", "null", "--listen", f"{LOOPBACK}:0", "--token-file", str(token)]
    with subprocess.Popen(
        [sys.executable, "-m", "mlbench", *words, *more], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        address = process.stdout.readline().rsplit(" ", 1)[1].rstrip(".\n")
        try:
            yield NetworkSpec(nodes=(address,), token_file=str(token))
        finally:
            process.terminate()


def serve_json(workload: str, port: Any) -> None:
    """Answer a query per request, as the published reference does: JSON in, JSON out."""
    job = job_of(workload, "/")
    model = job.workload.model(job.variant)
    engine = engine_of(job.backend, model, job.plan)

    class Answer(Reply):
        outputs: Any = None

        def complete(self, samples: Samples, outputs: Any, token_counts: Any = None) -> None:
            self.outputs = outputs

        first_token = fail = invalidate = lambda self, *_: None  # type: ignore[assignment]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            np.array(query["data"], np.float32)
            answer = Answer()
            engine.submit(Samples((query["id"],), (query["index"],), None), answer)  # type: ignore[arg-type]
            body = json.dumps({"id": query["id"], "outputs": np.array(answer.outputs).tolist()}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        port.send(server.server_port)
        server.serve_forever()


@contextmanager
def http_node(workload: str) -> Iterator[Callable[[int, np.ndarray], None]]:
    """Start a server, and return a function that sends it a query and waits for the answer."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_json, args=(workload, theirs), daemon=True)
    process.start()
    line = http.client.HTTPConnection(LOOPBACK, ours.recv())

    def ask(index: int, sample: np.ndarray) -> None:
        line.request("POST", "/", json.dumps({"id": index, "index": index, "data": sample.tolist()}))
        json.loads(line.getresponse().read())

    try:
        yield ask
    finally:
        line.close()
        process.kill()


def time_single(ask: Callable[[int], None], count: int, found: Found) -> None:
    """Time single queries, one after another."""
    taken = []
    for number in range(count):
        began = time.perf_counter_ns()
        ask(number)
        taken.append((time.perf_counter_ns() - began) / 1e3)
    taken.sort()
    found.p50_us.append(taken[count // 2])
    found.p99_us.append(taken[count * 99 // 100])


def time_many(send: Callable[[int], None], wait: Callable[[], None], count: int, found: Found) -> None:
    """Time many queries, sent as fast as they are taken."""
    began_s, computed_s = time.perf_counter(), time.process_time()
    for number in range(count):
        send(number)
    wait()
    found.queries_per_s.append(count / (time.perf_counter() - began_s))
    found.queries_per_processor_s.append(count / (time.process_time() - computed_s))


def time_engine(engine: Engine, dataset: Dataset, singles: int, many: int, found: Found) -> None:
    """Time an engine."""
    reply = Counted()

    def send(number: int) -> None:
        engine.submit(Samples((number,), (number % dataset.count,), dataset), reply)

    def ask(number: int) -> None:
        send(number)
        reply.wait(1)

    time_single(ask, singles, found)
    time_many(send, lambda: reply.wait(many), many, found)


def drive_queries(scenario: Scenario, count: int, model: Model, dataset: Dataset, engine: Engine) -> DetailLog:
    """Have LoadGen send so many queries, of Offline samples, and return its log."""
    load = LoadSettings(
        min_duration_ms=1, min_query_count=count, target_qps=1.0, expected_latency_ns=100_000, reply_checks=0
    )
    network = None
    if isinstance(engine, NodesEngine):
        names = engine.names if isinstance(engine, NetworkEngine) else None
        network = Network(names=names, watch=engine.watch, threads=engine.threads)
    test = Test(
        scenario=scenario,
        mode=Mode.PERFORMANCE,
        load=load,
        reply=model.program.reply,
        seeds=SEEDS,
        is_remote=network is not None,
    )
    with tempfile.TemporaryDirectory() as folder:
        traffic = drive(test, engine, dataset, Path(folder), ProgressCallbacks(), network=network)
        if traffic.faults:
            raise SystemExit(traffic.faults[0])
        return read_detail(Path(folder) / DETAIL)


def loadgen_latencies(queries: int, model: Model, dataset: Dataset, engine: Engine, found: Found) -> None:
    """Note what LoadGen measures of single queries."""
    values = drive_queries(SINGLE_STREAM, queries, model, dataset, engine).values
    found.loadgen_p50_us.append(values["result_50.00_percentile_latency_ns"] / 1e3)
    found.loadgen_p99_us.append(values["result_99.00_percentile_latency_ns"] / 1e3)


def loadgen_rate(samples: int, model: Model, dataset: Dataset, engine: Engine) -> tuple[float, float]:
    """Return samples per second of LoadGen's Offline query, and per processor second of this process."""
    computed_s = time.process_time()
    detail = drive_queries(OFFLINE, samples, model, dataset, engine)
    computed_s = time.process_time() - computed_s
    rate_per_s = samples_per_s(detail, OFFLINE)
    assert rate_per_s
    return rate_per_s, samples / computed_s


@click.command()
@click.option("--workload", default="resnet50", help="A workload whose samples are arrays.")
@click.option("--rounds", default=3)
@click.option("--singles", default=1000)
@click.option("--many", default=5000)
@click.option("--asked", default=200, help="Queries over HTTP in a round.")
@click.option("--offline", default=50_000, help="Samples of LoadGen's query.")
def main(  # noqa: PLR0913, PLR0917 - the sizes of its parts
    workload: str, rounds: int, singles: int, many: int, asked: int, offline: int
) -> None:
    """Print what each way takes, and the ratios."""
    ways: Mapping[str, Found] = {name: Found() for name in ("in process", "network", "HTTP and JSON")}
    rates: Mapping[str, list[tuple[float, float]]] = {"in process": [], "network": []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        job = job_of(workload, str(folder), stack.enter_context(node(workload, folder)))
        model, dataset = job.workload.model(job.variant), job.workload.dataset(job.variant)
        local = stack.enter_context(engine_of(job.backend, model, job.plan))
        remote = stack.enter_context(NetworkEngine(job.spec, model, dataset))
        dataset.load(range(dataset.count))
        remote.warm_up(Samples(tuple(range(64)), tuple(range(64)), dataset))
        ask = stack.enter_context(http_node(workload))

        def ask_http(number: int) -> None:
            ask(number, dataset.sample(number % dataset.count))

        click.echo(f"{workload}: samples of {np.asarray(dataset.sample(0)).nbytes} bytes")
        for _ in range(rounds):
            dataset.load(range(dataset.count))  # LoadGen has unloaded them
            time_engine(local, dataset, singles, many, ways["in process"])
            time_engine(remote, dataset, singles, many, ways["network"])
            time_single(ask_http, asked, ways["HTTP and JSON"])
            time_many(ask_http, lambda: None, asked, ways["HTTP and JSON"])
            for name, engine in (("in process", local), ("network", remote)):
                loadgen_latencies(singles, model, dataset, engine, ways[name])
                rates[name].append(loadgen_rate(offline, model, dataset, engine))
    report(ways, rates)


def report(ways: Mapping[str, Found], rates: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Print medians over the rounds, and medians of the rounds' ratios."""
    for name, found in ways.items():
        per_s, per_processor_s = median(found.queries_per_s), median(found.queries_per_processor_s)
        click.echo(
            f"{name:14} single query {median(found.p50_us):8.0f} us, 99th percentile {median(found.p99_us):8.0f} us; "
            f"{per_s:9,.0f} queries/s, {per_processor_s:9,.0f} per processor s"
        )
    for name, each in rates.items():
        found = ways[name]
        click.echo(
            f"{name:14} LoadGen's single query {median(found.loadgen_p50_us):8.0f} us, "
            f"99th percentile {median(found.loadgen_p99_us):8.0f} us"
        )
        per_s, per_processor_s = (median(column) for column in zip(*each, strict=True))
        click.echo(f"{name:14} Offline {per_s:9,.0f} samples/s, {per_processor_s:9,.0f} per processor s")
    local, remote, over_http = ways.values()
    added = median(one - other for one, other in zip(remote.loadgen_p99_us, local.loadgen_p99_us, strict=True))
    waited = median(one - other for one, other in zip(remote.p99_us, local.p99_us, strict=True))
    faster = median(one / other for one, other in zip(remote.queries_per_s, over_http.queries_per_s, strict=True))
    click.echo(
        f"the network adds {added:.0f} us at LoadGen's 99th percentile, {waited:.0f} us to a thread that waits; "
        f"{faster:.0f} times the rate of HTTP and JSON"
    )


if __name__ == "__main__":
    main()
