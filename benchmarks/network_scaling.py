"""How the rate grows with nodes: engines that sleep for each sample, so that two cores can stand for many.

    python benchmarks/network_scaling.py --nodes 1,2,4,8

Each node is a process of ``mlbench serve`` with the null backend, which answers one sample after another, each after
``--service-ms``. The rate is that of LoadGen's Offline query over all of them, as a share of so many times one node's.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click
from network import job_of, loadgen_rate, node

from mlbench import Samples
from mlbench.cluster.network_engine import NetworkEngine
from mlbench.records.job_spec import NetworkSpec


@click.command()
@click.option("--workload", default="resnet50")
@click.option("--nodes", "counts", default="1,2,4,8", help="Numbers of nodes to try, divided by commas.")
@click.option("--service-ms", default=5.0)
@click.option("--seconds", default=6.0, help="About how long each takes.")
@click.option("--rounds", default=1)
def main(workload: str, counts: str, service_ms: float, seconds: float, rounds: int) -> None:
    """Print rate, share of linear, and what each node did."""
    numbers = [int(each) for each in counts.split(",")]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = ("--set", f"backend.service_ms={service_ms:g}", "--set", "backend.service_spread=0")
        specs = [
            stack.enter_context(node(workload, folder, "--name", f"node-{number}", *settings))
            for number in range(max(numbers))
        ]
        for _ in range(rounds):
            first_per_s = 0.0
            for count in numbers:
                rate_per_s = rate(workload, specs[:count], samples=int(count * seconds * 1000 / service_ms))
                first_per_s = first_per_s or rate_per_s / count
                click.echo(
                    f"{count} nodes: {rate_per_s:8,.1f} samples/s, {rate_per_s / count / first_per_s:.1%} of linear"
                )


def rate(workload: str, specs: list[NetworkSpec], samples: int) -> float:
    """Return samples per second over some nodes, and print what each did."""
    spec = NetworkSpec(nodes=tuple(each.nodes[0] for each in specs), token_file=specs[0].token_file)
    with tempfile.TemporaryDirectory() as folder:
        job = job_of(workload, folder, spec)
        model, dataset = job.workload.model(job.variant), job.workload.dataset(job.variant)
        dataset.load(range(dataset.count))
        with NetworkEngine(job.spec, model, dataset) as engine:
            engine.warm_up(Samples(tuple(range(64)), tuple(range(64)), dataset))
            engine.statistics()
            found, _ = loadgen_rate(job, model, dataset, engine, samples)
            engine.statistics()
            for each in engine.record().nodes:
                busy = each.occupied_ns / each.elapsed_ns
                click.echo(f"    {each.node.name}: {each.samples} samples, had some {busy:.1%} of the time")
    return found


if __name__ == "__main__":
    main()
