"""A reply that records answers, and small scenarios without LoadGen to fill it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np

from mlbench.conformance.known_answers import LARGEST_BATCH, MOST_ROWS, TokenLists
from mlbench.conformance.subject import BATCH, Subject
from mlbench.contracts.backend import Batching
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Reply, Samples
from mlbench.contracts.model import BatchProgram
from mlbench.contracts.refusing import refusing
from mlbench.errors import describe_error, one_line

FIRST_ID = 1000
"""Sample ids start here, so that an engine that mixes up ids and dataset indices is found out."""

_INDICES = tuple(number * 5 % 12 for number in range(27))
"""Each dataset sample twice or three times, in a jumbled order; 27 fills no batch of 4 or 8."""


class RecordingReply(Reply):
    """Records all that an engine answers, by sample id, without judging it.

    It raises as little as the reply of a run.
    """

    def __init__(self, on_answer: Callable[[], None] = lambda: None) -> None:
        """Begin without answers; ``on_answer`` is called at each of the engine's calls that brings some."""
        self._changed = threading.Condition()
        self._is_closed = False
        self._on_answer = on_answer
        self.answers: dict[int, list[Any]] = {}
        self.first_tokens: dict[int, int] = {}
        self.first_reports: dict[int, list[Any]] = {}
        """What was reported as the first token of each sample, however often, before its answer or after."""
        self.first_at_ns: dict[int, int] = {}
        """When a first token was reported, by the monotonic clock; likewise the next."""
        self.answered_at_ns: dict[int, int] = {}
        self.token_counts: dict[int, Any] = {}
        self.failures: dict[int, list[str]] = {}
        self.late_ids: list[int] = []
        """Ids of samples that were answered or given up after `close`."""
        self.refused: list[str] = []
        """Errors of calls whose samples are unknown."""
        self.invalidated: list[str] = []
        """Reason why the engine made the run invalid."""

    @refusing
    def complete(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None = None
    ) -> None:
        """Keep copies of the outputs."""
        at_ns = time.monotonic_ns()
        given = outputs if type(outputs) is list else islice(iter(outputs), len(samples) + 1)  # one may never end
        kept = [np.array(each) if isinstance(each, np.ndarray | np.generic) else each for each in given]
        if len(kept) != len(samples):
            self._reject(samples, f"complete() got {len(kept)} outputs for {len(samples)} samples")
            return
        counts = list(islice(iter(token_counts), len(samples))) if token_counts is not None else []
        with self._changed:
            for id_, output in zip(samples.ids, kept, strict=True):
                self.answers.setdefault(id_, []).append(output)
                self.answered_at_ns.setdefault(id_, at_ns)
            self.token_counts.update(zip(samples.ids, counts, strict=False))
            self._note(samples)
        self._on_answer()

    @refusing
    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Keep what was reported before the answer; after it, it is none."""
        at_ns = time.monotonic_ns()
        found = list(zip(samples.ids, np.ravel(tokens).tolist(), strict=False))
        with self._changed:
            for id_, token in found:
                self.first_reports.setdefault(id_, []).append(token)
                self.first_at_ns.setdefault(id_, at_ns)
            self.first_tokens.update({id_: token for id_, token in found if id_ not in self.answers})
        self._on_answer()

    @refusing
    def fail(self, samples: Samples, reason: str) -> None:
        """Keep the reason."""
        self._give_up(samples, one_line(reason))

    def invalidate(self, reason: str) -> None:
        """Keep the reason."""
        with self._changed:
            self.invalidated.append(one_line(reason))

    def refuse(self, method: str, samples: Samples, error: BaseException) -> None:
        """Keep that a call failed."""
        self._reject(samples, f"{method}() raised {describe_error(error)}")

    def _reject(self, samples: Samples, reason: str) -> None:
        try:
            self._give_up(samples, reason)
        except BaseException:  # these are not samples
            with self._changed:
                self.refused.append(reason)
                self._changed.notify_all()

    def _give_up(self, samples: Samples, reason: str) -> None:
        with self._changed:
            for id_ in samples.ids:
                self.failures.setdefault(id_, []).append(reason)
            self._note(samples)

    def still_open(self, samples: Samples) -> Samples:
        """Return those of these samples that were neither answered nor given up."""
        with self._changed:
            done = self.answers.keys() | self.failures.keys()
        return samples.at([place for place, id_ in enumerate(samples.ids) if id_ not in done])

    @property
    def is_silent(self) -> bool:
        """Return whether no sample was answered or given up so far."""
        with self._changed:
            return not (self.answers or self.failures or self.refused)

    def wait(self, samples: Samples, patience_s: float) -> bool:
        """Wait until all of these are answered or given up.

        False when no answer at all came for ``patience_s``, or one came to samples that were never sent: those it was
        meant for stay open.
        """
        wanted = set(samples.ids)
        with self._changed:
            while not wanted <= self.answers.keys() | self.failures.keys():
                if self.refused or not self._changed.wait(patience_s):
                    return False
        return True

    def close(self) -> None:
        """From now on every answer is late."""
        with self._changed:
            self._is_closed = True

    def wait_for_late(self, seconds: float) -> None:
        """Give an engine time to answer when it should not; return at once if it does."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self.late_ids), seconds)

    def _note(self, samples: Samples) -> None:
        if self._is_closed:
            self.late_ids.extend(samples.ids)
        self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """How samples arrive."""

    name: str
    batching: Batching
    query: int
    """Samples per query."""
    awaits: bool
    """Whether a query is sent only when the one before is answered."""
    pause_s: float = 0.0
    """Between two queries."""
    batch: int | Literal["auto"] = BATCH
    """Samples per batch; ``auto``: a query is a batch."""


