"""Formats of requests for prompts, and the decoding of answers to tokens."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlbench import Decoding, GenerationProgram, Model, Prompt, UsageError
from mlbench.toolkit.language import TOKENIZER_FILE
from mlbench_endpoint.api import RequestField
from mlbench_endpoint.client.answer import AnswerFormat
from mlbench_endpoint.client.messages import Answered

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VLLM_BEAMS = '\'{"use_beam_search": true, "n": 4, "stream": false}\''

MOST_CUT_OTHERWISE = 2
"""Tolerance of a text's token count over the limit: a server may tokenise it differently."""

_CONFIG_FILE = "config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFormat:
    """The fields of requests, and the reading of answers."""

    common: Mapping[str, Any]
    """Fields that all requests share."""
    chosen: Collection[str]
    """Fields set by the user, also for single samples."""
    decoding: Decoding
    answer: AnswerFormat
    tokenizer: Tokenizer | None
    """None if the model has none."""

    @property
    def is_text(self) -> bool:
        """Whether prompts and answers are text, not token ids."""
        return self.answer.is_text

    def fields(self, prompt: Prompt) -> dict[str, RequestField]:
        """Return the fields of one sample."""
        fields: dict[str, RequestField] = {"max_tokens": self._room(prompt)}
        fields["prompt"] = self._prompt_text(prompt) if self.is_text else prompt.tokens.tolist()
        if prompt.stop and self.tokenizer:
            fields["stop"] = [self._text(prompt.stop)]
            if not self.is_text:
                fields["include_stop_str_in_output"] = True  # vLLM's, as are token ids
        return {name: value for name, value in fields.items() if name not in self.chosen}

    def limit(self, prompt: Prompt) -> int:
        """Return the most tokens of an answer to a prompt, by the workload and the user; below 1: none fit."""
        wanted = self.common.get("max_tokens")
        return min(self._room(prompt), wanted) if type(wanted) is int else self._room(prompt)

    def prompt_tokens(self, prompt: Prompt) -> int:
        """Return the number of tokens of a prompt."""
        return len(prompt.tokens)

    def count(self, tokens: int, message: Answered) -> int:
        """Return the number of tokens found in an answer, whatever the server counts."""
        return tokens

    def counted_prompt(self, prompt: Prompt, message: Answered) -> int | None:
        """Return the server's count of a prompt's tokens."""
        return message.prompt_tokens

    def fewest_tokens(self, prompt: Prompt) -> int:
        """Return the fewest tokens a server may count in a whole prompt; text may be tokenised differently."""
        if not self.is_text:
            return len(prompt.tokens)
        return min(len(prompt.tokens), len(self._ids(self._prompt_text(prompt))))

    def tokens(self, answer: Sequence[int] | str, *, is_finished: bool, first: str | None = None) -> list[int]:
        """Return the tokens of an answer.

        Args:
            answer: token ids, or text.
            is_finished: whether the model ended it: then its last token is an end token, even if the server did not
                send it.
            first: the part of a text whose first token was reported already, with which the tokens then begin.

        Raises:
            ValueError: a text is far longer than allowed.
        """
        most = self.decoding.max_new_tokens
        if isinstance(answer, str):
            text, answer = answer, self._ids(answer)
            if isinstance(first, str) and answer[:1] != (begin := self._ids(first))[:1]:
                answer = begin + self._ids(text[len(first) :])  # the whole text is cut into tokens in another way
            if len(answer) > MOST_CUT_OTHERWISE * most:
                raise ValueError(f"the server sent a text of {len(answer)} tokens, but an answer may have {most}")
        tokens = list(answer)[:most]
        if is_finished and len(tokens) < most and not self._ends(tokens):
            tokens.append(self.decoding.end_tokens[0])
        return tokens

    def _room(self, prompt: Prompt) -> int:
        return min(self.decoding.max_new_tokens, self.decoding.longest - len(prompt.tokens))

    def _prompt_text(self, prompt: Prompt) -> str:
        return self._text(self._without_added(prompt.tokens.tolist()))

    def _without_added(self, tokens: list[int]) -> list[int]:
        """Return a prompt without the tokens that a server's tokenizer prepends: they would be there twice."""
        assert self.tokenizer
        added: list[int] = self.tokenizer.encode("").ids
        return tokens[len(added) :] if added and tokens[: len(added)] == added else tokens

    def _text(self, tokens: Sequence[int]) -> str:
        assert self.tokenizer
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=False)
        return text

    def _ids(self, text: str) -> list[int]:
        assert self.tokenizer
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _ends(self, tokens: Sequence[int]) -> bool:
        return bool(tokens) and tokens[-1] in self.decoding.end_tokens


def request_format(model: Model, *, kind: str, extra: Mapping[str, Any]) -> RequestFormat:
    """Return the request format of a model.

    Args:
        model: its program generates.
        kind: ``tokens`` or ``text``.
        extra: fields that the user adds or replaces; None removes a field.

    Raises:
        UsageError: the protocol has no beams; or the prompt is text and the model has no tokenizer.
    """
    assert isinstance(model.program, GenerationProgram)
    decoding = model.program.decoding
    if decoding.beams > 1 and not extra:
        raise UsageError(
            f"{model.name} searches with {decoding.beams} beams, for which the protocol has no field.",
            hint=f"Give the field of your server, for vLLM: --set backend.extra={VLLM_BEAMS}",
        )
    is_text = kind == "text"
    common: dict[str, Any] = {"temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    if not is_text:  # these are vLLM's; without the first an answer may be an end token alone
        common |= {"min_tokens": decoding.min_new_tokens, "return_token_ids": True}
    elif decoding.min_new_tokens > 1:
        common["min_tokens"] = decoding.min_new_tokens
    common |= extra
    if not common.get("stream"):
        common.pop("stream_options", None)  # servers refuse it then
    if is_text and model.files is None:
        raise UsageError(
            f"{model.name} has no tokenizer to make text with.", hint="Use trained weights, or backend.prompt=tokens."
        )
    common = {name: value for name, value in common.items() if value is not None}
    tokenizer, choices = _tokenizer(model.files), common.get("n")
    answer = AnswerFormat(
        is_text=is_text,
        is_stream=bool(common.get("stream")),
        vocabulary=_vocabulary(model, tokenizer),
        choices=choices if type(choices) is int and choices > 1 else 1,
        has_usage=not common.get("stream") or bool(common.get("stream_options")),
    )
    return RequestFormat(common=common, chosen=extra.keys(), decoding=decoding, answer=answer, tokenizer=tokenizer)


def _tokenizer(folder: Path | None) -> Tokenizer | None:
    if folder is None:
        return None
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / TOKENIZER_FILE))


def _vocabulary(model: Model, tokenizer: Tokenizer | None) -> int:
    """Return the bound of token ids: the network's rows, or the tokenizer's entries; else the reply type's range."""
    sizes = [tokenizer.get_vocab_size()] if tokenizer else []
    if model.files and (config := model.files / _CONFIG_FILE).is_file():
        with suppress(ValueError, AttributeError):  # loading the weights validates it
            size = json.loads(config.read_text()).get("vocab_size")
            sizes += [size] if type(size) is int else []
    return max(sizes) if sizes else int(np.iinfo(model.program.reply.dtype).max) + 1
