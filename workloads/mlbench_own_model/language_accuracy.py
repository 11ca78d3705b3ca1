"""Agreement of tokens with the reference's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlbench import LoggedReply, Metric, Precision, Profile, Target
from mlbench.toolkit.language import read_logged_tokens, token_difference, token_limits

if TYPE_CHECKING:
    import numpy as np

SCORE = "tokens_agree"
WHOLE = "answers_agree"
_DTYPE = "int64"

LEAST_AGREEMENT = {Precision.FP32: 99.5, Precision.FP16: 98.0, Precision.BF16: 95.0}
"""Percent of tokens that must be the reference's, by precision.

A token changes where rounding exceeds the distance between the two likeliest. Measured with five small models, of 1,000
to 4,000 tokens: 100 in fp32, 99.5 to 99.9 in fp16, 98.3 to 99.5 in bf16, 92.3 to 98.1 in int8. In fp32, weights with
1 % noise reach 97.6 to 98.6, with 10 % noise 71 to 87, with 30 % noise 32 to 65.
"""
_LEAST_OF_OTHERS = 85.0
"""The same for int8, fp8 and names that are not known: their weights are rounded too."""


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where an answer leaves the reference's."""

    sample: int
    place: int
    found: int | None
    """The token; None: the answer ends before."""
    wanted: int | None

    def __str__(self) -> str:
        """Return it as a sentence."""
        found, wanted = (f"token {each}" if each is not None else "its end" for each in (self.found, self.wanted))
        return f"The answer to prompt {self.sample} differs first at its token {self.place}: {found}, not {wanted}."


class TokenAgreement(Metric):
    """Scores ``tokens_agree``: percent of tokens that are the reference's where the answer before them is.

    After the first token that differs two answers continue other texts, and tokens behind it say nothing. So of each
    answer the tokens up to the first difference are counted, that one included: the score does not depend on how long
    answers are. ``answers_agree`` is the percentage of answers without a difference, which does. Answers with the same
    text are equal: a server may return text, which is not always cut into the tokens that the model made.
    """

    reply_limits = token_limits(Profile.FULL)

    def __init__(
        self,
        references: Callable[[], Sequence[np.ndarray]],
        *,
        compared: int,
        samples: int,
        precision: Precision,
        text: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        """Store how the reference is computed.

        Args:
            references: returns the reference's replies, (n,) int64 each, to the first samples.
            compared: how many these are.
            samples: how many samples there are.
            precision: the run's.
            text: returns the text of tokens; None where the model has no tokenizer.
        """
        least = LEAST_AGREEMENT.get(precision, _LEAST_OF_OTHERS)
        self.targets = (Target.at_least(SCORE, least, reference=100.0, name=str(precision)),)
        self._references = references
        self._compared = compared
        self._samples = samples
        self._text = text
        self._first: FirstDifference | None = None

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores over the samples that have references.

        Raises:
            InvalidRunError: a reply is not a list of token ids, or to an unknown sample; or there is none.
        """
        tokens = read_logged_tokens(replies, samples=self._samples, dtype=_DTYPE)
        compared = [index for index in sorted(tokens) if index < self._compared]
        references = self._references() if compared else []
        differences, equal = [], 0
        for index in compared:
            found, wanted = tokens[index].tolist(), references[index].tolist()
            place = self._first_difference(found, wanted)
            equal += len(wanted) if place is None else place
            if place is not None:
                pair = (each[place] if place < len(each) else None for each in (found, wanted))
                differences.append(FirstDifference(index, place, *pair))
        self._first = next(iter(differences), None)
        count = equal + len(differences)
        return {
            SCORE: 100 * equal / count if count else 0.0,
            WHOLE: 100 * (len(compared) - len(differences)) / len(compared) if compared else 0.0,
        }

    def _first_difference(self, found: Sequence[int], wanted: Sequence[int]) -> int | None:
        """Return the first place in which two answers differ; None where they are equal."""
        if found == wanted or (self._text and self._text(found) == self._text(wanted)):
            return None
        pairs = enumerate(zip(found, wanted, strict=False))
        return next((place for place, (one, other) in pairs if one != other), min(len(found), len(wanted)))

    def first_wrong(self) -> str:
        """Return the first answer that differs, and where."""
        return str(self._first) if self._first else ""

    def line(self, scores: Mapping[str, float]) -> str:
        """Return the scores as Python prints a dictionary."""
        return str(dict(scores))

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Return the tokens."""
        import numpy as np

        return np.frombuffer(reply.data, np.dtype(_DTYPE).newbyteorder("<"))

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return the difference of two answers; see `token_difference`."""
        return token_difference(reply, reference, dtype=_DTYPE)
