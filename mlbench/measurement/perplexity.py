"""Perplexity: how well a language model predicts right answers, as the run's backend computes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlbench.contracts.backend import GraphBackend
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.generation import LENGTH, PREFILL, SLOTS, GenerationProgram
from mlbench.contracts.graph import Graph
from mlbench.contracts.metric import Metric
from mlbench.contracts.model import Model
from mlbench.contracts.precision import Precision
from mlbench.errors import InvalidRunError
from mlbench.execution.arrays import host_array
from mlbench.execution.generation.host_state import stateful
from mlbench.measurement.job import Job
from mlbench.toolkit.language.score_graph import score_graph
from mlbench.toolkit.language.token_metric import TokenMetric

MOST_TEXTS = 256

_MOST_TOKENS = 2048
"""In a call, unless one text has more: the logits of a vocabulary of 128,000 take a GB then."""


def measure_perplexity(
    job: Job, model: Model, dataset: Dataset, metric: Metric, note: Callable[[], None] = lambda: None
) -> float:
    """Return the exponential of the mean negative log-likelihood of the tokens of right answers after their prompts.

    Args:
        job: whose backend computes it, in its precision.
        model: the job's, after its transforms.
        dataset: of which up to `MOST_TEXTS` samples are taken, spread evenly.
        metric: knows the right answers.
        note: is called before each call of the graph.

    Raises:
        InvalidRunError: there are no texts, or the model predicts no finite numbers.
    """
    program, backend = model.program, job.backend
    assert isinstance(program, GenerationProgram)
    assert isinstance(metric, TokenMetric)
    assert isinstance(backend, GraphBackend)
    texts = _texts(dataset, program, metric)
    if not texts:
        raise InvalidRunError(f"no right answer fits in the {program.decoding.longest} positions of the model.")
    rows = max(1, _MOST_TOKENS // program.decoding.longest)
    score = _TextScores(
        backend, score_graph(model.graphs[PREFILL], rows), job.plan.precision, rows, len(texts[-1].tokens)
    )
    total, count = 0.0, 0
    for start in range(0, len(texts), rows):
        note()
        for found in score(texts[start : start + rows]):
            total, count = total + float(found.sum(dtype=np.float64)), count + len(found)
    with np.errstate(over="ignore"):
        perplexity = float(np.exp(np.float64(-total / count)))
    if not math.isfinite(perplexity):
        raise InvalidRunError(f"the perplexity of {count} tokens is {perplexity}.")
    return perplexity


def _texts(dataset: Dataset, program: GenerationProgram, metric: TokenMetric) -> list[_Text]:
    """Return the texts of samples that have a right answer, cut to the model's positions, the shortest first."""
    size = min(dataset.count, MOST_TEXTS)
    indices = [number * dataset.count // size for number in range(size)]
    dataset.load(indices)
    try:
        prompts = {index: program.prompt(dataset.sample(index)).tokens for index in indices}
    finally:
        dataset.unload(indices)
    found = []
    for index, prompt in prompts.items():
        tokens = np.array([*prompt, *metric.answer_tokens(index)], np.int64)[: program.decoding.longest]
        if 0 < len(prompt) < len(tokens):
            found.append(_Text(tokens=tokens, begin=len(prompt)))
    return sorted(found, key=lambda text: len(text.tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """A prompt and its right answer."""

    tokens: np.ndarray
    begin: int
    """Place of the answer's first token."""


class _TextScores:
    """A graph that scores texts, compiled, with a cache for a call."""

    def __init__(self, backend: GraphBackend, graph: Graph, precision: Precision, rows: int, longest: int) -> None:
        self._call = stateful(backend.compile(graph, graph.precision(precision)), graph)
        self._state = self._call.new_state({SLOTS: rows, LENGTH: longest})

    def __call__(self, texts: Sequence[_Text]) -> Iterator[np.ndarray]:
        """Yield the log-probabilities of each answer's tokens; the last text is the longest."""
        rows, longest = len(texts), len(texts[-1].tokens)
        padded = np.zeros((rows, longest), np.int64)
        for row, text in zip(padded, texts, strict=True):
            row[: len(text.tokens)] = text.tokens
        inputs = {
            "input_ids": padded[:, :-1].copy(),
            "positions": np.zeros(rows, np.int64),
            "slots": np.arange(rows),
            "next_ids": padded[:, 1:].copy(),
            "columns": np.arange(longest),
        }
        found = host_array(self._call(inputs, self._state)["log_probabilities"])
        for row, text in zip(found, texts, strict=True):
            yield row[text.begin - 1 : len(text.tokens) - 1]
