"""Damage to a model or its answers that a sound accuracy target must detect."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contracts.graph import Graph
from mlbench.contracts.metric import LoggedReply
from mlbench.contracts.wrapped import WrappedGraph
from mlbench.errors import GraphError

if TYPE_CHECKING:
    import torch

    Change = Callable[[torch.nn.Module], None]

_SEED = 1


class DamagedGraph(WrappedGraph):
    """A graph whose module is changed before a backend gets it."""

    is_used_once = True

    def __init__(self, graph: Graph, change: Change) -> None:
        super().__init__(graph)
        self._change = change

    def module(self) -> torch.nn.Module:
        """Return the changed module."""
        module = self.wrapped.module()
        self._change(module)
        return module

    def onnx(self) -> Path:
        """Not offered: damage is done in torch."""
        raise GraphError(f"graph {self.name}: a damaged graph has no ONNX form.")

    @property
    def fingerprint(self) -> str:
        """No cache may take it for the sound one."""
        return f"{self.wrapped.fingerprint}, damaged"


def to_weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """Return a function that changes every parameter of a module, once if several graphs share it."""

    def damage(module: torch.nn.Module) -> None:
        import torch

        parameters = [each for each in module.parameters() if not getattr(each, "is_damaged", False)]
        with torch.inference_mode():
            for parameter in parameters:
                parameter.copy_(change(parameter))
                parameter.is_damaged = True  # type: ignore[attr-defined]

    return damage


def noise(share: float) -> Change:
    """Add to every parameter a seeded random number, a share of how widely its tensor's values spread."""
    import torch

    generator = torch.Generator().manual_seed(_SEED)
    return to_weights(
        lambda weight: weight + share * weight.std(correction=0) * torch.randn(weight.shape, generator=generator)
    )


def zero() -> Change:
    """Set every parameter to 0."""
    return to_weights(lambda weight: weight * 0)


def shuffle() -> Change:
    """Put the values of every parameter in another order, by a seed."""
    import torch

    generator = torch.Generator().manual_seed(_SEED)

    def shuffled(weight: torch.Tensor) -> torch.Tensor:
        order = torch.randperm(weight.numel(), generator=generator)
        return weight.flatten()[order].view_as(weight)

    return to_weights(shuffled)


def exchange_tenth(replies: Sequence[LoggedReply]) -> list[LoggedReply]:
    """Give every tenth sample the answer to another sample, chosen by a seed."""
    chance = random.Random(_SEED)
    return [
        replace(each, data=chance.choice(replies).data) if number % 10 == 0 else each
        for number, each in enumerate(replies)
    ]


def exchange_all(replies: Sequence[LoggedReply]) -> list[LoggedReply]:
    """Give every sample the answer to another one, chosen by a seed."""
    answers = [each.data for each in replies]
    random.Random(_SEED).shuffle(answers)
    return [replace(each, data=answer) for each, answer in zip(replies, answers, strict=True)]
