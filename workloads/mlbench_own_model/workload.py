"""The workload of a user's own model: a function of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlbench import Profile, Rules, UsageError, Weights, Workload
from mlbench_own_model.options import OwnModelOptions

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model, Variant

LONGEST_LATENCY_MS = 60_000
"""LoadGen requires a limit in Server; the user's own is ``load.latency_limit_ms``."""


_IMPORTS = {
    ".onnx": ("onnx", "onnx.version_converter", "mlbench_own_model.onnx_model_file"),
    ".pt2": ("torch", "torch.export", "torch.export.pt2_archive", "mlbench_own_model.exported_model_file"),
}
_IMPORTS_OF_ALL = ("mlbench_own_model.accuracy", "mlbench_own_model.program")


class OwnModel(Workload):
    """An ONNX file or a torch exported program, under a name of the user's."""

    title = "your own model"
    rules = Rules(
        scenarios=("Offline", "SingleStream", "MultiStream", "Server"),
        targets=(),
        min_duration_ms=60_000,
        server_latency_ms=LONGEST_LATENCY_MS,
    )
    options = OwnModelOptions()
    is_default = False
    default_scenarios = ("Offline",)
    only_profile = Profile.FULL

    def __init__(self, name: str, ending: str) -> None:
        """Store its name, and how its file's ends: processes share what reading such a file imports."""
        self.name = name
        self.preload_always = (*_IMPORTS[ending], *_IMPORTS_OF_ALL)
        self.preload_of_reference = ("onnxruntime",) if ending == ".onnx" else ("torch",)

    def dataset(self, variant: Variant) -> Dataset:
        """Open the user's inputs, or draw random ones."""
        from mlbench_own_model.dataset import open_inputs
        from mlbench_own_model.graphs import open_model

        return open_inputs(open_model(variant.options), variant.options)

    def model(self, variant: Variant) -> Model:
        """Return the file's graph, and the program that calls it.

        Raises:
            UsageError: random weights are asked for.
        """
        from mlbench_own_model.graphs import open_model
        from mlbench_own_model.program import build_model

        if variant.weights is not Weights.TRAINED:
            raise UsageError(f"{self.name} has its weights in its file.", hint="Leave --weights out.")
        return build_model(self.name, open_model(variant.options), variant.options)

    def metric(self, variant: Variant, dataset: Any) -> Metric | None:
        """Return the differences from the reference's outputs."""
        from mlbench_own_model.accuracy import OutputDifferences

        return OutputDifferences.for_run(variant, dataset)
