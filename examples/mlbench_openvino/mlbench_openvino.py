"""OpenVINO as a backend of mlbench: a plugin from outside its repository."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from mlbench import Executable, Graph, GraphBackend, GraphError, Precision, Probe, hookimpl


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVinoOptions:
    """What can be set: ``--set backend.threads=4``."""

    threads: int = 0
    """0: as many as OpenVINO likes."""


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

    def compile(self, graph: Graph, precision: Precision) -> Executable:
        """Return a compiled model."""
        import openvino  # heavy, so only runs that use this backend pay for it

        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": self.options.threads}
        try:
            model = openvino.Core().compile_model(graph.onnx(), "CPU", settings)
        except RuntimeError as error:
            raise GraphError(f"OpenVINO cannot compile {graph.name}: {error}.") from error
        names = [spec.name for spec in graph.outputs] + [f"{spec.name}.next" for spec in graph.state]

        def run(inputs):
            results = model(dict(inputs))  # copies its outputs, as an executable must
            return {name: results[name] for name in names}

        return run


@hookimpl
def mlbench_backends() -> list[GraphBackend]:
    """Return the backend."""
    return [OpenVino()]
