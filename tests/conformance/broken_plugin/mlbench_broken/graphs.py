"""Compiled graphs that are wrong."""

import numpy as np

from mlbench.toolkit import graph_engine
from mlbench_broken.right import Right


class BrokenCompile(Right):
    """Compiles graphs, and passes each executable through ``damage(run, graph)``."""

    def __init__(self, name, damage):
        self.name = name
        self._damage = damage

    def compile(self, graph, precision):
        executable = super().compile(graph, precision)
        return executable if graph.state else self._damage(executable, graph)


def stale_buffer(run, graph):
    held = {}

    def damaged(inputs):
        for name, output in run(inputs).items():
            buffer = held.setdefault(name, np.zeros(1000, np.float32))
            buffer[: output.size] = output.ravel()
            held[name + "'"] = buffer[: output.size].reshape(output.shape)
        return {name: held[name + "'"] for name in (spec.name for spec in graph.outputs)}

    return damaged


def swapped_rows(run, graph):
    return lambda inputs: {name: np.roll(output, 1, axis=0) for name, output in run(inputs).items()}


def noisy(run, graph):
    random = np.random.default_rng(1)
    return lambda inputs: {
        name: output + random.standard_normal(output.shape, np.float32) for name, output in run(inputs).items()
    }


def remembering(run, graph):
    last = [0.0]

    def damaged(inputs):
        outputs = {name: output + np.float32(last[0]) for name, output in run(inputs).items()}
        last[0] = float(outputs[graph.outputs[0].name].size)
        return outputs

    return damaged


def overwriting_inputs(run, graph):
    def damaged(inputs):
        outputs = run(inputs)
        inputs[graph.inputs[0].name][:] = 0
        return outputs

    return damaged


def misnamed(run, graph):
    return lambda inputs: {f"{name}_0": output for name, output in run(inputs).items()}


def doubles(run, graph):
    return lambda inputs: {name: output.astype(np.float64) for name, output in run(inputs).items()}


def transposed(run, graph):
    return lambda inputs: {name: output.T for name, output in run(inputs).items()}


def blank_last_row(run, graph):
    return lambda inputs: {
        name: np.concatenate([output[:-1], np.full_like(output[-1:], np.nan)]) for name, output in run(inputs).items()
    }


def stale_after_200_calls(run, graph):
    calls, held = [0], {}

    def damaged(inputs):
        calls[0] += 1
        outputs = run(inputs)
        shape = outputs[graph.outputs[0].name].shape
        if calls[0] <= 200 or shape not in held:
            held[shape] = outputs
        return {name: output.copy() for name, output in held[shape].items()}

    return damaged


def right_in_eight_rows(run, graph):
    def damaged(inputs):
        outputs = {name: output.copy() for name, output in run(inputs).items()}
        for output in outputs.values():
            output[8:] = output[:1]
        return outputs

    return damaged


def ring_of_four(run, graph):
    rings = {}

    def damaged(inputs):
        handed = {}
        for name, output in run(inputs).items():
            ring = rings.setdefault((name, output.shape), [np.zeros_like(output) for _ in range(4)])
            ring.append(ring.pop(0))
            ring[0][:] = output
            handed[name] = ring[0]
        return handed

    return damaged


class LeakyBetweenRuns(Right):
    """What one run left behind shifts the answers of the next."""

    name = "leaks-between-runs"

    def __init__(self):
        self._engines = 0

    def engine(self, model, plan):
        self._engines += 1
        return graph_engine(self, model, plan)

    def compile(self, graph, precision):
        run, shift = super().compile(graph, precision), np.float32(max(0, self._engines - 1))
        return lambda inputs: {name: output + shift for name, output in run(inputs).items()}


BACKENDS = [
    LeakyBetweenRuns(),
    BrokenCompile("stale-buffer", stale_buffer),
    BrokenCompile("swapped-rows", swapped_rows),
    BrokenCompile("noisy", noisy),
    BrokenCompile("remembering", remembering),
    BrokenCompile("overwriting-inputs", overwriting_inputs),
    BrokenCompile("misnamed-output", misnamed),
    BrokenCompile("double-output", doubles),
    BrokenCompile("transposed-output", transposed),
    BrokenCompile("nan-in-a-row", blank_last_row),
    BrokenCompile("stale-after-200-calls", stale_after_200_calls),
    BrokenCompile("right-in-eight-rows", right_in_eight_rows),
    BrokenCompile("ring-of-four", ring_of_four),
]
