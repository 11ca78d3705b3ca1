"""What the options of a language workload's full profile may be together."""

from __future__ import annotations

from pathlib import Path

from mlbench.contracts.workload import Weights
from mlbench.errors import UsageError


def check_options(  # noqa: PLR0913 - the options, and what to hold them against
    workload: str, kind: Weights, *, data: Path | None, weights: Path | None, layers: int, most_layers: int
) -> None:
    """Check paths and layers of a full profile.

    Args:
        workload: its name.
        kind: which weights the run uses.
        data: the official data.
        weights: the Hugging Face folder; trained weights only.
        layers: so many instead of all, 0 for all; random weights only.
        most_layers: of the official model.

    Raises:
        UsageError: an option is missing or would not be read.
    """
    if kind is Weights.RANDOM and weights:
        raise UsageError("random weights do not come from a file.", hint="Leave out workload.weights.")
    if kind is Weights.TRAINED and layers:
        raise UsageError("trained weights have all their layers.", hint="Leave out workload.layers.")
    if not 0 <= layers <= most_layers:
        raise UsageError(f"workload.layers is {layers}, but {workload} has {most_layers} layers.")
    if kind is Weights.TRAINED and not (data and weights):
        missing = "weights" if data else "data"
        raise UsageError(
            f"the full profile of {workload} needs {missing}.", hint=f"Give it with --set workload.{missing}=PATH."
        )
