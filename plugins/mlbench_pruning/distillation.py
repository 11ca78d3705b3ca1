"""Short distillation: a pruned language model learns to predict what the untouched one does."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlbench.toolkit.language import plain_copy, write_texts

logger = logging.getLogger(__name__)

_FILE = "model.safetensors"
_TEXTS = 512
"""Texts to learn from, at most, which the untouched model writes itself."""
_ROWS = 16
"""Texts of a step."""
_SEED = 0
_RATE = 0.26
"""Peak rate of Adam times the width of the network: wider ones learn at a lower rate."""


def distil(network: Any, prune: Callable[[Any], None], steps: int, folder: Path) -> None:
    """Train a pruned copy of a network for some steps, and store its weights; the network stays as it is.

    The loss is the Kullback-Leibler divergence from the untouched network's distribution, at each token of its texts.
    """
    import torch
    from safetensors.torch import save_model

    teacher, student = plain_copy(network), plain_copy(network)
    prune(student)
    texts = write_texts(teacher, min(_TEXTS, steps * _ROWS))
    rate = _RATE / network.config.hidden_size
    optimiser = torch.optim.Adam(student.parameters())
    chance, losses = torch.Generator().manual_seed(_SEED), []
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * _share(step, steps)
        chosen = torch.randperm(len(texts), generator=chance)[:_ROWS].tolist()
        with torch.enable_grad():
            loss = _divergence(teacher, student, [texts[each] for each in chosen])
            optimiser.zero_grad()
            loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
        if step % max(1, steps // 10) == 0:
            logger.info("distilling, step %d of %d: loss %.3f", step, steps, losses[-1])
    tenth = max(1, steps // 10)
    first, last = (sum(part) / len(part) for part in (losses[:tenth], losses[-tenth:]))
    logger.info("distilled for %d steps: the loss fell from %.3f to %.3f", steps, first, last)
    save_model(student.requires_grad_(False), str(folder / _FILE))


def load_distilled(network: Any, folder: Path) -> None:
    """Give a pruned network the weights that `distil` stored."""
    from safetensors.torch import load_model

    load_model(network, folder / _FILE)


def _share(step: int, steps: int) -> float:
    """Return the share of the peak rate at a step: it rises for a tenth of them, and falls as half a wave."""
    return min(1.0, 10 * (step + 1) / steps) * (1 + math.cos(math.pi * step / steps)) / 2


def _divergence(teacher: Any, student: Any, texts: list[list[int]]) -> Any:
    """Return the mean divergence of the tokens of some texts."""
    import torch

    longest = max(map(len, texts))
    tokens = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
    is_text = torch.arange(longest) < torch.tensor([[len(text)] for text in texts])
    with torch.no_grad():
        wanted = torch.log_softmax(teacher(tokens, use_cache=False).logits, dim=-1)
    found = torch.log_softmax(student(tokens, use_cache=False).logits, dim=-1)
    return (wanted.exp() * (wanted - found)).sum(-1)[is_text].mean()
