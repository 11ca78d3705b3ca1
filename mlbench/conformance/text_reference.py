"""The answers of Hugging Face's `generate` to the kit's prompts, and the check of an engine's answers.

In fp32 an answer is right when it is `generate`'s, token for token. In a lower precision near ties are decided
otherwise and the rest of the answer with them; there each token must be as likely as the likeliest after the tokens
before it, but for what rounding explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from mlbench.conformance.text_model import (
    DECODING,
    END_TOKEN,
    MAX_NEW_TOKENS,
    NETWORK,
    SPECIAL_TOKENS,
    VOCABULARY,
    fixed_prompts,
    text_folder,
)
from mlbench.contracts.generation import Prompt
from mlbench.contracts.precision import Precision
from mlbench.errors import UnavailableError

_ALLOWED = {Precision.BF16: 0.15, Precision.FP16: 0.05}
_ALLOWED_ELSE = 0.75
"""How far a token's logit may be below the largest, in standard deviations of all logits. Transformers' own network in
bf16 and fp16 stays below; the last is for every other precision, whose rounding the kit does not know."""

_UNLIKELY = 0.1
_UNLIKELY_ELSE = 0.5
"""Which share of an answer's tokens may be further below; of tokens chosen at random 95 % are."""

_NEEDED = ("torch", "transformers", "safetensors", "tokenizers")

Tokens = tuple[int, ...]


def demand_reference() -> None:
    """Raise `UnavailableError` where what computes the right answers is not installed."""
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise UnavailableError(
            f"the kit's language model needs {', '.join(missing)}, not installed.",
            hint="pip install 'mlbench-inference[workloads]'",
        )


@cache
def fixed_answers() -> tuple[Tokens, ...]:
    """Return `generate`'s answer to each of the fixed prompts, without their stop sequences."""
    return generated_answers(fixed_prompts())


def generated_answers(prompts: Sequence[Prompt]) -> tuple[Tokens, ...]:
    """Return `generate`'s answer to each prompt: new tokens, the end token included."""
    return tuple(_generate(prompt) for prompt in prompts)


def right_answer(prompt: Prompt) -> Tokens:
    """Return `generate`'s answer to a prompt, with its stop sequence."""
    return end_at_stop(prompt, _generate(Prompt(tokens=prompt.tokens)))


def end_at_stop(prompt: Prompt, answer: Tokens) -> Tokens:
    """Return an answer up to the first token with which prompt and answer end in the stop sequence, then an end token.

    As it is, where there is no stop sequence, or none is reached before the longest answer.
    """
    if not prompt.stop:
        return answer
    tokens = prompt.tokens.tolist()
    for place in range(1, min(len(answer), MAX_NEW_TOKENS - 1) + 1):
        if tuple([*tokens, *answer[:place]][-len(prompt.stop) :]) == prompt.stop:
            return (*answer[:place], END_TOKEN)
    return answer


def wrong_token(prompt: Prompt, answer: Sequence[int], precision: Precision) -> str:
    """Return which token of an answer is not the model's, and what that is; empty where all are.

    The end is judged too: an answer ends with its first end token, with its stop sequence and an end token, or when it
    is as long as allowed.
    """
    found, right = tuple(map(int, answer)), right_answer(prompt)
    if found == right:
        return ""
    if precision is Precision.FP32:
        place = next(
            (place for place, (one, other) in enumerate(zip(found, right, strict=False)) if one != other),
            min(len(found), len(right)),
        )
        return f"token {place} is {_at(found, place)}, and generate's is {_at(right, place)}"
    if not found or any(not 0 <= token < VOCABULARY for token in found):
        return f"{list(found)} is not made of tokens of the vocabulary"
    return _unlikely_token(prompt, found, precision) or _wrong_end(prompt, found)


def is_whole_in_text(prompt: Prompt) -> bool:
    """Return whether text shows the whole of `generate`'s answer to a prompt, so that a server of text can be right.

    It shows no special tokens: not an end token in the last place that is allowed. And few servers can forbid that the
    first token is one, as `Decoding.min_new_tokens` does.
    """
    answer = right_answer(prompt)
    is_ended = answer[-1] == END_TOKEN and len(answer) < MAX_NEW_TOKENS
    shown = answer[:-1] if is_ended else answer
    return min(shown) >= len(SPECIAL_TOKENS) and not _begins_with_end(prompt)


def _begins_with_end(prompt: Prompt) -> bool:
    import torch

    with _computing():
        return int(_network()(torch.tensor([prompt.tokens.tolist()])).logits[0, -1].argmax()) == END_TOKEN


def allowed_gap(precision: Precision) -> float:
    """Return how far a token's logit may be below the largest, in standard deviations of all logits."""
    return _ALLOWED.get(precision, _ALLOWED_ELSE)


def logit_gaps(prompt: Prompt, answer: Sequence[int]) -> np.ndarray:
    """Return how far the logit of each token of an answer is below the largest, in standard deviations of all."""
    import torch

    tokens = [*prompt.tokens.tolist(), *answer]
    with _computing():
        logits = _network()(torch.tensor([tokens[:-1]])).logits[0, len(prompt.tokens) - 1 :].float().numpy()
    chosen = logits[np.arange(len(answer)), list(answer)]
    return np.asarray((logits.max(-1) - chosen) / logits.std())


def _unlikely_token(prompt: Prompt, found: Tokens, precision: Precision) -> str:
    by_model = found[:-1] if prompt.stop and found[-1] == END_TOKEN else found
    gaps = logit_gaps(prompt, by_model) if by_model else np.zeros(0)
    share = _UNLIKELY if precision in _ALLOWED else _UNLIKELY_ELSE
    unlikely = np.flatnonzero(gaps > allowed_gap(precision))
    if len(unlikely) <= 1 + share * len(by_model) and len(unlikely) < len(by_model):
        return ""
    place = unlikely[0]
    return (
        f"{len(unlikely)} of {len(found)} tokens are unlikely, the first is token {place}, {found[place]}, whose logit "
        f"is {gaps[place]:.2g} standard deviations below the largest; {precision} allows {allowed_gap(precision):g}"
    )


def _wrong_end(prompt: Prompt, found: Tokens) -> str:
    natural = found[: found.index(END_TOKEN) + 1] if END_TOKEN in found else found[:MAX_NEW_TOKENS]
    wanted = end_at_stop(prompt, natural)
    if found != wanted:
        return f"it has {len(found)} tokens, and its own tokens end after {len(wanted)}"
    if END_TOKEN not in found and len(found) != MAX_NEW_TOKENS:
        return f"it has {len(found)} tokens without an end token, and {MAX_NEW_TOKENS} are allowed"
    return ""


def _at(tokens: Tokens, place: int) -> str:
    return str(tokens[place]) if place < len(tokens) else "none"


@contextmanager
def _computing() -> Iterator[None]:
    """Compute with one thread: more of them only wait for each other, and the backend's stay as they were."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(threads)


@cache
def _network() -> Any:
    demand_reference()
    return NETWORK.trained(text_folder())


def _generate(prompt: Prompt) -> Tokens:
    return _generate_tokens(tuple(prompt.tokens.tolist()))


@cache
def _generate_tokens(tokens: Tokens) -> Tokens:
    import torch

    ids = torch.tensor([tokens])
    with _computing():
        output = _network().generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=DECODING.min_new_tokens,
            max_new_tokens=MAX_NEW_TOKENS,
            eos_token_id=END_TOKEN,
            pad_token_id=END_TOKEN,
        )
    return tuple(output[0, len(tokens) :].tolist())
