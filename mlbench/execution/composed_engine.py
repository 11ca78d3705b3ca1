"""The default engine of graph backends: it batches samples through the workload's program."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self

from mlbench.contracts.backend import EnginePlan, GraphBackend
from mlbench.contracts.engine import Capacity, Engine, GraphCalls, Reply, Samples
from mlbench.contracts.model import BatchProgram, Model
from mlbench.contracts.statistics import BatchStatistics
from mlbench.errors import UsageError, describe_error
from mlbench.execution.batch_sweep import BatchChoice, choose_batch, mixture, neighbours, run_for
from mlbench.execution.batching import BatchCounts, BatchQueue, by_length
from mlbench.execution.call_counts import CountedExecutable, merge_counts
from mlbench.execution.generation.host_state import stateful
from mlbench.execution.replay import ReplayedExecutable, take_computed_calls
from mlbench.system.processor import usable_threads

logger = logging.getLogger(__name__)

BATCHING = ("inline", "fixed", "bucketed", "dynamic")
"""The values of `EnginePlan.batching`."""

_USUAL_QUERY = 8  # MultiStream's
_SLOW_S = 10.0


class ComposedEngine(Engine):
    """Runs batches on worker threads, or on the caller's thread for inline batching."""

    def __init__(self, backend: GraphBackend, model: Model, plan: EnginePlan) -> None:
        if plan.batching not in BATCHING:
            raise UsageError(f"execution.batching is {plan.batching!r}.", hint=f"Choose from {', '.join(BATCHING)}.")
        self._model = model
        assert isinstance(model.program, BatchProgram)
        self._program = model.program
        self._plan = plan
        self._graphs: list[Mapping[str, CountedExecutable]] = []
        self._counts = BatchCounts()
        self._counting = threading.Lock()
        for name in ("batch", "workers"):
            if (number := getattr(plan, name)) != "auto" and number < 1:
                raise UsageError(f"execution.{name} is {number}.", hint="Must be at least 1.")
        # an instance has a part of the cores; by default a runtime may take all of them
        self._backend = backend.for_workers(plan.workers) if plan.workers > 1 or plan.instances != 1 else backend
        self._batch = 1 if plan.batch == "auto" else plan.batch
        self._sweep = BatchChoice(batch=self._batch)
        self._replayed: list[ReplayedExecutable] = []
        self._queue = BatchQueue(batch=self._batch, max_wait_us=plan.max_wait_us)
        self._threads: list[ThreadPoolExecutor] = []
        self._is_serving = False

    def __enter__(self) -> Self:
        """Compile the graphs, once per worker and on the worker's own thread.

        A runtime may keep threads for each thread that calls it (OpenMP does): all calls of one worker must come from
        one thread, or idle helpers of another slow them down several times.
        """
        if self._plan.batching == "inline":
            self._graphs = [self._compiled()]
            return self
        for number in range(self._plan.workers):
            self._threads.append(ThreadPoolExecutor(1, thread_name_prefix=f"mlbench-worker-{number}"))
            self._graphs.append(self._threads[-1].submit(self._compiled).result())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the workers finish their batch and stop."""
        self._queue.close()
        for thread in self._threads:
            thread.shutdown()
        self._graphs.clear()

    def warm_up(self, samples: Samples) -> None:
        """Choose a batch size if the plan leaves it open, and run every batch size that may occur."""
        largest = max(_USUAL_QUERY, self._plan.largest_batch if self._plan.batch == "auto" else self._batch)
        data = sorted(samples.data() * -(-largest // len(samples)), key=self._program.length)
        if self._plan.batching == "inline":
            usual = _USUAL_QUERY if self._plan.batch == "auto" else self._batch
            self._run_sizes(sorted({1, usual}), data, self._graphs[0])
            return
        if self._plan.batch == "auto":
            for thread, graphs in zip(self._threads, self._graphs, strict=True):  # in turn: a first call may initialise
                thread.submit(self._program.run, data[:1], graphs).result()
            cut = neighbours if self._plan.batching == "bucketed" else mixture
            self._sweep = choose_batch(
                self._run_on_all,
                data,
                self._plan.largest_batch,
                longest_s=self._plan.longest_batch_ms / 1000 or math.inf,
                workers=len(self._threads),
                cut=cut,
            )
            self._batch = self._queue.batch = self._sweep.batch
            rates = {size: round(rate) for size, rate in self._sweep.rates.items()}
            logger.info("batch %d, of %s samples/s; rounds that chose: %s", self._batch, rates, self._sweep.rounds)
        sizes = [self._batch] if self._plan.batching == "fixed" else _sizes_up_to(self._batch)
        if self._sweep and self._are_alike(data):
            sizes = [size for size in sizes if size not in self._sweep.rates]  # each worker has run the others
        for thread, graphs in zip(self._threads, self._graphs, strict=True):
            thread.submit(self._run_sizes, sizes, data, graphs).result()

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Run a query on this thread if the plan says inline; otherwise queue it for the workers."""
        if self._plan.batching == "inline":
            size = len(samples) if self._plan.batch == "auto" else self._batch
            for start in range(0, len(samples), size):
                part = samples if len(samples) <= size else samples[start : start + size]
                self._run(part, reply, self._graphs[0])
            return
        if not self._is_serving:
            self._serve()
        if self._plan.batching == "bucketed":
            samples = by_length(samples, [self._program.length(sample) for sample in samples.data()])
        self._queue.put(samples, reply)

    def flush(self) -> None:
        """Flush a partial batch."""
        self._queue.flush()

    def capacity(self) -> Capacity:
        """Return a batch for each worker, and one more to keep them busy."""
        workers = 1 if self._plan.batching == "inline" else self._plan.workers
        return Capacity(batch=self._batch, in_flight=2 * self._batch * workers)

    def statistics(self) -> BatchStatistics:
        """Return batch sizes with their counts, padding, and the time spent computing."""
        with self._counting:
            counts, self._counts = self._counts, BatchCounts()
        return BatchStatistics(
            batching=self._plan.batching,
            batch=self._batch,
            workers=self._plan.workers,
            batches_by_size=dict(sorted(counts.by_size.items())),
            samples=counts.samples,
            padding_samples=counts.padding,
            busy_ns=counts.busy_ns,
            sweep_samples_per_s={size: round(rate, 1) for size, rate in self._sweep.rates.items()},
            sweep_rounds=self._sweep.rounds or None,
            computed_calls=take_computed_calls(self._replayed) if self._replayed else None,
        )

    def calls(self) -> Sequence[GraphCalls]:
        """Return the calls of all workers."""
        return merge_counts(executable.counts for graphs in self._graphs for executable in graphs.values())

    def replay_graphs(self) -> str:
        """Make the graphs of all workers compute each shape only once."""
        self._replayed = [executable.replay() for graphs in self._graphs for executable in graphs.values()]
        return ""

    def _compiled(self) -> Mapping[str, CountedExecutable]:
        found = {}
        for name, graph in self._model.graphs.items():
            compiled = self._backend.compile(graph, graph.precision(self._plan.precision))
            found[name] = CountedExecutable(stateful(compiled, graph) if graph.state else compiled, name)
        return found

    def _run_sizes(self, sizes: Sequence[int], data: Sequence[Any], graphs: Mapping[str, CountedExecutable]) -> None:
        """Run batches of these sizes, with the shortest and the longest of the samples; once where all are alike.

        Stops at a batch that is slow twice: its first call may compile, but for samples that take as long warming up
        does not help.
        """
        for size in sizes:
            for part in (data[:size],) if self._are_alike(data) else (data[:size], data[-size:]):
                if self._is_slow(part, graphs) and self._is_slow(part, graphs):
                    return

    def _are_alike(self, data: Sequence[Any]) -> bool:
        """Return whether samples that are sorted by length have one length."""
        return self._program.length(data[0]) == self._program.length(data[-1])

    def _is_slow(self, data: Sequence[Any], graphs: Mapping[str, CountedExecutable]) -> bool:
        """Run a batch, and return whether that took long."""
        started_s = time.perf_counter()
        self._program.run(data, graphs)
        return time.perf_counter() - started_s > _SLOW_S

    def _serve(self) -> None:
        """Start the worker loops, until the engine ends."""
        self._is_serving = True
        for thread, graphs in zip(self._threads, self._graphs, strict=True):
            thread.submit(self._work, graphs)

    def _work(self, graphs: Mapping[str, CountedExecutable]) -> None:
        while batch := self._queue.take():
            self._run(batch.samples, batch.reply, graphs)

    def _run(self, samples: Samples, reply: Reply, graphs: Mapping[str, CountedExecutable]) -> None:
        started_ns = time.perf_counter_ns()
        try:
            data = samples.data()
            padding = max(0, self._batch - len(data)) if self._plan.batching == "fixed" else 0
            outputs = self._program.run(data + data[-1:] * padding, graphs)
            if len(outputs) != len(data) + padding:
                raise ValueError(f"{len(outputs)} outputs for {len(data) + padding} samples")
        except Exception as error:  # a plugin's code; the run goes on, and is INVALID
            logger.exception("a batch failed")
            reply.fail(samples, describe_error(error))
            return
        busy_ns = time.perf_counter_ns() - started_ns
        self._count(len(data), padding, busy_ns)  # before the answers: statistics are asked for once all are there
        reply.complete(samples, outputs[: len(data)])

    def _count(self, samples: int, padding: int, busy_ns: int) -> None:
        with self._counting:
            counts = self._counts
            counts.by_size[samples] = counts.by_size.get(samples, 0) + 1
            counts.samples += samples
            counts.padding += padding
            counts.busy_ns += busy_ns

    def _run_on_all(self, data: Sequence[Any], seconds: float) -> float:
        """Run a batch on every worker as when many samples wait; see `batch_sweep.Run`."""
        begin = threading.Barrier(len(self._threads))  # one that began alone would have the device for itself
        owns_core = len(self._threads) <= usable_threads()

        def measure(graphs: Mapping[str, CountedExecutable]) -> float:
            begin.wait()
            return run_for(partial(self._program.run, data, graphs), seconds, owns_core=owns_core)

        running = [thread.submit(measure, each) for thread, each in zip(self._threads, self._graphs, strict=True)]
        return sum(each.result() for each in running)


def _sizes_up_to(batch: int) -> list[int]:
    """Return 1, 2, 4, ... and the batch itself."""
    return sorted({min(2**power, batch) for power in range(batch.bit_length() + 1)})
