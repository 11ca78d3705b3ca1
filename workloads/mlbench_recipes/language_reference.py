"""What a language model answers by Hugging Face's own ``generate``, which mini profiles take as the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mlbench import LoggedReply

if TYPE_CHECKING:
    import torch

    from mlbench import Dataset, Decoding, GenerationProgram, Prompt

BATCH = 32


def reference_replies(
    network: Any, dataset: Dataset, program: GenerationProgram, indices: Sequence[int] | None = None
) -> list[LoggedReply]:
    """Return the replies to samples of a dataset, as an accuracy log would hold them.

    Args:
        network: a causal language model, fp32, in eval mode.
        dataset: of prompts.
        program: says how answers are made.
        indices: of which samples; None for all.
    """
    indices = range(dataset.count) if indices is None else indices
    dataset.load(indices)
    found = answers(network, [program.prompt(dataset.sample(index)) for index in indices], program.decoding)
    return [
        LoggedReply(index=index, data=program.answer(tokens).tobytes(), token_count=len(tokens))
        for index, tokens in zip(indices, found, strict=True)
    ]


def answers(network: Any, prompts: Sequence[Prompt], decoding: Decoding) -> list[list[int]]:
    """Return what Hugging Face's ``generate`` answers to each prompt: new tokens, the end token included.

    Args:
        network: a causal language model, fp32, in eval mode.
        prompts: in any order; those of like length are answered together.
        decoding: how.
    """
    found: list[list[int]] = [[] for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda index: (prompts[index].stop, len(prompts[index].tokens)))
    for stop, indices in groupby(order, key=lambda index: prompts[index].stop):
        alike = list(indices)
        for first in range(0, len(alike), BATCH):
            batch = alike[first : first + BATCH]
            rows = _generate(network, [prompts[index].tokens.tolist() for index in batch], stop, decoding)
            for index, row in zip(batch, rows, strict=True):
                found[index] = row
    return found


def _generate(
    network: Any, prompts: Sequence[list[int]], stop: tuple[int, ...], decoding: Decoding
) -> Iterator[list[int]]:
    import torch

    end = decoding.end_tokens[0]
    length = max(map(len, prompts))
    padding = [length - len(prompt) for prompt in prompts]
    with torch.inference_mode():
        output = network.generate(
            input_ids=torch.tensor([[end] * blank + prompt for blank, prompt in zip(padding, prompts, strict=True)]),
            attention_mask=torch.tensor([[0] * blank + [1] * (length - blank) for blank in padding]),
            do_sample=False,
            num_beams=decoding.beams,
            early_stopping=decoding.beams > 1,
            min_new_tokens=decoding.min_new_tokens,
            max_new_tokens=decoding.max_new_tokens,
            eos_token_id=list(decoding.end_tokens),
            pad_token_id=end,
            logits_processor=[_ends_after(stop, end)] if stop else [],
        )
    for row in output[:, length:].tolist():
        ends = [place for place, token in enumerate(row) if token in decoding.end_tokens]
        yield row[: ends[0] + 1] if ends else row


def _ends_after(stop: tuple[int, ...], end: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return what makes the end token the only choice where a text ends with the stop sequence."""
    import torch

    def processor(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        stopped = (ids[:, -len(stop) :] == torch.tensor(stop)).all(dim=1)
        others = torch.arange(logits.shape[1]) != end
        return logits.masked_fill(stopped[:, None] & others, -torch.inf)

    return processor
