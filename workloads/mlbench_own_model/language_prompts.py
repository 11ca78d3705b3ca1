"""The prompts of a user's language model: random token ids, or those of a file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mlbench import DataError, Decoding, Prompt, UsageError
from mlbench.toolkit import DATA_BYTES, parse_json, read_text
from mlbench.toolkit.language import TOKENIZER_FILE, StoredPrompts, tokenizing
from mlbench_own_model.language_folder import LanguageFolder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mlbench_own_model.options import LanguageModelOptions

PROMPTS = 32
_TRIES = 20
"""Tries to draw a prompt whose text is cut into the same tokens again."""
SIZES = {"prompt": (16, 64), "answer": (32, 32)}
_SIZE = re.compile(r"(\w+)=(\d{1,7})(?:\.\.(\d{1,7}))?", re.ASCII)
_LINE = 'Write {"prompt": "text"} or {"tokens": [1, 2, 3]}.'


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSizes:
    """Sizes in tokens."""

    shortest: int
    """Random prompts have at least so many; likewise ``longest``."""
    longest: int
    answer: int

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read ``prompt=16..128,answer=32``, defaults for what it leaves out; raises `UsageError` for other text."""
        sizes = dict(SIZES)
        for part in filter(None, text.split(",")):
            found = _SIZE.fullmatch(part.strip())
            if not found or found[1] not in sizes:
                raise UsageError(f"{part!r} is no size of a language model.", hint="Give prompt=16..128 or answer=32.")
            sizes[found[1]] = int(found[2]), int(found[3] or found[2])
        for name, (least, most) in sizes.items():
            if not 1 <= least <= most:
                raise UsageError(f"{name} has {least}..{most} tokens.", hint="Give a range above 0, the smaller first.")
        least, answer = sizes["answer"]
        if least != answer:
            raise UsageError(
                f"answer={least}..{answer} is a range.", hint=f"Give the longest answer: --dim answer={answer}."
            )
        if answer < 2:
            raise UsageError("an answer of one token has no time per token.", hint="Give --dim answer=2 or more.")
        return cls(shortest=sizes["prompt"][0], longest=sizes["prompt"][1], answer=answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageInputs:
    """Prompts, and the rules by which they are answered."""

    prompts: StoredPrompts
    decoding: Decoding

    @classmethod
    def open(cls, folder: LanguageFolder, options: LanguageModelOptions) -> Self:
        """Read the user's prompts, or draw some.

        Raises:
            UsageError: sizes or prompts do not fit the model.
            DataError: the file of prompts, or the tokenizer, is missing or damaged.
        """
        sizes = LanguageSizes.of_text(options.dims)
        if options.inputs:
            prompts, digest = read_prompts(options.inputs, folder, sizes.answer)
        else:
            prompts, digest = draw_prompts(folder, sizes, options.samples or PROMPTS, options.seed)
        longest = max(len(each.tokens) for each in prompts)
        # the checks of new content continue answers, which takes room for another one
        room = longest + 2 * sizes.answer
        decoding = Decoding(
            end_tokens=folder.end_tokens,
            max_new_tokens=sizes.answer,
            min_new_tokens=1 if options.inputs else sizes.answer,
            longest=min(room, folder.positions or room),
        )
        return cls(
            prompts=StoredPrompts(prompts, longest=longest, count=None, fingerprint=digest),
            decoding=decoding,
        )

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt and its answer."""
        longest = max(len(self.prompts.sample(index).tokens) for index in range(self.prompts.count))
        return longest + self.decoding.max_new_tokens


def draw_prompts(folder: LanguageFolder, sizes: LanguageSizes, count: int, seed: int) -> tuple[list[Prompt], str]:
    """Return prompts of seeded ids and lengths, and a hash of them.

    No id is one that begins, ends or pads, or that the tokenizer calls special or does not have. Where the folder has a
    tokenizer, it makes the same ids of a prompt's text, with the tokens that it prepends: servers may be sent either.

    Raises:
        UsageError: they and their answers have more tokens than the model has positions for.
        DataError: the tokenizer is damaged.
    """
    _check_room(folder, sizes.longest, sizes.answer, f"a prompt of {sizes.longest} tokens")
    rng, tokenizer = np.random.default_rng(seed), folder.tokenizer()
    lengths = rng.integers(sizes.shortest, sizes.longest + 1, count).tolist()
    with tokenizing(folder.path):
        ids = _ordinary_ids(folder, tokenizer)
        texts = [_draw_text(tokenizer, ids, length, rng) if tokenizer else None for length in lengths]
    drawn = [text or rng.choice(ids, length) for text, length in zip(texts, lengths, strict=True)]
    prompts = [Prompt(tokens=np.array(each, np.int64)) for each in drawn]
    return prompts, _digest(prompts)


def _draw_text(tokenizer: Tokenizer, ids: np.ndarray, length: int, rng: np.random.Generator) -> list[int] | None:
    """Return ids of a text that is cut into the same ids again; None where no try finds one.

    Random ids seldom are: their text has words that are other tokens, and bytes that are no characters.
    """
    added: list[int] = tokenizer.encode("").ids
    allowed = set(ids.tolist())
    for _ in range(_TRIES):
        text = tokenizer.decode(rng.choice(ids, 2 * length).tolist(), skip_special_tokens=False)
        found: list[int] = tokenizer.encode(text).ids[:length]
        own = found[len(added) :]
        is_whole = len(found) == length and found[: len(added)] == added and bool(own) and allowed.issuperset(own)
        if is_whole and tokenizer.encode(tokenizer.decode(own, skip_special_tokens=False)).ids == found:
            return found
    return None


def _ordinary_ids(folder: LanguageFolder, tokenizer: Tokenizer | None) -> np.ndarray:
    """Return the ids that are no special tokens: (n,) int64."""
    special, known = set(folder.special), folder.vocabulary
    if tokenizer:
        known = min(known, tokenizer.get_vocab_size(with_added_tokens=True))
        special |= {number for number, each in tokenizer.get_added_tokens_decoder().items() if each.special}
    ids = np.setdiff1d(np.arange(known, dtype=np.int64), np.array(sorted(special), np.int64))
    if not ids.size:
        raise UsageError(f"all {known} tokens of {folder.path} are special.", hint="Give your own prompts: --inputs.")
    return ids


def read_prompts(file: Path, folder: LanguageFolder, answer: int) -> tuple[list[Prompt], str]:
    """Return the prompts of a file of JSON lines, and a hash of them; blank lines are passed over.

    Args:
        file: each line an object with ``prompt``, text, or ``tokens``, ids.
        folder: the model's.
        answer: tokens that an answer may have.

    Raises:
        DataError: the file is missing or not text, a line is not such an object, an id is not the model's, a prompt and
            its answer have more tokens than the model has positions for; or the tokenizer is missing or damaged.
    """
    text = read_text(file, what="prompts", hint="Name a file of JSON lines: --inputs.", limit_bytes=DATA_BYTES)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise DataError(f"{file} has no prompt.", hint=_LINE)
    objects = [(f"line {number} of {file}", _object(line, f"line {number} of {file}")) for number, line in lines]
    tokenizer = None
    if words := next((place for place, each in objects if "prompt" in each), None):
        tokenizer = folder.tokenizer()
        if tokenizer is None:
            raise DataError(
                f"{words} is text, and {folder.path} has no {TOKENIZER_FILE}.", hint='Give ids: {"tokens": [1, 2, 3]}.'
            )
    prompts = []
    for place, each in objects:
        with tokenizing(folder.path):
            ids = _tokens(each, tokenizer, place)
        if wrong := [number for number in ids if number >= folder.vocabulary]:
            hint = f"The model has ids below {folder.vocabulary}."
            raise DataError(f"{place} has token {wrong[0]}, which is not in the vocabulary.", hint=hint)
        _check_room(folder, len(ids), answer, f"{place}: a prompt of {len(ids)} tokens")
        prompts.append(Prompt(tokens=np.array(ids, np.int64)))
    return prompts, _digest(prompts)


def _object(line: str, place: str) -> Mapping[str, Any]:
    """Return the object in a line."""
    try:
        found = parse_json(line)
    except ValueError as error:
        raise DataError(f"{place} is not JSON: {error}.", hint=_LINE) from None
    if not isinstance(found, dict) or len({"prompt", "tokens"} & found.keys()) != 1:
        raise DataError(f"{place} is not an object with a prompt or tokens: {line.strip()[:60]}", hint=_LINE)
    return found


def _tokens(given: Mapping[str, Any], tokenizer: Tokenizer | None, place: str) -> list[int]:
    """Return the ids of a prompt, at least one."""
    ids = given.get("tokens")
    if "prompt" in given:
        if not isinstance(given["prompt"], str):
            raise DataError(f"{place} has a prompt that is not text: {str(given['prompt'])[:40]!r}.", hint=_LINE)
        assert tokenizer
        ids = tokenizer.encode(given["prompt"]).ids
    if not isinstance(ids, list) or not all(type(each) is int and each >= 0 for each in ids):
        raise DataError(f"{place} has tokens that are not a list of ids: {str(ids)[:40]!r}.", hint=_LINE)
    if not ids:
        raise DataError(f"{place} has an empty prompt.", hint=_LINE)
    return ids


def _check_room(folder: LanguageFolder, prompt: int, answer: int, name: str) -> None:
    if folder.positions is not None and prompt + answer > folder.positions:
        raise DataError(
            f"{name} and {answer} new ones exceed the {folder.positions} positions of the model.",
            hint="Give shorter ones: --dim prompt=16..64 --dim answer=32.",
        )


def _digest(prompts: Sequence[Prompt]) -> str:
    digest = hashlib.sha256()
    for each in prompts:
        digest.update(np.array([each.tokens.size], "<i8").tobytes() + each.tokens.astype("<i8").tobytes())
    return digest.hexdigest()
