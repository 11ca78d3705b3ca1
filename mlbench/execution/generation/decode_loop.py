"""The loop: start requests, read prompts, decode a token for all that run, answer those that have ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mlbench.contracts.generation import GenerationProgram
from mlbench.errors import describe_error
from mlbench.execution.generation.admission import Admission, Piece, read_together
from mlbench.execution.generation.beam_search import BeamSearch
from mlbench.execution.generation.cache import Cache, Choices
from mlbench.execution.generation.counts import GenerationCounts
from mlbench.execution.generation.greedy import Greedy
from mlbench.execution.generation.requests import Request, complete, fail, report_first
from mlbench.execution.generation.search import Search
from mlbench.execution.generation.slots import Slots, step_up

logger = logging.getLogger(__name__)


class DecodeLoop:
    """Sequences in flight over one cache. One thread calls it.

    What goes wrong in a call of the backend fails the requests that were in it, and no others; a request leaves its
    slot before it is answered, so that nothing can be answered twice.
    """

    def __init__(
        self, cache: Cache, program: GenerationProgram, admission: Admission, *, slots: int, prefill_tokens: int
    ) -> None:
        """Store the parts.

        Args:
            cache: grows when requests start.
            program: what is asked, and the form of answers.
            admission: where requests wait.
            slots: sequences at a time.
            prefill_tokens: the most that a prefill call reads, padding included.
        """
        decoding = self._decoding = program.decoding
        self._cache = cache
        self._program = program
        self._prefill_tokens = prefill_tokens
        self._search: Search = BeamSearch(decoding, slots) if decoding.beams > 1 else Greedy(decoding, slots)
        self.admission = admission
        self.slots = Slots(slots, decoding.beams)
        self.counts = GenerationCounts()
        self._stepping = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a sequence is in flight; otherwise requests can only be waiting for others."""
        return self.slots.taken > 0

    def step(self) -> None:
        """Start waiting requests, then make at most one prefill call and one decode call."""
        with self._stepping:
            began_ns, calls_ns = time.perf_counter_ns(), self.counts.calls_ns
            self._start(began_ns)
            if self.slots.filling:
                self._read()
            if len(self.slots.running):
                self._decode()
            if not len(self.admission):
                self._close_ranks()
            self.counts.host_ns += time.perf_counter_ns() - began_ns - (self.counts.calls_ns - calls_ns)
            if len(self.admission):
                self.counts.note_waiting()

    def take_counts(self) -> GenerationCounts:
        """Return the counts between two steps, and reset them. Thread-safe."""
        with self._stepping:
            counts, self.counts = self.counts, GenerationCounts()
        return counts

    def fail_all(self, reason: str) -> None:
        """Fail all requests that are in flight or waiting."""
        self._give_up(self.slots.list_held(), reason)
        self._fail(self.admission.clear(), reason)

    def _start(self, now_ns: int) -> None:
        slots, cache = self.slots, self._cache
        for _ in range(self.admission.starting(free=slots.free, running=slots.taken, now_ns=now_ns)):
            request = self.admission.next()
            rows = self._sequences(slots.next_free()) * slots.beams
            if reason := cache.reserve(rows, len(request) + self._decoding.max_new_tokens):
                if rows > cache.rows and slots.taken:  # the next to end leaves room
                    slots.limit = cache.rows // slots.beams
                    self.admission.put_back(request)
                    return
                self._fail([request], reason)
                continue
            slots.take(request)
            request.started_ns = now_ns

    def _read(self) -> None:
        """Read a piece of one prompt, or of several of similar length."""
        beams, slots = self.slots.beams, self.slots
        pieces = read_together(
            [self._next_piece(slot) for slot in slots.filling],
            self.admission.costs,
            most_rows=self._cache.limits.pieces,
            most_tokens=self._prefill_tokens,
            length=self._cache.length,
        )
        pieces = self._settle(pieces)
        lengths = np.array([piece.length for piece in pieces])
        rows = np.array([piece.slot * beams for piece in pieces])
        input_ids = np.zeros((len(pieces), lengths.max()), np.int64)
        for row, piece in enumerate(pieces):
            tokens = slots.request(piece.slot).prompt.tokens
            input_ids[row, : piece.length] = tokens[piece.start : piece.start + piece.length]
        ask = partial(self._cache.prefill, input_ids, slots.positions[rows], rows, lengths - 1)
        if (choices := self._ask("prefill", ask, [piece.slot for piece in pieces])) is None:
            return
        slots.positions[rows] += lengths
        self.counts.prefill.note(int(lengths.sum()), input_ids.size, choices.lasted_ns)
        is_whole = [
            slots.positions[row] == len(slots.request(piece.slot)) for row, piece in zip(rows, pieces, strict=True)
        ]
        whole = [piece.slot for piece, is_read in zip(pieces, is_whole, strict=True) if is_read]
        if whole:
            self._begin(whole, _only(choices, np.flatnonzero(is_whole)))

    def _settle(self, pieces: list[Piece]) -> list[Piece]:
        """Move requests whose first piece is read now below those that still wait."""
        new = [piece.slot for piece in pieces if not piece.start]
        moved = dict(zip(new, self.slots.settle(new), strict=True))
        return [replace(piece, slot=moved.get(piece.slot, piece.slot)) for piece in pieces]

    def _begin(self, whole: list[int], choices: Choices) -> None:
        """Start decoding sequences whose prompts are read, given a row of choices for each."""
        slots = self.slots
        kept = np.flatnonzero(~np.isnan(choices.log_probabilities[:, 0]))
        if len(kept) < len(whole):
            lost = set(range(len(whole))) - set(kept.tolist())
            self._give_up([whole[place] for place in lost], "NaN in log_probabilities")
            whole, choices = [whole[place] for place in kept], _only(choices, kept)
            if not whole:
                return
        for slot in whole:
            slots.positions[slot * slots.beams : (slot + 1) * slots.beams] = len(slots.request(slot))
        ended = self._search.start(whole, [slots.request(slot).prompt for slot in whole], choices)
        slots.run(whole)
        if (tokens := self._search.first_tokens(whole)) is not None:
            requests = [slots.request(slot) for slot in whole]
            report_first(requests, tokens.astype(self._program.reply.dtype))
        self._finish(ended)
        self._copy()

    def _decode(self) -> None:
        """Decode a token for each sequence that runs."""
        slots = self.slots
        running, beams = slots.running, slots.beams
        rows = self._sequences(int(running[-1])) * beams
        ask = partial(self._cache.decode, self._search.input_ids[:rows], slots.positions[:rows])
        if (choices := self._ask("decode", ask, running.tolist())) is None:
            return
        self.counts.decode.note(len(running) * beams, rows, choices.lasted_ns)
        self.counts.steps_by_size[len(running)] = self.counts.steps_by_size.get(len(running), 0) + 1
        if (is_nan := np.isnan(choices.log_probabilities[:, 0])).any():
            is_lost = is_nan.reshape(-1, beams)[running].any(axis=1)
            self._give_up(running[is_lost].tolist(), "NaN in log_probabilities")
            running = slots.running
        slots.positions.reshape(-1, beams)[running] += 1
        ended = self._search.advance(running, choices)
        if ended:
            self._finish(ended)
        self._copy()

    def _ask(self, name: str, ask: Callable[[], Choices], held: list[int]) -> Choices | None:
        """Return the choices of a backend's call; if it fails, these slots do: the run goes on, and is INVALID."""
        try:
            return ask()
        except Exception as error:  # a backend's code
            logger.exception("a %s call failed", name)
            self._give_up(held, describe_error(error))
            return None

    def _finish(self, ended: list[int]) -> None:
        """Answer the requests of these slots, and free them."""
        answers = [self._search.answer(slot) for slot in ended]
        requests = self.slots.release(ended)
        done: list[Request] = []
        outputs: list[np.ndarray] = []
        now_ns = time.perf_counter_ns()
        for request, tokens in zip(requests, answers, strict=True):
            try:
                outputs.append(self._program.answer(tokens))
            except Exception as error:  # a workload's code
                logger.exception("an answer could not be made")
                self._fail([request], describe_error(error))
                continue
            done.append(request)
            self.admission.note_answer(len(tokens))
            self._count_answer(request, len(tokens), now_ns)
        complete(done, outputs)

    def _copy(self) -> None:
        if copies := self._search.copies():
            self._copy_rows(copies.sources, copies.targets, copies.columns)

    def _close_ranks(self) -> None:
        """Move sequences into free slots where that makes steps smaller."""
        slots, beams = self.slots, self.slots.beams
        for source, target in slots.moves():
            columns = range(int(slots.positions[source * beams]))
            rows = [list(range(slot * beams, (slot + 1) * beams)) for slot in (source, target)]
            if not self._copy_rows(rows[0], rows[1], columns):
                return
            self._search.move(source, target)
            slots.move(source, target)

    def _copy_rows(self, sources: list[int], targets: list[int], columns: range) -> bool:
        """Copy rows of the cache; if that fails, all running requests fail."""
        try:
            self._cache.copy_rows(sources, targets, columns)
        except Exception as error:  # a backend's code; the run goes on, and is INVALID
            logger.exception("rows could not be copied")
            self._give_up(self.slots.running.tolist(), describe_error(error))
            return False
        self.counts.copied_rows += len(sources)
        return True

    def _give_up(self, held: list[int], reason: str) -> None:
        self._fail(self.slots.release(held), reason)

    def _fail(self, requests: Sequence[Request], reason: str) -> None:
        self.counts.failed += len(requests)
        fail(requests, reason)

    def _next_piece(self, slot: int) -> Piece:
        start = int(self.slots.positions[slot * self.slots.beams])
        return Piece(slot, start, min(len(self.slots.request(slot)) - start, self._prefill_tokens))

    def _sequences(self, highest: int) -> int:
        """Return how many slots a step over slots up to this one computes."""
        return min(step_up(highest + 1), len(self.slots.requests))

    def _count_answer(self, request: Request, tokens: int, now_ns: int) -> None:
        counts, queue_ns = self.counts, request.started_ns - request.arrived_ns
        counts.answered += 1
        counts.new_tokens += tokens
        counts.queue_ns += queue_ns
        counts.longest_queue_ns = max(counts.longest_queue_ns, queue_ns)
        counts.compute_ns += now_ns - request.started_ns


def _only(choices: Choices, rows: np.ndarray) -> Choices:
    return Choices(choices.tokens[rows], choices.log_probabilities[rows], choices.lasted_ns)
