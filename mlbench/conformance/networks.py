"""The torch modules behind the kit's graphs: small, untrained, seeded; outputs of order one to ten, as logits are."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn


class ImageNetwork(nn.Module):
    """Two strided convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.last = nn.Linear(256, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Turn (B, 3, 16, 16) into logits (B, 10)."""
        hidden = torch.relu(self.second(torch.relu(self.first(images))))
        logits: Tensor = self.last(hidden.flatten(1))
        return 20 * logits


class TokenNetwork(nn.Module):
    """An embedding, one head of attention over unmasked tokens, and two outputs."""

    def __init__(self, vocabulary: int, classes: int, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.score = nn.Linear(width, classes, bias=False)
        self.mark = nn.Linear(width, 1)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Turn ids and mask (B, T) into scores (B, classes) and token logits (B, T)."""
        weight = mask.to(torch.float32)
        embedded = self.embedding(ids)
        affinity = self.query(embedded) @ self.key(embedded).transpose(1, 2) / 4  # (B, T, T)
        affinity = affinity + (weight[:, None, :] - 1) * 1e4
        attended = torch.softmax(affinity, dim=-1) @ self.value(embedded)
        hidden = embedded + attended  # (B, T, width)
        mean = (hidden * weight[:, :, None]).sum(1) / weight.sum(1, keepdim=True)
        scores: Tensor = self.score(mean)
        return 12 * scores, 4 * self.mark(hidden).squeeze(-1)


class MemoryNetwork(nn.Module):
    """Two heads of attention over all that a slot was given; what they look at is the state."""

    def __init__(self, vocabulary: int, classes: int, length: int, heads: int, head_size: int) -> None:
        super().__init__()
        width = heads * head_size
        self.heads = heads
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.score = nn.Linear(width, classes, bias=False)

    def attend(self, ids: Tensor, places: Tensor, slots: Tensor, columns: Tensor, state: list[Tensor]) -> Tensor:
        """Store tokens (rows, tokens) in slots (rows,), and return what each sees in these columns: (..., width)."""
        embedded = self.words(ids) + self.places(places)
        query, key, value = (
            layer(embedded).unflatten(2, (self.heads, -1)).transpose(1, 2)  # (rows, heads, tokens, head size)
            for layer in (self.query, self.key, self.value)
        )
        heads = torch.arange(self.heads, device=ids.device)
        where = (slots[:, None, None], heads[None, :, None], places[:, None, :])
        for tensor, new in zip(state, (key, value), strict=True):
            tensor.index_put_(where, new.to(tensor.dtype))
        keys, values = (tensor.index_select(0, slots)[:, :, : len(columns)] for tensor in state)
        hidden = columns[None, None, None, :] > places[:, None, :, None]
        affinity = (query @ keys.transpose(2, 3)).masked_fill(hidden, -1e4)
        return (torch.softmax(affinity, dim=-1) @ values).transpose(1, 2).flatten(2)


class ReadingNetwork(MemoryNetwork):
    """Reads pieces of token lists into slots."""

    def forward(  # noqa: PLR0913, PLR0917 - a graph's inputs and state
        self,
        ids: Tensor,
        positions: Tensor,
        slots: Tensor,
        last: Tensor,
        columns: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Turn pieces (rows, tokens) into scores (rows, classes) of the token that is asked for in each."""
        places = positions[:, None] + torch.arange(ids.shape[1], device=ids.device)
        attended = self.attend(ids, places, slots, columns, [keys, values])
        scores: Tensor = self.score(attended[torch.arange(ids.shape[0], device=ids.device), last])
        return 15 * scores, keys, values


class SteppingNetwork(MemoryNetwork):
    """Takes a token for each of the first slots."""

    def forward(
        self, ids: Tensor, positions: Tensor, columns: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Turn tokens (rows,) into scores (rows, classes)."""
        slots = torch.arange(ids.shape[0], device=ids.device)
        attended = self.attend(ids[:, None], positions[:, None], slots, columns, [keys, values])
        scores: Tensor = self.score(attended[:, 0])
        return 15 * scores, keys, values


class ScalingNetwork(nn.Module):
    """Multiplies all of the state, that of the first slots, or nothing of it, and looks at the first slots."""

    def __init__(self, scope: Literal["state", "rows", "nothing"], classes: int) -> None:
        super().__init__()
        self.scope = scope
        self.classes = classes

    def forward(self, positions: Tensor, columns: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """Turn positions (rows,) into scores (rows, classes): sums over what lies up to there in each slot."""
        rows = positions.shape[0]
        if self.scope != "nothing":
            for tensor in (keys, values):
                (tensor[:rows] if self.scope == "rows" else tensor).mul_(-0.8)
        hidden = columns[None, None, :, None] > positions[:, None, None, None]
        seen = (keys[:rows] + values[:rows]).index_select(2, columns).masked_fill(hidden, 0)
        return 4 * seen.sum(2).flatten(1)[:, : self.classes], keys, values


class SummingNetwork(nn.Module):
    """Adds integers to the first slots of a state."""

    def forward(self, addends: Tensor, totals: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums (rows,) and the state."""
        rows = addends.shape[0]
        totals[:rows] = totals[:rows] + addends.float()
        return totals[:rows].float(), totals


class SpeakingNetwork(nn.Module):
    """Turns scores into the likeliest tokens; their log-probabilities are far enough apart for any precision."""

    def __init__(self, network: nn.Module, choices: int) -> None:
        super().__init__()
        self.network = network
        self.choices = choices

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return tokens and log-probabilities, (rows, choices) each, best first, and the updated state."""
        scores, keys, values = self.network(*inputs)
        best, tokens = torch.log_softmax(scores.float(), dim=-1).topk(self.choices, dim=-1)
        return tokens, best, keys, values
