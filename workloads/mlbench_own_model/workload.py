"""The workload of a user's own model: a function of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlbench import Profile, Rules, Workload
from mlbench_own_model.options import OwnModelOptions

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model, Variant

LONGEST_LATENCY_MS = 60_000
"""LoadGen requires a limit in Server; the user's own is ``load.latency_limit_ms``."""


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

    def __init__(self, name: str) -> None:
        self.name = name

    def dataset(self, variant: Variant) -> Dataset:
        """Open the user's inputs, or draw random ones."""
        from mlbench_own_model.dataset import open_inputs
        from mlbench_own_model.graphs import open_model

        return open_inputs(open_model(variant.options), variant.options)

    def model(self, variant: Variant) -> Model:
        """Return the file's graph, and the program that calls it."""
        from mlbench_own_model.graphs import open_model
        from mlbench_own_model.program import build_model

        return build_model(self.name, open_model(variant.options), variant.options)

    def metric(self, variant: Variant, dataset: Any) -> Metric | None:
        """Return the differences from the reference's outputs."""
        from mlbench_own_model.accuracy import OutputDifferences

        return OutputDifferences.for_run(self.name, variant, dataset)
