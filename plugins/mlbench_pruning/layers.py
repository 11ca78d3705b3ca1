"""Depth pruning: leaves out layers of a language model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Le, Lt

from mlbench import DECODE, PREFILL, Transform, UsageError
from mlbench.toolkit import build_once, change_modules, tracing_versions

if TYPE_CHECKING:
    import torch

    from mlbench import Calibration, Graph, Model, TensorSpec

_STATE = ("keys", "values")
"""The tensors of state that each layer has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneLayersOptions:
    """How much is left out."""

    share: Annotated[float, Gt(0), Lt(1)] = 0.25
    """Share of the layers, rounded to whole ones."""
    steps: Annotated[int, Ge(0), Le(1_000_000)] = 0
    """Steps of training afterwards, towards the untouched model's answers."""


class PruneLayers(Transform):
    """Leaves out a block of layers before the last one; a short distillation may follow.

    Deep layers of a language model change its hidden states least, but for the last.

    Source: Gromov et al., The Unreasonable Ineffectiveness of the Deeper Layers, 2024 (its simple form).
    """

    name = "prune-layers"
    title = "leaves out a share of a language model's layers, before the last one; then distils for some steps"
    options = PruneLayersOptions()
    checked_on = "gptj"

    def apply(self, model: Model, calibration: Calibration) -> Model:
        """Return a language model with fewer layers, whose cache has as many less."""
        from mlbench.toolkit.language import is_language_model  # `mlbench list` has no need of these
        from mlbench_pruning.distillation import distil, load_distilled

        layers = _count_layers(model)
        count = round(self.options.share * layers)
        if not 1 <= count < layers:
            raise UsageError(
                f"{self.text} leaves out {count} of {layers} layers of {model.name}.",
                hint=f"Choose a share from {1 / layers:.2g} to {1 - 1 / layers:.2g}.",
            )
        left_out = range(layers - 1 - count, layers - 1)
        kept = [number for number in range(layers) if number not in left_out]

        def state(graph: Graph) -> tuple[TensorSpec, ...]:
            return graph.state[: len(_STATE) * len(kept)]  # those of all layers are alike

        def change(part: torch.nn.Module) -> None:
            if not self.options.steps:
                _keep_layers(part, layers, kept)
            elif is_language_model(part):  # seen before its parts
                folder = build_once("distilled", made_from, partial(distil, part, prune, self.options.steps))
                prune(part)
                load_distilled(part, folder)

        def prune(network: torch.nn.Module) -> None:
            for part in list(network.modules()):
                _keep_layers(part, layers, kept)

        decode = model.graphs[DECODE]
        made_from = {"model": decode.fingerprint, "by": self.text, "versions": tracing_versions(decode, __name__)}
        names = ", ".join(map(str, left_out))
        after = f"distilled for {self.options.steps} steps" if self.options.steps else "without distillation"
        says = f"{count} of {layers} layers left out, {after}: {names} (counted from 0)"
        return change_modules(model, self, change, says=says, state=state)


def _count_layers(model: Model) -> int:
    """Return the number of layers by the key-value cache.

    Raises:
        UsageError: the model has none.
    """
    if model.graphs.keys() != {PREFILL, DECODE}:
        raise UsageError(f"prune-layers takes language models, and {model.name} is none.", hint="Leave it out.")
    state = [spec.name for spec in model.graphs[DECODE].state]
    layers = len(state) // len(_STATE)
    if not layers or state != [f"{kind}.{number}" for number in range(layers) for kind in _STATE]:
        raise UsageError(
            f"prune-layers knows a cache of keys and values alone, and that of {model.name} is another.",
            hint="Leave it out.",
        )
    return layers


def _keep_layers(part: torch.nn.Module, layers: int, kept: list[int]) -> None:
    """Keep some of a decoder's layers, renumbered, if the part is the decoder."""
    import torch

    for name, stack in part.named_children():
        if not isinstance(stack, torch.nn.ModuleList) or len(stack) != layers or not _numbered(stack[0]):
            continue
        stays = torch.nn.ModuleList(stack[number] for number in kept)
        for number, layer in enumerate(stays):
            for numbered in _numbered(layer):
                numbered.layer_idx = number  # its place in the cache
        setattr(part, name, stays)
        part.config.num_hidden_layers = len(kept)  # type: ignore[union-attr]


def _numbered(layer: torch.nn.Module) -> list[Any]:
    """Return the parts of a layer that know its number."""
    return [part for part in layer.modules() if hasattr(part, "layer_idx")]
