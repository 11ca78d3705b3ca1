"""Prompts and sessions of random words, of the lengths that the options or a trace ask for."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, overload

from mlbench import UsageError
from mlbench_endpoint.loads.prompt_lengths import MOST_TOKENS, parse_lengths
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.text_sample import Images, TextSample, Turn
from mlbench_endpoint.loads.trace_file import BLOCK_TOKENS, TraceRequest
from mlbench_endpoint.loads.words import WORDS

if TYPE_CHECKING:
    import numpy as np

_NEW_WORDS = 4
"""Number of new random words per sending: enough for 20 billion beginnings."""

_MOST_WORDS = 300_000_000
"""Most words of all prompts, which are kept in memory: about two gigabytes."""

_LONGEST_SIDE = 4096
_KEPT_BLOCKS = 1 << 12


def generate_prompts(options: PromptOptions) -> list[TextSample]:
    """Return prompts of words drawn at random; the first words of each are drawn when it is sent.

    Raises:
        UsageError: a length, a shared prefix or an image size is none.
    """
    import numpy as np

    rng = np.random.default_rng(options.seed)
    images = parse_images(options.image, options.images_per_request)
    samples = [
        TextSample(text=text, answer_tokens=answer, new_words=new, images=images)
        for text, answer, new in _draw_texts(options, rng, new_words=_NEW_WORDS)
    ]
    samples = _with_shared_prefix(samples, options, rng)
    if options.turns == 1:
        return samples
    further = [
        [Turn(text=text, answer_tokens=answer, think_ns=think_ns(options)) for text, answer, _ in texts]
        for texts in (_draw_texts(options, rng) for _ in range(options.turns - 1))
    ]
    return [replace(each, turns=turns) for each, turns in zip(samples, zip(*further, strict=True), strict=True)]


def think_ns(options: PromptOptions) -> int:
    """Return the time between an answer and the next turn."""
    return options.think_ms * 1_000_000


def _draw_texts(options: PromptOptions, rng: np.random.Generator, new_words: int = 0) -> list[tuple[str, int, int]]:
    """Return texts, the most tokens of their answers, and the number of new words that come before the text."""
    lengths_in = parse_lengths(options.tokens_in, "workload.tokens_in")
    lengths_out = parse_lengths(options.tokens_out, "workload.tokens_out")
    most = _MOST_WORDS // (options.turns * _words_in(lengths_in.longest, options))
    found, count = [], max(1, min(options.count, most))
    for tokens, answer in zip(lengths_in.draw(rng, count), lengths_out.draw(rng, count), strict=True):
        length = _words_in(tokens - options.template_tokens, options)
        new = min(new_words, length)
        found.append((" ".join(rng.choice(WORDS, length - new)), int(answer), new))
    return found


def _words_in(tokens: float, options: PromptOptions) -> int:
    return max(1, round(tokens / options.tokens_per_word))


def _with_shared_prefix(
    samples: list[TextSample], options: PromptOptions, rng: np.random.Generator
) -> list[TextSample]:
    """Return the prompts, a share of which, chosen at random, begins with the same words."""
    share, tokens = parse_shared_prefix(options.shared_prefix)
    if not share:
        return samples
    prefix = _random_words(f"{options.seed} prefix", _words_in(tokens, options))
    is_sharing = rng.permutation(len(samples)) < round(share * len(samples))
    return [replace(each, prefix=prefix) if shares else each for each, shares in zip(samples, is_sharing, strict=True)]


def parse_shared_prefix(text: str) -> tuple[float, int]:
    """Return the share of prompts with the prefix, and its tokens, of a text such as ``0.5:1024``; empty: 0 and 0.

    Raises:
        UsageError: it has another form.
    """
    if not text:
        return 0.0, 0
    found = re.fullmatch(r"(0?\.[0-9]{1,9}|[01](?:\.0*)?):([0-9]{1,9})", text.strip())
    share, tokens = (float(found[1]), int(found[2])) if found else (0.0, 0)
    if not 0 < share <= 1 or not 1 <= tokens <= MOST_TOKENS:
        raise UsageError(
            f"the shared prefix is {text!r}.", hint="Give a share of prompts and a number of tokens: 0.5:1024."
        )
    return share, tokens


def parse_images(text: str, count: int) -> Images | None:
    """Return the images that a text such as ``512x512`` describes; empty: None.

    Raises:
        UsageError: it has another form.
    """
    if not text:
        return None
    found = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", text.strip())
    width, height = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= width <= _LONGEST_SIDE or not 1 <= height <= _LONGEST_SIDE:
        raise UsageError(f"the image is {text!r}.", hint=f"Give width and height up to {_LONGEST_SIDE}: 512x512.")
    return Images(width=width, height=height, count=count)


def _random_words(seed: str, count: int) -> str:
    """Return words that a seed determines: with more of them, the same and further ones."""
    return " ".join(random.Random(seed).choices(WORDS, k=count))


@lru_cache(maxsize=_KEPT_BLOCKS)
def _block_text(seed: str, count: int) -> str:
    return _random_words(seed, count)


class TracePrompts(Sequence[TextSample]):
    """The prompts of a trace, generated when they are looked at: all texts at once may need gigabytes."""

    def __init__(self, requests: Sequence[TraceRequest], options: PromptOptions) -> None:
        self._requests = requests
        self._options = options

    def __len__(self) -> int:
        return len(self._requests)

    @overload
    def __getitem__(self, index: int) -> TextSample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TextSample]: ...
    def __getitem__(self, index: int | slice) -> TextSample | Sequence[TextSample]:
        if isinstance(index, slice):
            return TracePrompts(self._requests[index], self._options)
        request = self._requests[index]
        if request.prompt:
            return TextSample(text=request.prompt, answer_tokens=request.tokens_out, due_ns=request.at_ns)
        return self._generate(request, index)

    def _generate(self, request: TraceRequest, index: int) -> TextSample:
        """Return a prompt whose blocks have the text of their names, and whose rest is its own."""
        options = self._options
        words = _words_in(request.tokens_in - options.template_tokens, options)
        new, block_words, parts = min(_NEW_WORDS, words), _words_in(BLOCK_TOKENS, options), []
        left = words - new
        for place, block in enumerate(request.blocks):
            length = min(left, block_words - (0 if place else new))
            parts.append(_block_text(f"{options.seed} block {block}", length))
            left -= length
        parts.append(_random_words(f"{options.seed} own {index}", left))
        return TextSample(
            text=" ".join(filter(None, parts)),
            answer_tokens=request.tokens_out,
            new_words=new,
            seed=f"block {request.blocks[0]}" if request.blocks else "",
            due_ns=request.at_ns,
        )
