"""The completion thread: only threads that outlive the test may report to LoadGen; otherwise the process crashes."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import Any

import numpy as np
from mlperf_loadgen import FirstTokenComplete, QuerySampleResponse, QuerySamplesComplete

from mlbench.contracts.engine import Samples
from mlbench.errors import describe_error
from mlbench.loadgen.lateness import LateCount
from mlbench.loadgen.ledger import Closed

logger = logging.getLogger(__name__)

_MOST_AT_A_TIME = 50_000

OnRefused = Callable[[Sequence[int], str], None]
"""Called with dataset indices and a reason when LoadGen refuses the replies to these samples."""


@dataclass(slots=True)
class _Answers:
    """Replies on their way to LoadGen; they keep the data alive until it has been read."""

    samples: Closed
    outputs: np.ndarray | list[np.ndarray]
    token_counts: list[int] | None

    def responses(self) -> list[Any]:
        """Return LoadGen's objects for them."""
        return _responses(self.samples, self.outputs, *([] if self.token_counts is None else [self.token_counts]))


@dataclass(slots=True)
class Unchecked:
    """A reply as the engine gave it, to be checked with others."""

    samples: Samples
    outputs: np.ndarray


@dataclass(slots=True)
class _FirstTokens:
    """First tokens on their way to LoadGen."""

    samples: Closed
    tokens: np.ndarray


@dataclass(slots=True)
class _GivenUp:
    """Samples that are over without data."""

    samples: Closed


_Job = _Answers | Unchecked | _FirstTokens | _GivenUp

Check = Callable[[Sequence[Unchecked]], None]
"""Called on the completion thread with gathered replies, in the order in which they were given."""


