"""Texts that a language model writes itself: data for what learns from a model, without a data set.

Seeded samples from its distribution, from the first token on, so no sample that is scored is seen, whatever the
workload.

Source: Williams et al., Self-calibration for Language Model Quantization and Pruning, 2024.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

TOKENS = 256
"""Tokens of a text, at most."""
SEED = 0
_ROWS = 128
"""Texts that are written at once."""


def write_texts(network: Any, count: int) -> list[list[int]]:
    """Return texts that a Hugging Face network writes by itself, each with its end token."""
    import torch

    texts: list[list[int]] = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEED)
        while len(texts) < count:
            texts += _write(network, min(_ROWS, count - len(texts)))
    return texts


def plain_copy(network: Any) -> Any:
    """Return a copy of a language graph's network in fp32, which attends by transformers' own functions."""
    from mlbench.toolkit.language.decoder_modules import ATTENTION

    copied = copy.deepcopy(network).float()
    if copied.config._attn_implementation == ATTENTION:
        copied.set_attn_implementation("sdpa")
    return copied


def is_language_model(part: Any) -> bool:
    """Return whether a part of a module is a Hugging Face network that gives logits of tokens."""
    return getattr(part, "get_output_embeddings", lambda: None)() is not None


def _write(network: Any, rows: int) -> list[list[int]]:
    import torch

    config = network.config
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    begin = config.bos_token_id if config.bos_token_id is not None else ends[0]
    written: Sequence[list[int]] = network.generate(
        torch.full((rows, 1), begin),
        attention_mask=torch.ones((rows, 1), dtype=torch.int64),
        do_sample=True,
        top_k=0,
        max_length=min(TOKENS, config.max_position_embeddings),
        eos_token_id=ends,
        pad_token_id=ends[0],
    ).tolist()
    stops = [next((at for at, token in enumerate(row) if at and token in ends), len(row)) for row in written]
    return [row[: stop + 1] for row, stop in zip(written, stops, strict=True)]
