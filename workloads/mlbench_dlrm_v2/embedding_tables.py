"""Embedding tables: the indices of a categorical feature become the sum of the rows that they name.

Each module takes (B, 214) int32, the indices of all features side by side, and returns (B, 26 * dimension), their sums
side by side. An index that repeats counts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional


class JoinedTables(nn.Module):
    """Tables one below the other in one tensor: a single call sums for all features."""

    shifts: Tensor
    """(214,): the first row of the table that a column's indices are of."""
    first_columns: Tensor
    """(26,): where the indices of each feature begin."""

    def __init__(self, tables: Sequence[Tensor], hot_sizes: Sequence[int]) -> None:
        """Copy the tables, (rows, dimension) float32 each."""
        super().__init__()
        self._rows, self._hot_sizes = [len(table) for table in tables], list(hot_sizes)
        first_rows = torch.tensor([0, *accumulate(self._rows[:-1])], dtype=torch.int32)
        first_columns = torch.tensor([0, *accumulate(self._hot_sizes[:-1])], dtype=torch.int32)
        self.weight = nn.Parameter(torch.cat(list(tables)))
        self.register_buffer("shifts", first_rows.repeat_interleave(torch.tensor(self._hot_sizes)))
        self.register_buffer("first_columns", first_columns)

    def forward(self, indices: Tensor) -> Tensor:
        """Return the sums."""
        if torch.compiler.is_exporting():
            columns = torch.split(indices, self._hot_sizes, dim=1)
            return torch.cat(list(map(_gather, torch.split(self.weight, self._rows), columns)), dim=1)
        rows, width = indices.shape
        first_places = torch.arange(0, rows * width, width, dtype=torch.int32, device=indices.device)
        bags = (first_places[:, None] + self.first_columns).flatten()
        sums = functional.embedding_bag((indices + self.shifts).flatten(), self.weight, bags, mode="sum")
        return sums.view(rows, -1)


class SeparateTables(nn.Module):
    """Tables as they are, under the names of the official state dict."""

    def __init__(self, tables: Sequence[nn.Module], hot_sizes: Sequence[int]) -> None:
        """Keep the tables, each an `EmbeddingTable` or a `SplitTable`."""
        super().__init__()
        bags = {f"t_cat_{number}": table for number, table in enumerate(tables)}
        self.embedding_bag_collection = nn.ModuleDict({"embedding_bags": nn.ModuleDict(bags)})
        self._hot_sizes = list(hot_sizes)

    def forward(self, indices: Tensor) -> Tensor:
        """Return the sums."""
        tables = self.embedding_bag_collection["embedding_bags"].children()
        columns = torch.split(indices, self._hot_sizes, dim=1)
        return torch.cat([table(part) for table, part in zip(tables, columns, strict=True)], dim=1)


class EmbeddingTable(nn.Module):
    """A table in one piece."""

    def __init__(self, weight: Tensor) -> None:
        """Keep (rows, dimension) float32 as it is: of a tensor over a memory-mapped file nothing is read here."""
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, indices: Tensor) -> Tensor:
        """Return (B, dimension) for (B, hot)."""
        if torch.compiler.is_exporting():
            return _gather(self.weight, indices)
        return functional.embedding_bag(indices, self.weight, mode="sum")


class SplitTable(nn.Module):
    """A table in blocks, as a checkpoint written by several devices holds it; they are never joined."""

    def __init__(self, strips: Sequence[Sequence[Tensor]]) -> None:
        """Keep the blocks as they are.

        Args:
            strips: side by side, from the first column on; each is its blocks, (rows, columns) float32, from the first
                row on. The blocks of a strip are equally wide; strips may be cut at other rows.
        """
        super().__init__()
        self.strips = nn.ModuleList(_Strip(blocks) for blocks in strips)

    def forward(self, indices: Tensor) -> Tensor:
        """Return (B, dimension) for (B, hot)."""
        return torch.cat([strip(indices) for strip in self.strips], dim=1)


class _Strip(nn.Module):
    """Some columns of a table, in blocks of rows."""

    def __init__(self, blocks: Sequence[Tensor]) -> None:
        super().__init__()
        self.blocks = nn.ParameterList(blocks)
        self._ends = list(accumulate(len(block) for block in blocks))

    def forward(self, indices: Tensor) -> Tensor:
        flat, bags = indices.contiguous().flatten(), torch.arange(len(indices), device=indices.device)
        block_of = torch.bucketize(flat, torch.tensor(self._ends, device=flat.device), right=True)
        order = block_of.argsort(stable=True)  # by block, and within a block by bag
        counts = block_of.bincount(minlength=len(self.blocks)).tolist()
        sums = []
        for block, end, places in zip(self.blocks, self._ends, torch.split(order, counts), strict=True):
            if len(places):
                rows = flat[places] - (end - len(block))
                first_places = torch.searchsorted(places // indices.shape[1], bags).to(rows.dtype)
                sums.append(functional.embedding_bag(rows, block, first_places, mode="sum"))
        return torch.stack(sums).sum(dim=0)


def _gather(table: Tensor, indices: Tensor) -> Tensor:
    """Return (B, dimension) for (B, hot) in a form that ONNX has: of an embedding bag it makes a loop over the rows.

    Summed over the first axis, which runtimes do faster than over one in the middle.
    """
    return functional.embedding(indices.t(), table).sum(dim=0)
