"""Who counts the tokens of a server's own model: the server, its chunks, or a tokenizer that the user names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mlbench import UsageError
from mlbench_endpoint.client.messages import Answered
from mlbench_endpoint.loads.text_sample import TextSample

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BY_SERVER, BY_CHUNKS, BY_TOKENIZER = "server", "chunks", "tokenizer"

_FILE = "tokenizer.json"
_MOST_KEPT = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """A way to count."""

    by: str
    """``server``, ``chunks`` or ``tokenizer``."""
    tokenizer: Tokenizer | None = None
    _kept: dict[str, int] = field(default_factory=dict)
    """Counts of texts of prompts, which repeat."""

    @classmethod
    def of_option(cls, text: str, *, has_usage: bool) -> Self:
        """Return the way that ``backend.count`` names.

        Args:
            text: the option; empty: the server, or the chunks where requests do not ask for its counts.
            has_usage: whether they do.

        Raises:
            UsageError: the option has another form, or the tokenizer cannot be read.
        """
        by, _, place = text.partition(":")
        if text in ("", BY_SERVER, BY_CHUNKS):
            return cls(by=text or (BY_SERVER if has_usage else BY_CHUNKS))
        if by != BY_TOKENIZER or not place:
            raise UsageError(
                f"backend.count is {text!r}.", hint="Give server, chunks, or tokenizer: and a tokenizer.json."
            )
        return cls(by=BY_TOKENIZER, tokenizer=_read_tokenizer(Path(place)))

    def prompt_tokens(self, sample: TextSample, message: Answered) -> int | None:
        """Return the tokens of a prompt: the server's count if it sent one, else the tokenizer's.

        The tokenizer counts the text alone, without a chat's template, and the random words before it as one each. It
        does not count a session, whose history is not known here.
        """
        if message.prompt_tokens is not None or self.tokenizer is None or sample.turns:
            return message.prompt_tokens
        text = " ".join(filter(None, (sample.prefix, sample.text)))
        if (count := self._kept.get(text)) is None:
            count = self._length(text)
            if len(self._kept) < _MOST_KEPT:
                self._kept[text] = count
        return count + sample.new_words

    def answer_tokens(self, message: Answered) -> int | None:
        """Return the tokens of an answer; None: the server did not say."""
        if self.by == BY_SERVER:
            return message.answer_tokens
        if self.by == BY_CHUNKS:
            return len(message.chunk_ns)
        return self._length(str(message.answer))

    def _length(self, text: str) -> int:
        assert self.tokenizer
        encoding: Any = self.tokenizer.encode(text, add_special_tokens=False)
        return len(encoding.ids)


def _read_tokenizer(place: Path) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError("tokenizers is not installed.", hint="pip install tokenizers, or count by chunks.") from None
    file = place / _FILE if place.is_dir() else place
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # it raises nothing narrower
        raise UsageError(f"{file} cannot be read as a tokenizer: {error}.", hint="Name a tokenizer.json.") from None
