"""tract as a backend of mlbench: a plugin from outside its repository."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from mlbench import NEXT, Dim, Executable, Graph, GraphBackend, GraphError, Precision, Probe, hookimpl

TYPES = {"float32": "f32", "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "bool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TractOptions:
    """What can be set: ``--set backend.runtime=cuda``."""

    runtime: str = "default"
    """Where tract computes, by its own name: ``default`` is the CPU."""


class Tract(GraphBackend):
    """Optimises each graph's ONNX file, and computes it on one thread."""

    name = "tract"
    title = "tract on one thread"
    options = TractOptions()

    def probe(self) -> Probe:
        """Look for the package, without importing it."""
        try:
            found = version("tract")
        except PackageNotFoundError:
            return Probe(is_available=False, reason="tract is not installed", install="pip install tract")
        return Probe(is_available=True, devices=("cpu",), versions={"tract": found}, rank=10)

    def compile(self, graph: Graph, precision: Precision) -> Executable:
        """Return a function that has an optimised model for the shapes of each call."""
        import tract  # heavy, so only runs that use this backend pay for it

        specs, models = (*graph.inputs, *graph.state), {}
        names = [spec.name for spec in graph.outputs] + [spec.name + NEXT for spec in graph.state]

        def prepare(shapes):
            try:
                model = tract.onnx().load(graph.onnx())
                for number, (spec, shape) in enumerate(zip(specs, shapes, strict=True)):
                    model.set_input_fact(number, ",".join([*map(str, shape), TYPES[spec.dtype]]))
                return tract.runtime_for_name(self.options.runtime).prepare(model.into_model())
            except tract.TractError as error:
                reason = str(error).strip().splitlines()[0]
                raise GraphError(f"tract cannot compile {graph.name}: {reason}.") from error

        def run(inputs):
            arrays = [inputs[spec.name] for spec in specs]
            shapes = tuple(array.shape for array in arrays)
            model = models.get(shapes) or models.setdefault(shapes, prepare(shapes))
            results = model.run([tract.Tensor.from_numpy(array) for array in arrays])
            return {name: result.to_numpy() for name, result in zip(names, results, strict=True)}

        prepare([[size.usual if isinstance(size, Dim) else size for size in spec.shape] for spec in specs])
        return run


@hookimpl
def mlbench_backends() -> list[GraphBackend]:
    """Return the backend."""
    return [Tract()]
