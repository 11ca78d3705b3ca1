"""What the broken backends are made from: a right one, in torch, and one that computes nothing."""

import threading

import numpy as np

from mlbench import Backend, Engine, GenerationProgram, GraphBackend, Probe, UsageError

POISONED_INDEX = 3
NEVER = threading.Event()


class Right(GraphBackend):
    """Runs the torch module as it is."""

    name = "right"
    title = "torch, eagerly"
    preload = ("torch",)

    def probe(self):
        return Probe(is_available=True)

    def compile(self, graph, precision):
        import torch

        torch.set_num_threads(1)  # others may use the cores
        module = graph.module()

        def run(inputs, state=()):
            with torch.inference_mode():
                outputs = module(*(torch.tensor(inputs[spec.name]) for spec in graph.inputs), *state)
            several = outputs if isinstance(outputs, tuple) else (outputs,)
            return {spec.name: output.numpy() for spec, output in zip(graph.outputs, several, strict=False)}

        return Stateful(run, graph) if graph.state else run


class Stateful:
    """Runs the torch module of a graph with state."""

    def __init__(self, run, graph):
        self.run = run
        self.graph = graph

    def new_state(self, sizes):
        import torch

        return [
            torch.zeros([sizes.get(getattr(size, "name", 0), size) for size in spec.shape]) for spec in self.graph.state
        ]

    def resize(self, state, sizes):
        grown = self.new_state(sizes)
        for new, old in zip(grown, state, strict=True):
            new[: old.shape[0], :, : old.shape[2]] = old
        return grown

    def copy_rows(self, state, sources, targets, columns):
        for tensor in state:
            part = tensor[:, :, columns.start : columns.stop]
            part[list(targets)] = part[list(sources)]

    def __call__(self, inputs, state):
        return self.run(inputs, state)


class Plain(Right):
    """Knows nothing of state but that it goes in and comes out, as in the ONNX form of a graph."""

    name = "plain"

    def compile(self, graph, precision):
        executable = super().compile(graph, precision)
        if not graph.state:
            return executable
        import torch

        def run(inputs):
            state = [torch.tensor(inputs[spec.name]) for spec in graph.state]
            outputs = executable.run(inputs, state)
            after = zip(graph.state, state, strict=True)
            return {**outputs, **{f"{spec.name}.next": tensor.numpy() for spec, tensor in after}}

        return run


class Absent(Right):
    name = "absent"

    def probe(self):
        return Probe(is_available=False, reason="its runtime is not installed", install="pip install runtime")


class Zeros(Engine):
    """Computes nothing."""

    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 10), np.float32))


def refuse_generation(model):
    if isinstance(model.program, GenerationProgram):
        raise UsageError("it has no words.")


class Uncomputed(Backend):
    """Answers zeros from the engine that ``make`` returns, and takes no prompts."""

    title = "zeros"
    computes_answers = False

    def __init__(self, name, make):
        self.name = name
        self._make = make

    def probe(self):
        return Probe(is_available=True)

    def engine(self, model, plan):
        refuse_generation(model)
        return self._make()


class Uttering(Zeros):
    """Answers with ``answer(samples, reply)``."""

    def __init__(self, answer):
        self._answer = answer

    def submit(self, samples, reply):
        self._answer(samples, reply)


def zeros(samples):
    return np.zeros((len(samples), 10), np.float32)
