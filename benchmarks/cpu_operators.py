"""What rewriting graphs for ONNX Runtime's CPU kernels gains: each graph as exported and as it is run, in turns.

    python benchmarks/cpu_operators.py 3d-unet stable-diffusion-xl bert
    python benchmarks/cpu_operators.py --convolutions

One thread, random inputs of the sizes that the graph calls usual, the least processor time of all calls: other work on
the machine adds to it, and less than to the time on a clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np
import onnxruntime
from mlbench_onnxruntime.convolutions import split_convolutions
from mlbench_onnxruntime.cpu_operators import with_cpu_operators
from onnx import ModelProto, TensorProto, helper, numpy_helper

from mlbench import Dim, Graph, Profile, Variant, Weights
from mlbench.discovery import Plugins

CONVOLUTIONS = ((8, 8, 64, 1), (16, 8, 64, 1), (32, 16, 32, 2), (48, 24, 16, 2), (32, 32, 64, 1), (64, 32, 64, 1))
"""Input channels, output channels, length of a side, and volumes."""


def drawn(graph: Graph) -> Mapping[str, np.ndarray]:
    """Return inputs of a graph; whole numbers are zeros and ones, which index any table."""
    random, inputs = np.random.default_rng(0), {}
    for spec in graph.inputs:
        shape = tuple(size.usual if isinstance(size, Dim) else size for size in spec.shape)
        values = random.standard_normal(shape) if spec.dtype.startswith("float") else random.integers(0, 2, shape)
        inputs[spec.name] = values.astype(spec.dtype)
    return inputs


def convolution_of(inputs: int, outputs: int, side: int, volumes: int) -> ModelProto:
    """Return a graph of one convolution with a kernel of 3 x 3 x 3."""
    weight = np.random.default_rng(0).standard_normal((outputs, inputs, 3, 3, 3), dtype=np.float32)
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [volumes, channels, side, side, side])
        for name, channels in (("x", inputs), ("y", outputs))
    )
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="convolution", pads=[1] * 6)
    graph = helper.make_graph([node], "convolution", [x], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def compare(exported: Path | bytes, rewritten: Path | bytes, inputs: Mapping[str, np.ndarray], rounds: int) -> str:
    """Return the milliseconds of a call of each, and their ratio."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 3  # it warns of each weight that it drops
    sessions = {
        kind: onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
        for kind, file in (("as exported", exported), ("rewritten", rewritten))
    }
    least = dict.fromkeys(sessions, float("inf"))
    for _ in range(rounds):
        for kind, session in sessions.items():
            started = time.process_time()
            session.run(None, dict(inputs))
            least[kind] = min(least[kind], 1e3 * (time.process_time() - started))
    shown = ", ".join(f"{kind} {milliseconds:.1f} ms" for kind, milliseconds in least.items())
    return f"{shown}, {least['as exported'] / least['rewritten']:.2f} times"


@click.command()
@click.argument("workloads", nargs=-1)
@click.option("--convolutions", is_flag=True, help="Convolutions of volumes alone, in several sizes.")
@click.option("--rounds", default=30, type=click.IntRange(1), help="Calls of each file, in turns.")
def main(workloads: tuple[str, ...], convolutions: bool, rounds: int) -> None:
    """Print milliseconds of a call."""
    if not workloads and not convolutions:
        raise click.UsageError("Name workloads, or ask for --convolutions.")
    for inputs, outputs, side, volumes in CONVOLUTIONS if convolutions else ():
        exported = convolution_of(inputs, outputs, side, volumes)
        x = np.random.default_rng(1).standard_normal((volumes, inputs, side, side, side), dtype=np.float32)
        rewritten = ModelProto()
        rewritten.CopyFrom(exported)
        split_convolutions(rewritten, Path())
        shown = compare(exported.SerializeToString(), rewritten.SerializeToString(), {"x": x}, rounds)
        click.echo(f"convolution ({inputs} to {outputs} channels, side {side}, volumes {volumes}): {shown}")
    for workload in workloads:
        plugin = Plugins.discover().workload(workload)
        variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=plugin.options)
        for name, graph in plugin.model(variant).graphs.items():
            exported_file = graph.onnx()
            rewritten_file = with_cpu_operators(exported_file, graph)
            if rewritten_file == exported_file:
                click.echo(f"{workload} {name}: nothing is rewritten")
                continue
            values = drawn(graph)
            shapes = ", ".join(f"{key} {'x'.join(map(str, value.shape))}" for key, value in values.items())
            click.echo(f"{workload} {name} ({shapes}): {compare(exported_file, rewritten_file, values, rounds)}")


if __name__ == "__main__":
    main()
