"""A prompt as text, before it has tokens. Importing it loads nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A further turn of a session: the user's next message, after the answer to the last one."""

    text: str
    answer_tokens: int
    think_ns: int = 0
    """Time between the end of the last answer and this turn's request."""
    given: str | None = None
    """The last answer, as the history has it; None: the server's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Images of a request: random pixels, new at each sending, so that no server has cached them."""

    width: int
    height: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSample:
    """A prompt of the dataset, or a session of several turns."""

    text: str
    answer_tokens: int
    """Most tokens of the answer, by the server's count."""
    new_words: int = 0
    """Number of random words before the text, new at each sending, so that no server has cached the prompt."""
    seed: str = ""
    """Prompts with equal seeds begin with the same new words within a test. Empty: with always new ones."""
    prefix: str = ""
    """Text before the new words, which other prompts have too."""
    system: str = ""
    """Message of the system that a session begins with; empty: none."""
    turns: tuple[Turn, ...] = ()
    """Turns after the first one."""
    due_ns: int | None = None
    """When it is sent in a scheduled test, from its begin; None: no schedule."""
    images: Images | None = None

    @property
    def longest_answer(self) -> int:
        """Tokens of the longest answer of a turn."""
        return max(self.answer_tokens, *(turn.answer_tokens for turn in self.turns), 0)

    @property
    def all_answers(self) -> int:
        """Tokens of the answers of all turns at most."""
        return self.answer_tokens + sum(turn.answer_tokens for turn in self.turns)

    @property
    def size(self) -> int:
        """Characters that the user sends in all turns, without new words."""
        return len(self.prefix) + len(self.text) + sum(len(turn.text) for turn in self.turns)

    def for_trial(self, answer_tokens: int | None = None) -> TextSample:
        """Return it without thinking, and with answers of this length if one is given."""
        turns = (replace(turn, think_ns=0, answer_tokens=answer_tokens or turn.answer_tokens) for turn in self.turns)
        return replace(self, turns=tuple(turns), answer_tokens=answer_tokens or self.answer_tokens)
