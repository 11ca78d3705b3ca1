"""Embeddings and scores of documents, as the mock server makes them: numbers that the text determines."""

from __future__ import annotations

from random import Random

from mlbench_endpoint.mock_server.asked import BadRequestError
from mlbench_endpoint.mock_server.wire_message import WireMessage

PATHS = ("/embeddings", "/rerank")
_DIMENSIONS = 64


def answer_numbers(body: WireMessage, path: str, model: str) -> WireMessage:
    """Return the answer to a request for embeddings or scores; a token is a word.

    Raises:
        BadRequestError: it lacks a text.
    """
    if path.endswith("/embeddings"):
        given = body.get("input")
        texts = _texts([given] if isinstance(given, str) else given)
        data = [{"object": "embedding", "index": at, "embedding": _numbers(text)} for at, text in enumerate(texts)]
        usage = {"prompt_tokens": _count(texts), "total_tokens": _count(texts)}
        return WireMessage(object="list", data=data, model=model, usage=usage)
    (query,), documents = _texts([body.get("query")]), _texts(body.get("documents"))
    scores = [_rng(f"{query} {text}").random() for text in documents]
    best = sorted(range(len(scores)), key=lambda at: -scores[at])
    results = [{"index": at, "relevance_score": scores[at]} for at in best]
    return WireMessage(model=model, results=results, usage={"total_tokens": _count([query, *documents])})


def _texts(found: object) -> list[str]:
    if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
        raise BadRequestError("input, query and documents must be texts")
    return found


def _count(texts: list[str]) -> int:
    return sum(len(each.split()) for each in texts)


def _numbers(text: str) -> list[float]:
    rng = _rng(text)
    return [rng.uniform(-1, 1) for _ in range(_DIMENSIONS)]


def _rng(text: str) -> Random:
    return Random(text.encode("utf-8", "surrogatepass"))
