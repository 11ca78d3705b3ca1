"""The weights of a module that a lower precision stores: those of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Iterator

import torch

_MATRIX_MODULES = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
"""Modules whose arithmetic autocast does in the lower precision anyway: their weights can be kept in it."""


def matrix_weights(module: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """Yield the parameters of matrix products and convolutions, some more than once."""
    for part in module.modules():
        if isinstance(part, _MATRIX_MODULES):
            yield from part.parameters(recurse=False)
    for parameter in module.parameters():
        if parameter.ndim == 3 and len(parameter) > 1:  # the matrices of experts, one behind the other
            yield parameter
