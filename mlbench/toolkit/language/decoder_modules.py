"""The torch modules of a language model's two graphs: a Hugging Face decoder whose cache is a row per sequence."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ATTENTION = "mlbench"
"""The name under which transformers knows `attention`."""

_FEW_ROWS = 8
"""Eager decode steps of at most so many rows keep torch's attention on a CPU: for them a call more costs something."""


def attention(  # noqa: PLR0913 - transformers calls it so
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    long_rows: Tensor | None = None,
    **settings: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute transformers' ``sdpa``; on a CPU and in ONNX without a copy of keys for each head that shares them.

    In a decode step on a CPU in fp32 it is two products in batches: torch's own makes one for each row and head.
    Compiled, only long rows look at the second half of the columns.

    Args:
        module: the layer.
        query: (rows, heads, tokens, head size).
        key: (rows, key heads, span, head size), each for as many heads in turn.
        value: likewise.
        attention_mask: (rows, 1, tokens, span), added to the products; None: transformers decides.
        scaling: of the products.
        long_rows: the rows in which a token sees more than the first half of the columns, as `_long_rows` returns them.
        settings: what else a layer says.

    Returns:
        What is attended to, (rows, tokens, heads, head size), and no weights.
    """
    if torch.onnx.is_in_onnx_export():
        return _attend_explicitly(query * scaling, key, value, attention_mask), None
    if query.device.type != "cpu" or attention_mask is None:
        output: tuple[Tensor, Tensor | None] = ALL_ATTENTION_FUNCTIONS["sdpa"](
            module, query, key, value, attention_mask, scaling=scaling, **settings
        )
        return output
    rows, heads, tokens, size = query.shape
    if tokens == 1:
        if query.dtype == torch.float32 and (torch.compiler.is_exporting() or rows > _FEW_ROWS):
            if long_rows is not None:
                return _attend_in_halves(query * scaling, key, value, attention_mask, long_rows), None
            return _attend_explicitly(query * scaling, key, value, attention_mask), None
        # queries that share a key head are as good as tokens that see the same
        query = query.reshape(rows, key.shape[1], -1, size)
    seen = scaled_dot_product_attention(
        query, key, value, attention_mask, scale=scaling, enable_gqa=query.shape[1] != key.shape[1]
    )
    return seen.reshape(rows, heads, tokens, size).transpose(1, 2), None


def _attend_explicitly(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attend in operators that every runtime has; of a query that is scaled already."""
    assert mask is not None
    rows, heads, tokens, size = query.shape
    grouped = query.reshape(rows, key.shape[1], -1, size)
    products = (grouped @ key.transpose(2, 3)).view(rows, heads, tokens, -1)
    weights = torch.softmax(products + mask, dim=-1).view(rows, key.shape[1], grouped.shape[2], -1)
    return (weights @ value).view(rows, heads, tokens, size).transpose(1, 2)


def _half(span: int) -> int:
    """Return how many columns the first half has."""
    return (span + 1) // 2


def _long_rows(positions: Tensor, span: int) -> Tensor:
    """Return the rows whose token, at its position, sees more than the first half of the columns: (long rows,)."""
    return (positions >= _half(span)).nonzero()[:, 0]


def _attend_in_halves(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, long_rows: Tensor) -> Tensor:
    """Attend with a token for each row, to the second half of the columns in long rows alone.

    A few sequences are much longer than most, and all others' columns there are hidden. The two softmaxes of a long row
    become one by the largest product of both.
    """
    rows, heads, _, size = query.shape
    half = _half(key.shape[2])
    query = query.reshape(rows, key.shape[1], -1, size)  # the queries that share a key head
    products = query @ key[:, :, :half].transpose(2, 3) + mask[..., :half]
    largest = products.amax(-1, keepdim=True)
    weights = torch.exp(products - largest)
    total, seen = weights.sum(-1, keepdim=True), weights @ value[:, :, :half]

    more = query[long_rows] @ key[long_rows, :, half:].transpose(2, 3) + mask[long_rows, :, :, half:]
    largest_of_both = torch.maximum(largest[long_rows], more.amax(-1, keepdim=True))
    more_weights, scale = torch.exp(more - largest_of_both), torch.exp(largest[long_rows] - largest_of_both)
    more_total = total[long_rows] * scale + more_weights.sum(-1, keepdim=True)
    more_seen = seen[long_rows] * scale + more_weights @ value[long_rows, :, half:]

    seen = (seen / total).index_put((long_rows,), more_seen / more_total)
    return seen.reshape(rows, heads, 1, size).transpose(1, 2)


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, attention)


