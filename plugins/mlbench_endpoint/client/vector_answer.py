"""Answers that are numbers: an embedding of a text, or the scores of documents for a query."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlbench_endpoint.api import Api
from mlbench_endpoint.client.answer import Answer
from mlbench_endpoint.client.failure import RequestFailed

_SHOWN = 200


class VectorAnswer(Answer):
    """Checks an answer of an embeddings or rerank endpoint; its ``limit`` is the number of results requested.

    Its text is what the answer has: the length of the embedding, or the documents from the best one on. The numbers
    themselves are not kept.
    """

    def add(self, message: Mapping[str, Any]) -> str:
        """Handle the whole answer; return its text. Raises `RequestFailed` for one that does not fit the request."""
        is_rerank = self.format.api is Api.RERANK
        results = message.get("results" if is_rerank else "data")
        if message.get("error") or not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
            raise RequestFailed(f"the server sent {json.dumps(message)[:_SHOWN]}")
        if len(results) != self.limit:
            raise RequestFailed(f"the server sent {len(results)} results; {self.limit} were requested")
        usage = message.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        self._take_usage({"prompt_tokens": counts.get("prompt_tokens", counts.get("total_tokens"))})
        self._check_name(message)
        text = _ranking(results) if is_rerank else _length(results[0].get("embedding"))
        self.parts.append(text)
        return text

    def check(self) -> None:
        """Raise `RequestFailed` unless there was an answer."""
        if not self.parts:
            raise RequestFailed("the server sent no answer")


def _length(embedding: object) -> str:
    """Return the length of an embedding: its numbers, or the characters of their base64 form."""
    if isinstance(embedding, str) and embedding:
        return f"{len(embedding)} characters"
    if not isinstance(embedding, list) or not embedding or not all(map(_is_number, embedding)):
        raise RequestFailed(f"the server sent {json.dumps(embedding)[:_SHOWN]} as an embedding")
    return f"{len(embedding)} numbers"


def _ranking(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the indices of documents, best first."""
    scores: dict[int, float] = {}
    for each in results:
        index: Any = each.get("index")
        score: Any = each.get("relevance_score")
        if type(index) is not int or not 0 <= index < len(results) or index in scores or not _is_number(score):
            raise RequestFailed(f"the server sent {json.dumps(each)[:_SHOWN]} as the score of a document")
        scores[index] = float(score)
    return " ".join(map(str, sorted(scores, key=scores.__getitem__, reverse=True)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
