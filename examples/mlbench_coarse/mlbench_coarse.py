"""A transform from outside: weights of linear layers on a grid of few bits, the whole plugin."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from mlbench import Calibration, Model, Transform, hookimpl
from mlbench.toolkit import change_modules


@dataclass(frozen=True)
class CoarseOptions:
    """How fine the grid is."""

    bits: Annotated[int, Ge(2), Le(16)] = 8


class Coarse(Transform):
    """Rounds each row of weights to multiples of a step, its largest weight in so many bits."""

    name = "coarse"
    title = "rounds the weights of linear layers to a few bits, and computes in the run's precision"
    options = CoarseOptions()
    is_closed = True  # quantisation after training, without data

    def apply(self, model: Model, calibration: Calibration) -> Model:
        """Return a model with rounded weights."""
        return change_modules(model, self, self.change, says=f"weights of linear layers in {self.options.bits} bits")

    def change(self, part):
        """Round the weights of a linear layer."""
        if type(part).__name__ == "Linear":
            largest = part.weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12)
            step = largest / (2 ** (self.options.bits - 1) - 1)
            part.weight.copy_((part.weight / step).round() * step)


@hookimpl
def mlbench_transforms():
    """Return the transform."""
    return [Coarse()]
