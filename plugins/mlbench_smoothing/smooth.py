"""SmoothQuant without the quantisation, which is the backend's: norms give smaller outliers, weights make up for it."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from mlbench import GenerationProgram, Precision, Transform, UsageError
from mlbench.toolkit import TransformedGraph, build_once, tracing_versions

if TYPE_CHECKING:
    import torch

    from mlbench import Calibration, Graph, Model

logger = logging.getLogger(__name__)

_FILE = "scales.safetensors"
_SMALLEST = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothOptions:
    """How far outliers move from activations to weights, and what shows them."""

    strength: Annotated[float, Ge(0), Le(1)] = 0.5
    """Share of the outliers that weights take over."""
    texts: Annotated[int, Ge(0), Le(4096)] = 0
    """Texts to take the ranges from, which a language model writes itself; 0: the official calibration list."""


class Smooth(Transform):
    """Divides norms' outputs by a scale for each channel, and multiplies the weights that read them by it.

    A norm that anything but linear layers reads stays as it is: in BERT a residual sum reads all but the last.

    Source: Xiao et al., SmoothQuant, 2023.
    """

    name = "smooth"
    title = "moves outliers of activations to the weights that follow (SmoothQuant), for --precision int8"
    options = SmoothOptions()
    changes_answers = False

    @property
    def is_closed(self) -> bool:  # type: ignore[override]
        """Whether it looks at the official calibration list alone."""
        return not self.options.texts

    @property
    def checked_on(self) -> str:  # type: ignore[override]
        """A workload that has what the options ask for."""
        return "gptj" if self.options.texts else "bert"

    def apply(self, model: Model, calibration: Calibration) -> Model:
        """Return a model with smaller outliers between norms and linear layers, and the same answers in fp32.

        Raises:
            UsageError: it is no language model, from which texts are wanted, or is one, and none are.
        """
        texts = self.options.texts
        if isinstance(model.program, GenerationProgram) is not bool(texts):
            hint = "Leave it at 0 texts." if texts else f"Let it write some: smooth:{self.options.strength}:128."
            what = "writes no texts" if texts else "has no calibration list"
            raise UsageError(f"{self.text} takes ranges of activations from data, and {model.name} {what}.", hint=hint)
        done: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        graphs = {
            name: TransformedGraph(graph, self, partial(self._smooth, graph, calibration, done))
            if graph.precision(Precision.INT8) is Precision.INT8
            else graph  # stays in floating point
            for name, graph in model.graphs.items()
        }
        origin = f"{texts} texts that the model writes" if texts else "the calibration list"
        says = f"outliers of activations moved to the weights after norms, by {self.options.strength}; from {origin}"
        return replace(model, graphs=graphs, changes=(*model.changes, says))

    def _smooth(
        self, graph: Graph, calibration: Calibration, done: weakref.WeakSet[torch.nn.Module], module: torch.nn.Module
    ) -> None:
        """Change a graph's module, unless what it shares with another graph's is changed already."""
        import torch

        from mlbench.toolkit.language import is_language_model  # `mlbench list` has no need of it

        whole = next(filter(is_language_model, module.modules())) if self.options.texts else module
        if whole in done:
            return
        done.add(whole)
        made_from = {
            "model": graph.fingerprint,
            "data": [] if self.options.texts else _identity(graph, calibration),
            "by": self.text,
            "versions": tracing_versions(graph, __name__),
        }
        folder = build_once("smooth", made_from, partial(self._store_scales, graph, calibration, whole))
        with torch.no_grad():
            for norm, linear, scale in _read_scales(folder):
                for part in whole.get_submodule(norm).parameters():
                    part.div_(scale)
                for name in linear:
                    whole.get_submodule(name).weight.mul_(scale)  # type: ignore[operator]

    def _store_scales(self, graph: Graph, calibration: Calibration, whole: torch.nn.Module, folder: Path) -> None:
        """Compute a network on its data, and store the scales of its norms with the linear layers that read these."""
        from safetensors.torch import save_file

        from mlbench_smoothing.readers import Readers

        network, calls = self._calls(graph, calibration, whole)
        readers = Readers(network)
        readers.watch(getattr(network, "base_model", network) if self.options.texts else network, calls)
        scales, linear = {}, {}
        for norm, (names, largest) in readers.pairs().items():
            scales[norm] = self._scale(largest, [network.get_submodule(name).weight for name in names])
            linear[norm] = json.dumps(names)
        if not scales:
            reason = f"linear layers alone read the output of no norm in graph {graph.name}, so {self.text} has no use."
            raise UsageError(reason, hint="Leave it out.")
        logger.info("graph %s: %d norms give smaller outliers to linear layers", graph.name, len(scales))
        save_file(scales, str(folder / _FILE), metadata=linear)

    def _calls(
        self, graph: Graph, calibration: Calibration, whole: torch.nn.Module
    ) -> tuple[Any, Iterable[tuple[Any, ...]]]:
        """Return a network in fp32, and what to call it with."""
        import torch

        from mlbench.toolkit.language import plain_copy, write_texts

        if self.options.texts:
            network = plain_copy(whole)
            return network, ((torch.tensor([text]),) for text in write_texts(network, self.options.texts))
        inputs = calibration.inputs(graph.name)
        names = [spec.name for spec in graph.inputs]
        if (first := next(inputs, None)) is None:
            reason = f"{self.text} takes ranges from a calibration list, and graph {graph.name} has none."
            raise UsageError(reason, hint="Leave it out.")
        network = copy.deepcopy(whole).float()
        # made before the network is watched: a list's inputs may be computed, by torch too
        return network, [tuple(torch.from_numpy(each[name]) for name in names) for each in chain([first], inputs)]

    def _scale(self, largest: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        """Return the scale of each channel: 1 where the calibration data had zeros alone."""
        import torch

        of_weights = torch.stack([each.abs().amax(dim=0) for each in weights]).amax(dim=0).clamp(min=_SMALLEST)
        scale = largest**self.options.strength / of_weights ** (1 - self.options.strength)
        return torch.where(largest > 0, scale.clamp(min=_SMALLEST), 1.0)


def _identity(graph: Graph, calibration: Calibration) -> list[str]:
    """Return what tells a graph's calibration inputs from those of another list."""
    first = next(calibration.inputs(graph.name), {})
    digests = (hashlib.sha256(array.tobytes()).hexdigest() for array in first.values())
    return [graph.name, graph.calibration_id, *digests]


def _read_scales(folder: Path) -> Iterator[tuple[str, list[str], torch.Tensor]]:
    """Yield each norm's name, those of its linear layers, and its scale."""
    from safetensors import safe_open

    with safe_open(folder / _FILE, "pt") as file:
        linear = file.metadata()
        for norm in file.keys():
            yield norm, json.loads(linear[norm]), file.get_tensor(norm)
