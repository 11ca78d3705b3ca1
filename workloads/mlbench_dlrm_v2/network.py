"""The network in torch: DLRM with a low-rank cross network, under the names of the official state dict.

Source: the model that MLPerf Inference v4.1 trains and loads, torchrec's DLRM_DCN.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from mlbench_dlrm_v2.architecture import DENSE_FEATURES, Architecture


class Ranker(nn.Module):
    """The logit of a click by a user on an item; the program applies the sigmoid."""

    def __init__(self, architecture: Architecture, tables: nn.Module) -> None:
        """Make the dense part, freshly initialised as torch does.

        Args:
            architecture: its sizes.
            tables: turn indices into embeddings; of `embedding_tables`.
        """
        super().__init__()
        width = (1 + len(architecture.table_rows)) * architecture.dimension
        *hidden, outputs = architecture.top_layers
        cross = _LowRankCross(width, rank=architecture.cross_rank, layers=architecture.cross_layers)
        top = nn.Sequential(_Perceptrons([width, *hidden]), nn.Linear(hidden[-1], outputs))
        self.sparse_arch = tables
        self.dense_arch = nn.ModuleDict({"model": _Perceptrons([DENSE_FEATURES, *architecture.dense_layers])})
        self.inter_arch = nn.ModuleDict({"crossnet": cross})
        self.over_arch = nn.ModuleDict({"model": top})

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        """Return logits (B,) of (B, 13) float32 and (B, 214) int32: the indices of all categorical features."""
        features = torch.cat([self.dense_arch["model"](dense), self.sparse_arch(indices)], dim=1)
        logits: Tensor = self.over_arch["model"](self.inter_arch["crossnet"](features))
        return logits.squeeze(1)


class _Perceptrons(nn.Module):
    """Linear layers, each followed by a ReLU, the last one too."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self._mlp = nn.ModuleList(nn.ModuleDict({"_linear": nn.Linear(*pair)}) for pair in pairwise(sizes))

    def forward(self, values: Tensor) -> Tensor:
        for (layer,) in (step.children() for step in self._mlp):
            values = functional.relu(layer(values))
        return values


class _LowRankCross(nn.Module):
    """Layers x(l+1) = x(0) * (W (V x(l)) + b) + x(l), elementwise but for the two matrices, without activation."""

    def __init__(self, width: int, *, rank: int, layers: int) -> None:
        super().__init__()
        self.W_kernels = nn.ParameterList(nn.init.xavier_normal_(torch.empty(width, rank)) for _ in range(layers))
        self.V_kernels = nn.ParameterList(nn.init.xavier_normal_(torch.empty(rank, width)) for _ in range(layers))
        self.bias = nn.ParameterList(torch.zeros(width) for _ in range(layers))

    def forward(self, first: Tensor) -> Tensor:
        values = first
        for wide, narrow, bias in zip(self.W_kernels, self.V_kernels, self.bias, strict=True):
            values = torch.addcmul(values, first, functional.linear(functional.linear(values, narrow), wide, bias))
        return values
