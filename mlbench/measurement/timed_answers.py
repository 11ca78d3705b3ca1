"""Scores answers to new content that was timed, against the fp32 model, in a process without the backend.

The content was made of known samples, by a change that no plugin can foresee; what is right is what the model's own
torch modules say to it. A memory of known answers may be fast on such content, and is wrong. An engine must do what
it shows on known samples: one that is as far from the model there has an accuracy test to answer for that.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mlbench.contracts.backend import EnginePlan, GraphBackend, Probe
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.graph import Executable, Graph
from mlbench.contracts.metric import LoggedReply
from mlbench.contracts.model import Model
from mlbench.contracts.precision import Precision
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import graph_engine
from mlbench.execution.processes.channel import Channel
from mlbench.execution.variations import Change, Variation, VariedDataset
from mlbench.loadgen.logs import read_accuracy
from mlbench.loadgen.settings import Mode
from mlbench.measurement.asking import ask
from mlbench.measurement.evidence import JudgeRequest, TimedAnswer
from mlbench.measurement.judge import job_without_backend
from mlbench.measurement.spot_contents import ROUNDING, distance
from mlbench.measurement.token_answers import LOG
from mlbench.rules.answers import LEAST_KNOWN
from mlbench.rules.facts import TimedAnswers
from mlbench.toolkit.torch_backend.backend import TorchBackend

logger = logging.getLogger(__name__)

STAGE = "reference"
_ENOUGH, _ENOUGH_S, _LONGEST_S = 6, 1.5, 10.0
"""No other sample is computed after so many that tell, after the first time where there are enough to judge by, or
after the second."""
_AT_A_TIME = 4
"""Prompts; other programs compute sample by sample."""
_PATIENCE_S = 120.0
_NEAR = 0.5
"""An answer is right if its distance from the model's is at most this share of how far the change moved the model's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """One answer to new content beside the answer to the known sample that it was made of."""

    is_right: bool
    is_known_right: bool


def score_timed(request: JudgeRequest, channel: Channel) -> TimedAnswers:
    """Return how many timed answers are right. Called in a fresh process.

    Raises:
        MlbenchError: the model cannot be computed here.
    """
    channel.progress(STAGE)
    job = job_without_backend(request.spec, Plugins.discover(without=request.without))
    model, dataset = job.model(), job.workload.dataset(job.variant)
    kept = {reply.index: reply for reply in read_accuracy(job.folder / Mode.PERFORMANCE / LOG)}
    timed = [each for each in request.measured.evidence.timed if each.base in kept]
    random.SystemRandom().shuffle(timed)
    program = model.program
    if isinstance(program, GenerationProgram) and program.decoding.beams == 1:
        compared = [found for each in timed if (found := _continued(each, kept[each.base], program))]
    elif not model.graphs:
        return TimedAnswers(reason="the model has no graphs that could be computed for comparison")
    else:
        note = partial(channel.progress, STAGE)
        compared = list(compare_timed(timed, kept, model, dataset, note))
    return TimedAnswers(
        checked=len(compared),
        right=sum(each.is_right for each in compared),
        known_right=sum(each.is_known_right for each in compared),
        reason="" if compared else "the changed samples have the answers of those that they were made of",
    )


def _continued(timed: TimedAnswer, known: LoggedReply, program: GenerationProgram) -> _Compared | None:
    """Return whether an answer begins as the rest of the known one; None where no answer is known."""
    dtype = np.dtype(program.reply.dtype).newbyteorder("<")
    found, tokens = np.frombuffer(bytes.fromhex(timed.data), dtype), np.frombuffer(known.data, dtype)
    given = len(timed.continuation)
    if timed.change != Change.NONE or given >= tokens.size:
        return None
    return _Compared(is_right=bool(found.size and found[0] == tokens[given]), is_known_right=True)


def compare_timed(
    timed: Sequence[TimedAnswer],
    kept: Mapping[int, LoggedReply],
    model: Model,
    dataset: Dataset,
    note: Callable[[], None],
) -> Iterator[_Compared]:
    """Yield what is found of each answer for which the model's own tells new content from known."""
    dtype = np.dtype(model.program.reply.dtype).newbyteorder("<")
    plan = EnginePlan(precision=Precision.FP32, batching="inline", batch=1)
    if isinstance(model.program, GenerationProgram):
        plan = EnginePlan(precision=Precision.FP32, batch=_AT_A_TIME)
    bases = sorted({each.base for each in timed})
    dataset.load(bases)
    told, known_right = 0, 0
    size = _AT_A_TIME if isinstance(model.program, GenerationProgram) else 1
    with graph_engine(_OwnReference(model.reference) if model.reference else _Reference(), model, plan) as engine:
        if isinstance(model.program, GenerationProgram):
            engine.warm_up(Samples([0], bases[:1], dataset))
        started_s = time.monotonic()
        for start in range(0, len(timed), size):
            note()
            part = timed[start : start + size]
            wanted = _answers(engine, dataset, [_variation_of(each) for each in part])
            known = _answers(engine, dataset, [Variation(base=each.base) for each in part])
            for each, new, old in zip(part, wanted, known, strict=True):
                moved = distance(new, old)
                if moved <= ROUNDING:
                    continue  # the right answer is the known one: a memory has it
                told += 1
                found, was = (np.frombuffer(data, dtype) for data in (bytes.fromhex(each.data), kept[each.base].data))
                is_known_right = _is_near(was, old, moved)
                known_right += is_known_right
                is_right = _is_near(found, new, moved) and distance(found, new) < distance(found, was)
                yield _Compared(is_right=is_right, is_known_right=is_known_right)
            limit_s = _ENOUGH_S if known_right >= LEAST_KNOWN else _LONGEST_S
            if told >= _ENOUGH or time.monotonic() - started_s > limit_s:
                return


def _is_near(found: np.ndarray, wanted: np.ndarray, moved: float) -> bool:
    """Return whether an answer is the model's, as far as a precision may move it: a label is that label."""
    if wanted.size == 1 and float(wanted[0]).is_integer():
        return bool(np.array_equal(found, wanted))
    return distance(found, wanted) <= _NEAR * moved


def _variation_of(timed: TimedAnswer) -> Variation:
    continuation = tuple(timed.continuation)
    return Variation(base=timed.base, change=Change(timed.change), seed=timed.seed, continuation=continuation)


def _answers(engine: Engine, dataset: Dataset, variations: Sequence[Variation]) -> list[np.ndarray]:
    first = dataset.count
    varied = VariedDataset(dataset, dict(enumerate(variations, first)))
    outputs = ask(engine, varied, list(range(first, first + len(variations))), timeout_s=_PATIENCE_S).outputs
    return [np.zeros(0) if each is None else each.ravel() for each in outputs]


class _Reference(TorchBackend):
    """The model's modules as they are, in fp32."""

    name = "reference"

    def probe(self) -> Probe:
        """Say that it runs where torch does."""
        return Probe(is_available=True)


class _OwnReference(GraphBackend):
    """The model's own way to be computed for comparison."""

    name = "reference"

    def __init__(self, make: Callable[[Graph], Executable]) -> None:
        self._make = make

    def probe(self) -> Probe:
        """Say that it runs, which the model knows."""
        return Probe(is_available=True)

    def compile(self, graph: Graph, precision: Precision) -> Executable:
        """Return the function that the model makes."""
        return self._make(graph)
