"""The default generation engine of graph backends: sequences in flight, on one thread."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from mlbench.contracts.backend import EnginePlan, GraphBackend
from mlbench.contracts.engine import Capacity, Engine, GraphCalls, Reply, Samples
from mlbench.contracts.generation import GenerationProgram, Prompt
from mlbench.contracts.model import Model
from mlbench.contracts.statistics import CacheCounts, GenerationStatistics
from mlbench.errors import UsageError, describe_error
from mlbench.execution.call_counts import merge_counts
from mlbench.execution.generation.admission import Admission
from mlbench.execution.generation.cache import Cache
from mlbench.execution.generation.counts import GenerationCounts
from mlbench.execution.generation.decode_loop import DecodeLoop
from mlbench.execution.generation.requests import Request
from mlbench.execution.generation.warm_up import Prepared, default_slots, prepare_slots
from mlbench.execution.replay import take_computed_calls

logger = logging.getLogger(__name__)

BATCHING = ("in_flight", "static", "inline", "fixed", "bucketed", "dynamic")
"""The values of `EnginePlan.batching`; those of batch programs mean ``in_flight`` here."""


@dataclass(frozen=True, slots=True)
class _Query:
    samples: Samples
    reply: Reply
    arrived_ns: int


class _Flush:
    pass


class GenerationEngine(Engine):
    """Answers many prompts at a time. One thread makes all calls of the backend, including compilation."""

    def __init__(self, backend: GraphBackend, model: Model, plan: EnginePlan) -> None:
        if plan.batching not in BATCHING:
            raise UsageError(f"execution.batching is {plan.batching!r}.", hint=f"Choose from {', '.join(BATCHING)}.")
        for name in ("batch", "largest_batch", "prefill_tokens"):
            if (number := getattr(plan, name)) != "auto" and number < 1:
                raise UsageError(f"execution.{name} is {number}.", hint="Must be at least 1.")
        if plan.workers != 1:
            raise UsageError(f"execution.workers is {plan.workers}.", hint="Generation has 1 worker.")
        assert isinstance(model.program, GenerationProgram)
        # an instance has a part of the cores; by default a runtime may take all of them
        self._backend = backend.for_workers(1) if plan.instances != 1 else backend
        self._model = model
        self._program = model.program
        self._plan = plan
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mlbench-generation")
        self._inbox: queue.Queue[_Query | _Flush | None] = queue.Queue()
        self._cache: Cache | None = None
        self._prepared: Prepared | None = None
        self._flight: DecodeLoop | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        """Compile the graphs."""
        longest = self._program.decoding.longest
        self._cache = self._thread.submit(Cache, self._backend, self._model, self._plan.precision, longest).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the thread finish its step and stop."""
        self._is_closed = True
        self._inbox.put(None)
        self._thread.shutdown()
        self._flight = self._cache = None

    def warm_up(self, samples: Samples) -> None:
        """Choose the number of slots if the plan leaves it open, take memory for them, and time calls."""
        lengths = [max(1, len(self._program.prompt(sample).tokens)) for sample in samples.data()]
        self._prepared = self._thread.submit(
            prepare_slots, self._open_cache(), self._program.decoding, self._plan, lengths
        ).result()

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Queue a query for the thread."""
        if self._flight is None:
            self._flight = self._new_flight()
            self._thread.submit(self._serve, self._flight)
        self._inbox.put(_Query(samples, reply, time.perf_counter_ns()))

    def flush(self) -> None:
        """Flush partial batches."""
        self._inbox.put(_Flush())

    def capacity(self) -> Capacity | None:
        """Return a sample for each slot, and more, so that several can start together when slots become free."""
        if self._prepared is None:
            return None
        slots = self._prepared.slots
        return Capacity(batch=1, in_flight=slots + slots // 2 + 1)

    def statistics(self) -> GenerationStatistics:
        """Return sizes of steps, useful and computed tokens, waiting and computing."""
        flight, cache, was = self._flight, self._cache, self._prepared
        sweep = was.sweep if was else None
        counts = flight.take_counts() if flight else GenerationCounts()
        return replace(
            counts.statistics(),
            batching="static" if self._plan.batching == "static" else "in_flight",
            batch=was.slots if was else None if self._plan.batch == "auto" else self._plan.batch,
            workers=1,
            beams=self._program.decoding.beams,
            prefill_tokens=self._plan.prefill_tokens,
            cache=CacheCounts(rows=cache.rows, columns=cache.length, growths=cache.growths) if cache else None,
            sweep_tokens_per_s={size: round(rate, 1) for size, rate in sweep.rates.items()} if sweep else {},
            sweep_rounds=sweep.rounds if sweep else None,
            computed_calls=take_computed_calls(cache.replayed) if cache and cache.replayed else None,
        )

    def calls(self) -> Sequence[GraphCalls]:
        """Return the calls of both graphs."""
        return merge_counts(self._cache.counts.values()) if self._cache else ()

    def replay_graphs(self) -> str:
        """Make prefill and decode calls free; answers are as long on average as those before."""
        mean_answer = self._flight.admission.mean_answer if self._flight else 0
        if not mean_answer:
            return "the engine has not answered anything yet"
        self._open_cache().replay(self._program.decoding, mean_answer)
        return ""

    def _open_cache(self) -> Cache:
        if self._cache is None:
            raise RuntimeError("the engine is used outside its with block")
        return self._cache

    def _new_flight(self) -> DecodeLoop:
        cache, plan = self._open_cache(), self._plan
        self._prepared = self._prepared or default_slots(cache, self._program.decoding, plan)
        admission = Admission(
            slots=self._prepared.slots, max_wait_us=plan.max_wait_us, is_static=plan.batching == "static"
        )
        admission.costs = self._prepared.costs
        most = min(plan.prefill_tokens, cache.limits.piece_tokens)
        return DecodeLoop(cache, self._program, admission, slots=self._prepared.slots, prefill_tokens=most)

    def _serve(self, flight: DecodeLoop) -> None:
        """Take steps until the engine ends."""
        while not self._is_closed:
            try:
                self._take_messages(flight)
                flight.step()
            except Exception as error:  # a thread that dies would leave every request unanswered
                logger.exception("generation failed")
                flight.fail_all(describe_error(error))

    def _take_messages(self, flight: DecodeLoop) -> None:
        """Take incoming work; wait for it if idle."""
        try:
            if not flight.is_busy:
                self._take(flight, self._inbox.get(timeout=flight.admission.wait_s(time.perf_counter_ns())))
            while True:
                self._take(flight, self._inbox.get_nowait())
        except queue.Empty:
            return

    def _take(self, flight: DecodeLoop, message: _Query | _Flush | None) -> None:
        match message:
            case _Query():
                flight.admission.add(self._requests(message))
            case _Flush():
                flight.admission.flush()

    def _requests(self, query: _Query) -> list[Request]:
        """Return a query's samples as requests; those that can never be served fail here."""
        samples, requests = query.samples, []
        for position, (id_, index) in enumerate(zip(samples.ids, samples.indices, strict=True)):
            try:
                prompt = self._program.prompt(samples.dataset.sample(index))
                wrong = self._what_is_wrong(prompt)
            except Exception as error:  # a workload's code
                logger.exception("a prompt could not be made")
                wrong = describe_error(error)
            if wrong:
                query.reply.fail(samples[position : position + 1], wrong)
            else:
                requests.append(Request(id_, index, samples.dataset, query.reply, prompt, query.arrived_ns))
        return requests

    def _what_is_wrong(self, prompt: Prompt) -> str:
        """Return the reason why a prompt can never be answered; empty when it can."""
        decoding, count, longest = self._program.decoding, len(prompt.tokens), self._open_cache().longest
        if not count:
            return "the prompt is empty"
        if count + decoding.max_new_tokens > longest:
            return (
                f"a prompt of {count} tokens and {decoding.max_new_tokens} new ones exceed the "
                f"{longest} positions of {'the model' if longest == decoding.longest else 'its graphs here'}"
            )
        if prompt.stop and decoding.beams > 1:
            return "a stop sequence, which beam search does not follow"
        return ""
