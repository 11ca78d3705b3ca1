"""How the rate grows with nodes: engines that sleep for each sample, so that two cores can stand for many.

    python benchmarks/network_scaling.py --nodes 1,2,4,8
    python benchmarks/network_scaling.py --nodes 1,2,4 --ray

Each node is a process of ``mlbench serve`` with the null backend, which answers one sample after another, each after
``--service-ms``. The rate is that of LoadGen's Offline query over all of them, as a share of so many times one node's.
With ``--ray`` the nodes are those of a Ray cluster on this machine, on loopback.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import click
from network import job_of, loadgen_rate, node

from mlbench import Dataset, Model, Samples
from mlbench.cluster.cluster_engine import ClusterEngine
from mlbench.cluster.network_engine import NetworkEngine
from mlbench.cluster.nodes_engine import NodesEngine
from mlbench.cluster.placed_nodes import Placement
from mlbench.measurement.running_engine import DESCRIBE_NODE, PART_OF_RUN
from mlbench.records.job_spec import NetworkSpec

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@click.command()
@click.option("--workload", default="resnet50")
@click.option("--nodes", "counts", default="1,2,4,8", help="Numbers of nodes to try, divided by commas.")
@click.option("--service-ms", default=5.0)
@click.option("--seconds", default=6.0, help="About how long each takes.")
@click.option("--rounds", default=1)
@click.option("--ray", "is_by_ray", is_flag=True, help="Have Ray place the nodes.")
def main(  # noqa: PLR0913, PLR0917 - the sizes of its parts
    workload: str, counts: str, service_ms: float, seconds: float, rounds: int, is_by_ray: bool
) -> None:
    """Print rate, share of linear, and what each node did."""
    numbers = [int(each) for each in counts.split(",")]
    sizes = {count: int(count * seconds * 1000 / service_ms) for count in numbers}
    with ExitStack() as stack:
        if is_by_ray:
            address = stack.enter_context(ray_cluster(max(numbers)))
            for _ in range(rounds):
                report({count: rate_by_ray(workload, address, count, sizes[count], service_ms) for count in numbers})
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = ("--set", f"backend.service_ms={service_ms:g}", "--set", "backend.service_spread=0")
        specs = [
            stack.enter_context(node(workload, folder, "--name", f"node-{number}", *settings))
            for number in range(max(numbers))
        ]
        for _ in range(rounds):
            report({count: rate(workload, specs[:count], sizes[count]) for count in numbers})


def report(rates_per_s: Mapping[int, float]) -> None:
    """Print a rate for each number of nodes, and its share of so many times the first one's."""
    first, first_per_s = next(iter(rates_per_s.items()))
    for count, rate_per_s in rates_per_s.items():
        share = rate_per_s / count / (first_per_s / first)
        click.echo(f"{count} nodes: {rate_per_s:8,.1f} samples/s, {share:.1%} of linear")


def rate(workload: str, specs: list[NetworkSpec], samples: int) -> float:
    """Return samples per second over some nodes, and print what each did."""
    spec = NetworkSpec(nodes=tuple(each.nodes[0] for each in specs), token_file=specs[0].token_file)
    with tempfile.TemporaryDirectory() as folder:
        job = job_of(workload, folder, spec)
        model, dataset = job.workload.model(job.variant), job.workload.dataset(job.variant)
        dataset.load(range(dataset.count))
        with NetworkEngine(job.spec, model, dataset) as engine:
            return measured(model, dataset, engine, samples)


def measured(model: Model, dataset: Dataset, engine: NodesEngine, samples: int) -> float:
    """Return samples per second of an engine whose samples are loaded, and print what each node did."""
    engine.warm_up(Samples(tuple(range(64)), tuple(range(64)), dataset))
    engine.statistics()
    found, _ = loadgen_rate(samples, model, dataset, engine)
    engine.statistics()
    for each in engine.reached_nodes():
        busy = each.occupied_ns / each.elapsed_ns
        click.echo(f"    {each.node.name}: {each.samples} samples, had some {busy:.1%} of the time")
    return found


@contextmanager
def ray_cluster(count: int) -> Iterator[str]:
    """Start a Ray cluster of so many nodes on this machine, on loopback, and return its address."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        for _ in range(count - 1):
            cluster.add_node(**NODE)
        yield cluster.address
    finally:
        cluster.shutdown()


def rate_by_ray(workload: str, address: str, count: int, samples: int, service_ms: float) -> float:
    """Return samples per second over some nodes of a Ray cluster, and print what each did."""
    with tempfile.TemporaryDirectory() as folder:
        job = job_of(workload, folder)
        spec = job.spec.with_setting("backend.service_ms", service_ms).with_setting("backend.service_spread", 0)
        model, dataset = job.workload.model(job.variant), job.workload.dataset(job.variant)
        placement = Placement(
            count=count, cluster=address, job=asdict(spec), builder=PART_OF_RUN, describer=DESCRIBE_NODE
        )
        with ClusterEngine(spec, model, dataset, placement) as engine:
            engine.library.load(range(64))
            return measured(model, engine.library, engine, samples)


if __name__ == "__main__":
    main()