class Completer:
    """Passes replies to LoadGen: directly on threads that outlast the test, and through its own from all others.

    A thread that has reported a completion to LoadGen and ends during the test crashes the process; the lifetime of a
    plugin's threads is not under our control. Make it on the thread that starts the test: LoadGen issues from there.

    Replies that LoadGen refuses are completed without data, so that it is notified of every sample.
    """

    def __init__(
        self,
        on_refused: OnRefused,
        *,
        gather_s: float = 0.0,
        late: LateCount | None = None,
        lasting: Collection[int] = (),
    ) -> None:
        """Start with nothing to pass on.

        Args:
            on_refused: notes which replies LoadGen did not take.
            gather_s: how long replies may wait for others, all of which go to LoadGen in one call; 0: none waits.
                The last open ones do not wait. Each call switches the GIL between threads, which costs a fast engine
                more than everything else.
            late: told what LoadGen was given.
            lasting: other threads, by their number, that outlast the test. Waking this one for a reply of theirs would
                be a part of its latency. Where replies are gathered it is woken all the same.
        """
        self.issuer = threading.get_ident()
        self._reporting = {self.issuer, *(() if gather_s else lasting)}
        self._on_refused = on_refused
        self._gather_s = gather_s
        self._late = late
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="mlbench-completer", daemon=True)
        self._failure = ""
        self._is_over = threading.Event()
        self._no_more = threading.Event()
        self._is_all_here: Callable[[], bool] = bool
        self._output = np.empty(0)
        self._attach = self._attach_output
        self._check: Check | None = None

    def __enter__(self) -> Completer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._jobs.put(None)
        self._thread.join()

    @property
    def failure(self) -> str:
        """Reason why the completion thread has stopped; empty while it runs."""
        if not self._failure and self._thread.ident is not None and not self._thread.is_alive():
            return "its thread has ended"
        return self._failure

    def complete(
        self, samples: Closed, outputs: np.ndarray | list[np.ndarray], token_counts: list[int] | None = None
    ) -> None:
        """Give LoadGen these replies; of millions, a part at a time: LoadGen's objects for them are large."""
        if len(samples) > _MOST_AT_A_TIME:
            for start in range(0, len(samples), _MOST_AT_A_TIME):
                part = slice(start, start + _MOST_AT_A_TIME)
                closed = Closed(samples.ids[part], samples.indices[part])
                self.complete(closed, outputs[part], token_counts and token_counts[part])
            return
        answers = _Answers(samples, outputs, token_counts)
        if threading.get_ident() in self._reporting:
            self._complete([answers])
        else:
            self._put(answers)

    def gather(self, check: Check, is_all_here: Callable[[], bool]) -> Callable[[Unchecked], None] | None:
        """Return the function that takes replies to be checked together; None if replies are not gathered.

        A reply that is checked, closed and reported alone costs several times its share of a batch of a hundred.
        ``is_all_here`` says whether no further reply can come: then none waits for it.
        """
        self._check, self._is_all_here = check, is_all_here
        return self._put if self._gather_s else None

    def complete_one(self, sample_id: int, output: np.ndarray) -> None:
        """Give LoadGen the reply to one sample, by the fast path; only on the issuing thread.

        Finding the address of an array costs as much as everything else done for a sample, and LoadGen needs the data
        of few replies: it asks for them.
        """
        self._output = output
        try:
            QuerySamplesComplete([QuerySampleResponse(sample_id, 0, 0)], self._attach)
        except Exception:  # LoadGen's binding refuses it, and would wait for ever
            _give_up([sample_id])
            raise
        if self._late:
            self._late.complete((sample_id,))

    def first_token(self, samples: Closed, tokens: np.ndarray) -> None:
        """Give LoadGen the first token of each sample; they stay open."""
        self._do(_FirstTokens(samples, tokens))

    def give_up(self, samples: Closed) -> None:
        """Complete these samples in LoadGen without data."""
        self._do(_GivenUp(samples))

    def _attach_output(self, response: QuerySampleResponse) -> None:
        self._output = output = np.ascontiguousarray(self._output)
        response.data = output.ctypes.data
        response.size = output.nbytes

    def _do(self, job: _Job) -> None:
        if threading.get_ident() in self._reporting:
            self._pass_on([job])
        else:
            self._put(job)

    def _put(self, job: _Job) -> None:
        self._jobs.put(job)
        if self._gather_s and self._is_all_here():
            self._no_more.set()

    def _work(self) -> None:
        self._reporting.add(threading.get_ident())
        try:
            self._serve()
        except BaseException as error:  # the watchdog names it; ending this thread would crash the process
            logger.exception("the completion thread failed")
            self._failure = describe_error(error)
            self._is_over.wait()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._gather_s:
                self._pass_on([job])
                continue
            self._no_more.clear()  # before the queue is read: what comes later sets it again
            waiting = [job, *(self._jobs.get() for _ in range(self._jobs.qsize()))]
            self._pass_on([each for each in waiting if each is not None])
            if None in waiting:
                return
            if not self._is_all_here():
                self._no_more.wait(self._gather_s)

    def _pass_on(self, jobs: Sequence[_Job]) -> None:
        """Process jobs in order; consecutive answers go to LoadGen in one call."""
        for kind, group in groupby(jobs, type):
            together: list[Any] = list(group)
            if kind is _Answers:
                self._complete(together)
            elif kind is Unchecked:
                assert self._check
                self._check(together)
            else:
                for job in together:
                    if kind is _FirstTokens:
                        self._report_first(job)
                    else:
                        _give_up(job.samples.ids)

    def _complete(self, answers: Sequence[_Answers]) -> None:
        try:
            responses = answers[0].responses()
            for each in answers[1:]:
                responses += each.responses()
            QuerySamplesComplete(responses)
        except Exception as error:  # LoadGen's binding refuses all of a call, and would wait for ever
            logger.exception("LoadGen refused replies")
            for each in answers:
                self._on_refused(each.samples.indices, f"LoadGen refuses the reply: {describe_error(error)}")
                _give_up(each.samples.ids)
        if self._late:
            for each in answers:
                self._late.complete(each.samples.ids, each.token_counts)

    def _report_first(self, job: _FirstTokens) -> None:
        try:
            FirstTokenComplete(_responses(job.samples, job.tokens))
            if self._late:
                self._late.first_token(job.samples.ids)
        except Exception as error:  # the answer is still to come
            logger.exception("LoadGen refused first tokens")
            self._on_refused(job.samples.indices, f"LoadGen refuses the first token: {describe_error(error)}")


def _give_up(ids: Sequence[int]) -> None:
    QuerySamplesComplete(list(map(QuerySampleResponse, ids, repeat(0), repeat(0))))


def _responses(samples: Closed, outputs: np.ndarray | list[np.ndarray], *more: Any) -> list[Any]:
    """Return LoadGen's response objects. They hold raw addresses: the outputs must live until LoadGen has read them."""
    if isinstance(outputs, np.ndarray):
        first, size = outputs.ctypes.data, outputs.nbytes // len(outputs)
        addresses: Any = range(first, first + len(outputs) * size, size) if size else repeat(first)
        return list(map(QuerySampleResponse, samples.ids, addresses, repeat(size), *more))
    addresses = [output.ctypes.data for output in outputs]
    sizes = [output.nbytes for output in outputs]
    return list(map(QuerySampleResponse, samples.ids, addresses, sizes, *more))
