"""What rewriting graphs for ONNX Runtime's CPU kernels gains: each graph as exported and as it is run, in turns.

    python benchmarks/cpu_operators.py 3d-unet stable-diffusion-xl bert

One thread, random inputs of the sizes that the graph calls usual, the least of all calls: other work only adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import click
import numpy as np
import onnxruntime
from mlbench_onnxruntime.cpu_operators import with_cpu_operators

from mlbench import Dim, Graph, Profile, Variant, Weights
from mlbench.discovery import Plugins


def drawn(graph: Graph) -> Mapping[str, np.ndarray]:
    """Return inputs of a graph; whole numbers are zeros and ones, which index any table."""
    random, inputs = np.random.default_rng(0), {}
    for spec in graph.inputs:
        shape = tuple(size.usual if isinstance(size, Dim) else size for size in spec.shape)
        values = random.standard_normal(shape) if spec.dtype.startswith("float") else random.integers(0, 2, shape)
        inputs[spec.name] = values.astype(spec.dtype)
    return inputs


@click.command()
@click.argument("workloads", nargs=-1, required=True)
@click.option("--rounds", default=30, type=click.IntRange(1), help="Calls of each file, in turns.")
def main(workloads: tuple[str, ...], rounds: int) -> None:
    """Print milliseconds of a call."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 3  # it warns of each weight that it drops
    for workload in workloads:
        plugin = Plugins.discover().workload(workload)
        variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=plugin.options)
        for name, graph in plugin.model(variant).graphs.items():
            exported = graph.onnx()
            files = {"as exported": exported, "rewritten": with_cpu_operators(exported, graph)}
            if files["rewritten"] == exported:
                click.echo(f"{workload} {name}: nothing is rewritten")
                continue
            sessions = {
                kind: onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
                for kind, file in files.items()
            }
            inputs, least = drawn(graph), dict.fromkeys(files, float("inf"))
            for _ in range(rounds):
                for kind, session in sessions.items():
                    started = time.perf_counter()
                    session.run(None, dict(inputs))
                    least[kind] = min(least[kind], 1e3 * (time.perf_counter() - started))
            shown = ", ".join(f"{kind} {milliseconds:.1f} ms" for kind, milliseconds in least.items())
            shapes = ", ".join(f"{key} {'x'.join(map(str, value.shape))}" for key, value in inputs.items())
            click.echo(f"{workload} {name} ({shapes}): {shown}, {least['as exported'] / least['rewritten']:.2f} times")


if __name__ == "__main__":
    main()
