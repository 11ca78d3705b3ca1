"""Which norms of a network only linear layers read, and how large their outputs are: found by computing it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

_OTHER = ""
"""Stands for a reader that is no linear layer, and for an input of a linear layer that is no norm's output."""


class Readers(TorchFunctionMode):
    """Notes, while a network computes, what reads the outputs of its norms."""

    def __init__(self, network: nn.Module) -> None:
        """Find the norms and linear layers that share no weights with other parts."""
        super().__init__()
        parts = dict(network.named_modules())
        uses = Counter(id(each) for part in parts.values() for each in part._parameters.values() if each is not None)
        alone = {name: part for name, part in parts.items() if all(uses[id(each)] == 1 for each in part.parameters())}
        self._norms = {name: part for name, part in alone.items() if is_norm(part)}
        self._linear = {id(part.weight): name for name, part in alone.items() if isinstance(part, nn.Linear)}
        self._outputs: dict[int, tuple[str, Tensor, int]] = {}
        """Norm, output and its version, by the output's identity: it lives as long as it is here."""
        self._readers: defaultdict[str, set[str]] = defaultdict(set)
        self._sources: defaultdict[str, set[str]] = defaultdict(set)
        self._largest: dict[str, Tensor] = {}

    def watch(self, compute: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> None:
        """Compute the network for some calls."""
        hooks = [part.register_forward_hook(self._note_output(name)) for name, part in self._norms.items()]
        try:
            with torch.no_grad(), self:
                for arguments in calls:
                    for each in tree_leaves(compute(*arguments)):
                        self._read_by(_OTHER, each)
                    self._outputs.clear()
        finally:
            for hook in hooks:
                hook.remove()

    def pairs(self) -> Mapping[str, tuple[list[str], Tensor]]:
        """Return the linear layers of each norm that nothing else reads, and its largest output in each channel."""
        return {
            norm: (sorted(self._readers[norm]), largest)
            for norm, largest in self._largest.items()
            if self._readers[norm] and all(self._sources.get(reader) == {norm} for reader in self._readers[norm])
        }

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        """Compute a function of torch, and note whose outputs it read."""
        result = function(*arguments, **(named or {}))
        linear = self._linear.get(id(arguments[1]), _OTHER) if function is nn.functional.linear else _OTHER
        if linear:
            self._sources[linear].add(self._norm_of(arguments[0]))
            self._read_by(linear, arguments[0])
        elif any(isinstance(each, Tensor) for each in tree_leaves(result)):  # else a shape or a type was asked for
            for each in tree_leaves((arguments, named)):
                if each is not result or each._version != self._outputs.get(id(each), (_OTHER, each, -1))[2]:
                    self._read_by(_OTHER, each)
        return result

    def _note_output(self, norm: str) -> Callable[..., None]:
        def note(part: nn.Module, inputs: Any, output: Tensor) -> None:
            largest = output.float().abs().flatten(0, -2).amax(0)
            known = self._largest.get(norm)
            self._largest[norm] = largest if known is None else torch.maximum(known, largest)
            self._outputs[id(output)] = (norm, output, output._version)

        return note

    def _norm_of(self, value: Any) -> str:
        return self._outputs[id(value)][0] if id(value) in self._outputs else _OTHER

    def _read_by(self, reader: str, value: Any) -> None:
        if norm := self._norm_of(value):
            self._readers[norm].add(reader)


def is_norm(part: nn.Module) -> bool:
    """Return whether a part is a LayerNorm or an RMSNorm over the last axis, times a weight for each channel."""
    weight = part._parameters.get("weight")
    is_kind = isinstance(part, nn.LayerNorm) or type(part).__name__.endswith("RMSNorm")
    return is_kind and weight is not None and weight.ndim == 1
