"""A transform that moves outliers of activations into weights, so that both survive int8."""

from __future__ import annotations

from mlbench import Transform, hookimpl


@hookimpl
def mlbench_transforms() -> list[Transform]:
    """Return the transform."""
    from mlbench_smoothing.smooth import Smooth

    return [Smooth()]
