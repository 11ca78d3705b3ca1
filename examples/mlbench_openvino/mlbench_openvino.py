"""OpenVINO as a backend of mlbench: a plugin from outside its repository."""

from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Self

from mlbench import NEXT, Executable, Graph, GraphBackend, GraphError, Precision, Probe, hookimpl
from mlbench.toolkit import cores_each


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVinoOptions:
    """What can be set: ``--set backend.threads=4``."""

    threads: int = 0
    """Threads of one worker; 0: its part of the cores."""


class OpenVino(GraphBackend):
    """Compiles each graph's ONNX file for the CPU."""

    name = "openvino"
    title = "OpenVINO on the CPU"
    options = OpenVinoOptions()

    def probe(self) -> Probe:
        """Look for the package, without importing it."""
        try:
            found = version("openvino")
        except PackageNotFoundError:
            return Probe(is_available=False, reason="openvino is not installed", install="pip install openvino")
        return Probe(is_available=True, devices=("cpu",), versions={"openvino": found}, rank=40)

    def for_workers(self, workers: int) -> Self:
        """Give each worker its part of the cores."""
        return self.with_options(replace(self.options, threads=self.options.threads or cores_each(workers)))

    def compile(self, graph: Graph, precision: Precision) -> Executable:
        """Return a compiled model."""
        import openvino  # heavy, so only runs that use this backend pay for it

        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": self.options.threads,
            "ENABLE_CPU_PINNING": False,  # it would pin every worker to the same cores
        }
        try:
            model = openvino.Core().compile_model(graph.onnx(), "CPU", settings)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1].lstrip("- ")  # names the operator
            raise GraphError(f"OpenVINO cannot compile {graph.name}: {reason}.") from error
        names = [spec.name for spec in graph.outputs] + [spec.name + NEXT for spec in graph.state]

        def run(inputs):
            results = model(dict(inputs))  # copies its outputs, as an executable must
            return {name: results[name] for name in names}

        return run


@hookimpl
def mlbench_backends() -> list[GraphBackend]:
    """Return the backend."""
    return [OpenVino()]