ONE_AT_A_TIME = Pattern(name="one at a time", batching="inline", query=1, awaits=True, batch="auto")
EIGHT_AT_A_TIME = Pattern(name="eight at a time", batching="inline", query=LARGEST_BATCH, awaits=True, batch="auto")
TRICKLE = Pattern(name="a trickle", batching="dynamic", query=1, awaits=False, pause_s=0.001)
ALL_AT_ONCE = Pattern(name="all at once", batching="bucketed", query=len(_INDICES), awaits=False)
FIXED_BATCHES = Pattern(name="fixed batches", batching="fixed", query=len(_INDICES), awaits=False)

ALL_IN_ONE = Pattern(name="all in one batch", batching="inline", query=MOST_ROWS, awaits=True, batch="auto")

PATTERNS = (ONE_AT_A_TIME, EIGHT_AT_A_TIME, TRICKLE, ALL_AT_ONCE, FIXED_BATCHES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The samples sent to an engine, and its answers."""

    pattern: str
    samples: Samples
    reply: RecordingReply = field(default_factory=RecordingReply)


def send(
    subject: Subject,
    pattern: Pattern,
    *,
    indices: Sequence[int] = _INDICES,
    program: BatchProgram | None = None,
    dataset: TokenLists | None = None,
) -> Sent:
    """Start an engine, send it samples in a pattern, wait for the answers, and stop it."""
    reply = RecordingReply()
    made = subject.engine(pattern.batching, batch=pattern.batch, program=program, dataset=dataset)
    with made as (engine, given):
        samples = make_samples(indices, given)
        sent = 0
        while sent < len(samples):
            query = samples[sent : sent + pattern.query]
            submit(engine, query, reply)
            sent += len(query)
            if pattern.awaits and not reply.wait(query, subject.patience_s):
                break
            reply.wait_for_late(pattern.pause_s)
        engine.flush()
        reply.wait(samples[:sent], subject.patience_s)
    return Sent(pattern=pattern.name, samples=samples[:sent], reply=reply)


def make_samples(indices: Sequence[int], dataset: Dataset) -> Samples:
    """Return samples with these dataset indices, and ids that are none."""
    return Samples(tuple(range(FIRST_ID, FIRST_ID + len(indices))), tuple(indices), dataset)


def submit(engine: Engine, samples: Samples, reply: RecordingReply) -> None:
    """Submit as a run does: what the engine gets is its own, and an exception gives up what it leaves unanswered."""
    submit_as_given(engine, Samples(samples.ids, samples.indices, samples.dataset), reply)


def answer_all(subject: Subject, engine: Engine, samples: Samples, reply: RecordingReply) -> None:
    """Submit samples as the last ones, and wait for their answers."""
    submit(engine, samples, reply)
    engine.flush()
    reply.wait(samples, subject.patience_s)


def submit_as_given(engine: Engine, given: Samples, reply: RecordingReply) -> None:
    """Submit these very samples."""
    samples = Samples(given.ids, given.indices, given.dataset)
    try:
        engine.submit(given, reply)
    except BaseException as error:  # an engine may call sys.exit
        reply.fail(reply.still_open(samples), f"submit raised {describe_error(error)}")
