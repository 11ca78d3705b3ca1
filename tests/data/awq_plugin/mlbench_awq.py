"""A backend from outside that offers a precision of its own: matrices are rounded to sixteen steps per row."""

from importlib.util import find_spec

from mlbench import NumberFormat, Precision, Probe, hookimpl
from mlbench.toolkit import TorchBackend

AWQ = Precision("int4-awq")


class Awq(TorchBackend):
    name = "awq"
    title = "torch, with weights of four bits"

    def probe(self):
        formats = {AWQ: NumberFormat(stores=Precision("int4"), computes=Precision.FP32)}
        return Probe(
            is_available=find_spec("torch") is not None,
            precisions=(Precision.FP32, AWQ),
            number_formats=formats,
            rank=-10,
        )

    def compile(self, graph, precision):
        return super().compile(Rounded(graph) if precision is AWQ else graph, Precision.FP32)


class Rounded:
    """A graph whose matrices are rounded."""

    def __init__(self, graph):
        self._graph = graph

    def __getattr__(self, name):
        return getattr(self._graph, name)

    def module(self):
        import torch

        module = self._graph.module()
        with torch.no_grad():
            for weight in module.parameters():
                if weight.ndim > 1:
                    step = weight.abs().amax(dim=tuple(range(1, weight.ndim)), keepdim=True).clamp(min=1e-9) / 7
                    weight.copy_((weight / step).round() * step)
        return module


@hookimpl
def mlbench_backends():
    return [Awq()]