class SlotCache:
    """The cache as the layers of a Hugging Face decoder see it: they hand in new keys and values, and get all back."""

    def __init__(
        self, state: tuple[Tensor, ...], slots: Tensor, columns: Tensor, looked_at: Callable[[Tensor], Tensor]
    ) -> None:
        """Store where new entries go, and how to read.

        Args:
            state: keys and values of each layer in turn, (slots, heads, length, head size) each.
            slots: (rows,) of the sequences.
            columns: (rows, tokens) that the new entries go to.
            looked_at: returns the part of a state tensor that this call looks at: (rows, heads, span, head size).
        """
        heads = torch.arange(state[0].shape[1], device=slots.device)
        self._state = state
        self._places = (slots[:, None, None], heads[None, :, None], columns[:, None, :])
        self._looked_at = looked_at

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Store new keys and values, (rows, heads, tokens, head size) each, and return all that a token may see."""
        return self._store(self._state[2 * layer], keys), self._store(self._state[2 * layer + 1], values)

    def _store(self, state: Tensor, new: Tensor) -> Tensor:
        state.index_put_(self._places, new.to(state.dtype))
        return self._looked_at(state)


class Decoder(nn.Module):
    """Base class of prefill and decode."""

    def __init__(self, network: Any, choices: int) -> None:
        """Store a Hugging Face causal language model, and how many of the likeliest tokens are asked for."""
        super().__init__()
        if network.config._attn_implementation == "sdpa":
            network.set_attn_implementation(ATTENTION)
        self.network = network
        self.choices = choices
        known = inspect.signature(network.base_model.forward).parameters
        self._cache_name = "cache" if "cache" in known else "past_key_values"  # before transformers 5.24

    def hidden(
        self, input_ids: Tensor, positions: Tensor, columns: Tensor, cache: SlotCache, **attends: Tensor
    ) -> Tensor:
        """Return the last layer's output for tokens (rows, tokens) at positions (rows, tokens): (..., width).

        ``attends`` goes to `attention`.
        """
        # zero where a token may look, else the lowest number: a boolean mask would not do for eager attention
        is_hidden = columns[None, None, None, :] > positions[:, None, :, None]
        mask = torch.zeros(is_hidden.shape, device=positions.device)
        mask = mask.masked_fill(is_hidden, torch.finfo(mask.dtype).min)
        output = self.network.base_model(
            input_ids=input_ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            **{self._cache_name: cache},
            **attends,
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def likeliest(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Turn hidden states (rows, width) into the likeliest next tokens and their log-probabilities, best first."""
        logits = self.network.get_output_embeddings()(hidden)
        log_probabilities = torch.log_softmax(logits.float(), dim=-1)
        tokens = _places_of_largest(log_probabilities, self.choices)
        return tokens, log_probabilities.gather(1, tokens)


def _places_of_largest(log_probabilities: Tensor, count: int) -> Tensor:
    """Return the positions of the largest values in each row, ties in order; none is above zero.

    Equals are common: a lower precision leaves few values.
    """
    if torch.onnx.is_in_onnx_export():  # ONNX's TopK puts the first of equals first
        return log_probabilities.topk(count, dim=-1).indices
    # torch's does not; the bits of numbers not below zero are in the numbers' order, and places below them break ties
    bits = log_probabilities.abs().view(torch.int32).to(torch.int64)
    places = torch.arange(log_probabilities.shape[-1], device=bits.device)
    return (bits * 2**32 + places).topk(count, dim=-1, largest=False).indices


class Prefill(Decoder):
    """Reads a piece of a prompt into each of some slots (see `mlbench.contracts.generation`)."""

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        slots: Tensor,
        last: Tensor,
        columns: Tensor,
        *state: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return the likeliest tokens after the one asked for in each piece, their log-probabilities, and the state."""
        hidden = self.read(input_ids, positions, slots, columns, state)
        asked_for = hidden[torch.arange(input_ids.shape[0], device=last.device), last]
        return (*self.likeliest(asked_for), *state)

    def read(
        self, input_ids: Tensor, positions: Tensor, slots: Tensor, columns: Tensor, state: tuple[Tensor, ...]
    ) -> Tensor:
        """Return the last layer's output for each token of each piece: (rows, tokens, width)."""
        span = columns.shape[0]
        places = positions[:, None] + torch.arange(input_ids.shape[1], device=positions.device)  # (rows, tokens)
        cache = SlotCache(state, slots, places, lambda tensor: tensor.index_select(0, slots)[:, :, :span])
        return self.hidden(input_ids, places, columns, cache)


class TokenScores(nn.Module):
    """Scores given tokens by the network of a prefill module, whose inputs it takes but for ``last``."""

    def __init__(self, prefill: Prefill) -> None:
        super().__init__()
        self.prefill = prefill

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        slots: Tensor,
        next_ids: Tensor,
        columns: Tensor,
        *state: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return the log-probability of each next token after those before it, (rows, tokens), and the state."""
        hidden = self.prefill.read(input_ids, positions, slots, columns, state)
        logits = self.prefill.network.get_output_embeddings()(hidden)
        log_probabilities = torch.log_softmax(logits.float(), dim=-1)
        return (log_probabilities.gather(2, next_ids[:, :, None])[:, :, 0], *state)


class Decode(Decoder):
    """Takes one token for each of the first slots (see `mlbench.contracts.generation`)."""

    def forward(self, input_ids: Tensor, positions: Tensor, columns: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Return the likeliest next tokens, their log-probabilities, and the state."""
        rows, span = input_ids.shape[0], columns.shape[0]
        slots = torch.arange(rows, device=input_ids.device)
        places = positions[:, None]
        cache = SlotCache(state, slots, places, lambda tensor: tensor[:rows, :, :span])
        attends = {"long_rows": _long_rows(positions, span)} if self._attends_in_halves else {}
        hidden = self.hidden(input_ids[:, None], places, columns, cache, **attends)
        return (*self.likeliest(hidden[:, 0]), *state)

    @property
    def _attends_in_halves(self) -> bool:
        """Whether this is compiled, so that a dozen small operators cost little, with this module's attention."""
        is_compiled = torch.compiler.is_exporting() and not torch.onnx.is_in_onnx_export()
        return is_compiled and bool(self.network.config._attn_implementation == ATTENTION)
