"""ROUGE, GSM8K and MBXP over one log, as the official script computes them.

Source: MLPerf Inference v4.1, language/mixtral-8x7b/evaluate-accuracy.py.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mlbench import LoggedReply, Profile, Target
from mlbench.toolkit import Sandbox
from mlbench.toolkit.language import ROUGE_SCORES, Sentences, TokenMetric, decode_answers, text_scores
from mlbench_mixtral_8x7b.dataset import GSM8K, MBXP, OPENORCA, Task
from mlbench_mixtral_8x7b.gsm8k import is_right

if TYPE_CHECKING:
    from tokenizers import Tokenizer

logger = logging.getLogger(__name__)


class MixedScores(TokenMetric):
    """Scores ROUGE over the answers to OpenOrca, and lengths; in percent ``gsm8k_accuracy`` and ``mbxp_accuracy``.

    Lengths are ``GEN_LEN`` in characters of the answers to OpenOrca, ``gen_num`` in log entries, ``gen_tok_len`` in
    tokens of all answers, and ``TOKENS_PER_SAMPLE``. Without NLTK's sentence data ``rougeLsum`` is missing.
    """

    printed = (
        *ROUGE_SCORES,
        "gsm8k_accuracy",
        "mbxp_accuracy",
        "GEN_LEN",
        "gen_num",
        "gen_tok_len",
        "TOKENS_PER_SAMPLE",
    )

    def __init__(  # noqa: PLR0913 - what is scored against, and how
        self,
        tasks: Sequence[Task],
        tokenizer: Tokenizer,
        *,
        targets: tuple[Target, ...],
        dtype: str = "int64",
        sentences: Sentences | None = None,
        profile: Profile = Profile.FULL,
        sandbox: Sandbox | None = None,
    ) -> None:
        """Store the references; the other arguments are `TokenMetric`'s.

        Args:
            tasks: of each sample.
            tokenizer: turns replies back into text.
            targets: limits of the scores.
            dtype: how a token is stored.
            sentences: splits a text into sentences.
            profile: whose limits hold between two answers to a sample.
            sandbox: isolation of MBXP's programs; None for the strongest available.
        """
        truths = [task.truth for task in tasks]
        super().__init__(truths, tokenizer, targets=targets, dtype=dtype, sentences=sentences, profile=profile)
        self._tasks = tasks
        self._sandbox = sandbox

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores over the samples that were answered; a data set without an answer has none, MBXP 0.

        Answers to MBXP are programs, and are run; see `mlbench_mixtral_8x7b.mbxp`.

        Raises:
            InvalidRunError: a reply is not a list of token ids, or to an unknown sample; or there is none.
        """
        tokens = self.tokens(replies)
        texts = decode_answers(list(tokens.values()), self.tokenizer)
        answers: dict[str, list[tuple[str, Task]]] = {OPENORCA: [], GSM8K: [], MBXP: []}
        for index, text in zip(tokens, texts, strict=True):
            answers[self._tasks[index].dataset].append((text, self._tasks[index]))
        gen_tok_len = sum(map(len, tokens.values()))
        return {
            **self._rouge(answers[OPENORCA]),
            **_gsm8k(answers[GSM8K]),
            "mbxp_accuracy": self._mbxp(answers[MBXP]),
            "gen_num": len(replies),  # a second reply to a sample counts here, and nowhere else
            "gen_tok_len": gen_tok_len,
            "TOKENS_PER_SAMPLE": round(gen_tok_len / len(replies), 1),
        }

    def answer_tokens(self, index: int) -> Sequence[int]:
        """Return the tokens of a right answer to OpenOrca; the references of others are numbers and tests."""
        return super().answer_tokens(index) if self._tasks[index].dataset == OPENORCA else ()

    def _rouge(self, answers: Sequence[tuple[str, Task]]) -> Mapping[str, float]:
        if not answers:
            return {"GEN_LEN": 0}
        texts, tasks = zip(*answers, strict=True)
        return text_scores(texts, [task.truth for task in tasks], self.sentences)

    def _mbxp(self, answers: Sequence[tuple[str, Task]]) -> float:
        if not answers:
            return 0.0
        from mlbench_mixtral_8x7b.mbxp import MbxpSample, score_mbxp

        samples = [MbxpSample(id=task.id, answer=text, test=task.truth) for text, task in answers]
        result = score_mbxp(samples, self._sandbox or Sandbox.available())
        for language, reason in result.unscored.items():
            logger.warning("no %s program of MBXP was run: %s", language, reason)
        return result.score


def _gsm8k(answers: Sequence[tuple[str, Task]]) -> Mapping[str, float]:
    if not answers:
        return {}
    return {"gsm8k_accuracy": 100 * sum(is_right(text, task.truth) for text, task in answers) / len(answers)}
