"""The hand that tells LoadGen: only threads that outlive the test may, or LoadGen brings the process down."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from mlperf_loadgen import FirstTokenComplete, QuerySampleResponse, QuerySamplesComplete

from mlbench.contracts.engine import Samples


@dataclass(frozen=True, slots=True)
class _Answers:
    """Replies on their way to LoadGen; they keep the data alive until it has been read."""

    samples: Samples
    outputs: np.ndarray | list[np.ndarray]
    token_counts: list[int] | None

    def responses(self) -> list[Any]:
        """Return LoadGen's objects for them."""
        return _responses(self.samples, self.outputs, *([] if self.token_counts is None else [self.token_counts]))


_Job = _Answers | Callable[[], None]


class Completer:
    """Passes replies to LoadGen: at once on the thread that issues, through one thread of its own from anywhere else.

    A thread that has told LoadGen of a completion and ends while the test runs crashes the process; a plugin's threads
    are not ours to keep alive. Make it on the thread that starts the test: LoadGen issues from there.
    """

    def __init__(self, *, gather_s: float = 0.0) -> None:
        """Start with nothing to pass on.

        Args:
            gather_s: how long replies may wait for others, all of which go to LoadGen in one call; 0: none waits.
                Python's lock changes hands for each call, which costs a fast engine more than all else.
        """
        self.issuer = threading.get_ident()
        self._gather_s = gather_s
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="mlbench-completer", daemon=True)
        self._output = np.empty(0)
        self._attach = self._attach_output

    def __enter__(self) -> Completer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._jobs.put(None)
        self._thread.join()

    def complete(
        self, samples: Samples, outputs: np.ndarray | list[np.ndarray], token_counts: list[int] | None = None
    ) -> None:
        """Give LoadGen these replies."""
        answers = _Answers(samples, outputs, token_counts)
        if threading.get_ident() != self.issuer:
            self._jobs.put(answers)
        else:
            QuerySamplesComplete(answers.responses())

    def complete_one(self, sample_id: int, output: np.ndarray) -> None:
        """Give LoadGen the reply to one sample, in the shortest way; only on the thread that issues.

        Finding the address of an array costs as much as all else that is done for a sample, and LoadGen wants the data
        of few replies: it asks for them.
        """
        self._output = output
        QuerySamplesComplete([QuerySampleResponse(sample_id, 0, 0)], self._attach)

    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Give LoadGen the first token of each sample."""
        self._do(lambda: FirstTokenComplete(_responses(samples, tokens)))

    def give_up(self, samples: Samples) -> None:
        """Tell LoadGen that these samples are over, without data."""
        self._do(lambda: QuerySamplesComplete(list(map(QuerySampleResponse, samples.ids, repeat(0), repeat(0)))))

    def _attach_output(self, response: QuerySampleResponse) -> None:
        response.data = self._output.ctypes.data
        response.size = self._output.nbytes

    def _do(self, job: Callable[[], None]) -> None:
        if threading.get_ident() == self.issuer:
            job()
        else:
            self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._gather_s:
                _pass_on([job])
                continue
            waiting = [job, *(self._jobs.get() for _ in range(self._jobs.qsize()))]
            _pass_on([each for each in waiting if each is not None])
            if None in waiting:
                return
            time.sleep(self._gather_s)


def _pass_on(jobs: Sequence[_Job]) -> None:
    """Do jobs in their order; answers that follow each other go to LoadGen in one call."""
    responses: list[Any] = []
    for job in jobs:
        if isinstance(job, _Answers):
            responses += job.responses()
            continue
        if responses:
            QuerySamplesComplete(responses)
            responses = []
        job()
    if responses:
        QuerySamplesComplete(responses)


def _responses(samples: Samples, outputs: np.ndarray | list[np.ndarray], *more: Any) -> list[Any]:
    """Return LoadGen's response objects. They hold raw addresses: the outputs must live until LoadGen has read them."""
    if isinstance(outputs, np.ndarray):
        first, size = outputs.ctypes.data, outputs.nbytes // len(outputs)
        addresses: Any = range(first, first + len(outputs) * size, size) if size else repeat(first)
        return list(map(QuerySampleResponse, samples.ids, addresses, repeat(size), *more))
    addresses = [output.ctypes.data for output in outputs]
    sizes = [output.nbytes for output in outputs]
    return list(map(QuerySampleResponse, samples.ids, addresses, sizes, *more))
