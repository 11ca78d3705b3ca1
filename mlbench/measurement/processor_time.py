"""Counts the processor time of samples in a pass of its own, in a process that may use one processor.

Wall time on a busy machine is mostly the others' time. Processor time is the engine's own, but not robust by itself:
threads that wait busily for each other use it as well, twice as much of it where others hold the second thread up;
clocks change; neighbours empty the caches. So the engine is made anew where only one of its threads can run, samples
alternate with reference work, to which their time is set in proportion.
"""

from __future__ import annotations

import gc
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.metric import LoggedReply
from mlbench.contracts.model import Model
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.execution.processes.channel import Channel
from mlbench.execution.processes.usage import process_tree, read_processor_clock_ns, read_thread_times_s
from mlbench.loadgen.logs import DETAIL, read_accuracy, read_detail, samples_per_s
from mlbench.loadgen.settings import Mode
from mlbench.measurement.asking import Answers, ask
from mlbench.measurement.evidence import ProcessorTime
from mlbench.measurement.job import Job
from mlbench.measurement.running_engine import typical_indices
from mlbench.measurement.side_by_side import Listener, ProcessorTimeRequest, TurnsTaken, meet
from mlbench.measurement.spot_contents import distance
from mlbench.measurement.token_answers import LOG
from mlbench.records.job_spec import JobSpec
from mlbench.records.machine.processor_time import FEW, REFERENCE_NS, ProcessorTimeRecord
from mlbench.rules.answers import LEAST_RIGHT
from mlbench.system.processor import usable_threads

STAGE = "processor time"
LONGEST_QUERY_S = 1.5
"""Longer computations of the samples are not repeated: the pass would take ten seconds and more."""

_AT_A_TIME = 8
"""Samples. Alone, a small model's time depends on where its memory happens to lie: 6 to 8 % from process to process."""
_ROUND_NS = 16_000_000
"""Long enough that one computation more or less between two pieces of reference work makes no difference: after it the
innermost caches are cold."""
_LEAST_ROUNDS = 3
_REFERENCE_SHARE = 1 / 8
"""Share of the samples' time in a round, at least: with less, chance in the reference work would show in the result."""
_LONGEST_ROUND_NS = 2_000_000_000
"""Longest wall time of one: an engine that waits for an accelerator uses little processor time in it."""
_WARM = 3
_ENOUGH_NS = 400_000_000
_LONGEST_S = 12.0
_PATIENCE_S = 60.0
_LEAST_SHARE = 0.6
"""The busiest thread uses more of the processor time: two that wait busily for each other use half each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    samples_ns: float
    """Processor time of one computation of all samples."""
    references_ns: Sequence[int]
    """Processor times of computations of the reference work, right after the samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmSamples:
    """Samples that were computed a few times."""

    pids: Sequence[int]
    """Processes that compute them."""
    threads_s: Mapping[int, float]
    """Processor time of each thread so far."""
    repeats: int
    """Computations that take some milliseconds together."""
    parts: int
    """Samples, or tokens, of one computation."""


class UncountedError(Exception):
    """The processor time was not counted, or what was counted is not that of the samples."""


def count_processor_time(request: ProcessorTimeRequest, channel: Channel) -> ProcessorTime:
    """Return the processor time of a run's samples on its backend. Called in a fresh process, after the test.

    Raises:
        MlbenchError: as `Backend.engine` does.
    """
    try:
        with counted_samples(request.spec, channel) as samples, meet(request) as partner:  # it waits, once it is met
            record = samples.count()
            together = partner.alternate(partial(samples.turn_ns, samples.begin())) if partner else None
            return ProcessorTime(record=record.model_copy(update={"side_by_side": together}))
    except UncountedError as error:
        return ProcessorTime(reason=str(error))


def answer_partner(request: ProcessorTimeRequest, channel: Channel) -> TurnsTaken:
    """Compute alternately with the process of another run, as often as that asks. Called in a fresh process.

    Raises:
        MlbenchError: as `Backend.engine` does.
        UncountedError: the answers are not those of the test.
    """
    with Listener(request.meeting) as listener, counted_samples(request.spec, channel) as samples:
        return TurnsTaken(count=listener.answer(partial(samples.turn_ns, samples.begin())))


@contextmanager
def counted_samples(spec: JobSpec, channel: Channel) -> Iterator[CountedSamples]:
    """Yield samples on a warm engine in this process, which may use one processor from now on.

    Raises:
        MlbenchError: as `Backend.engine` does.
    """
    channel.progress(STAGE)
    threads = usable_threads()  # those of the test
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the first one often handles interrupts
    job = Job.of_spec(spec, Plugins.discover())
    model, dataset = job.model(), job.workload.dataset(job.variant)
    indices = typical_indices(dataset, _AT_A_TIME if _is_quick(job, threads) else FEW)
    dataset.load(indices)
    with engine_of(job.backend, model, _plan_of(job.plan, len(indices))) as engine:
        engine.warm_up(Samples(list(range(len(indices))), indices, dataset))
        gc.collect()
        gc.freeze()
        note = partial(channel.progress, STAGE)
        yield CountedSamples(engine, model, dataset, indices, job.backend.observe, job.folder, note)


def _is_quick(job: Job, threads: int) -> bool:
    """Return whether many samples take no longer than is allowed, by the speed of the test on so many threads."""
    rate_per_s = samples_per_s(read_detail(job.folder / Mode.PERFORMANCE / DETAIL), job.scenario)
    return not rate_per_s or _AT_A_TIME * threads / rate_per_s <= LONGEST_QUERY_S


def _plan_of(plan: EnginePlan, batch: int) -> EnginePlan:
    return replace(plan, batch=batch, largest_batch=batch, workers=1, instances=1, devices="")


@dataclass(frozen=True, slots=True)
class CountedSamples:
    """Samples whose processor time on an engine is to be counted."""

    engine: Engine
    model: Model
    dataset: Dataset
    """Holds the samples, loaded."""
    indices: Sequence[int]
    observe: Callable[[], RuntimeFacts]
    """Returns the facts of the backend."""
    folder: Path
    """The run's, where the logs of its tests are."""
    note: Callable[[], None]
    """Reports progress."""

    def count(self) -> ProcessorTimeRecord:
        """Count, and check the form: one thread computes, and the answers are those of the test.

        Raises:
            UncountedError: it was not, or the form was another.
        """
        begun = self.begin()
        rounds = self._make_rounds(begun)
        self._check_threads(begun, rounds)
        runtime = self.observe()
        ns = fmean(each.samples_ns for each in rounds) / begun.parts  # all: work that is done now and then is work
        reference_ns = fmean(fmean(each.references_ns) for each in rounds)
        return ProcessorTimeRecord(
            ns=ns,
            unit="token" if isinstance(self.model.program, GenerationProgram) else "sample",
            covers="host" if runtime.device not in (None, "cpu") else "all",
            reference="scrypt",
            reference_ns=reference_ns,
            relative_ns=ns * REFERENCE_NS / reference_ns,
            samples=len(self.indices),
            rounds=len(rounds),
        )

    def begin(self) -> WarmSamples:
        """Compute the samples a few times, check the answers, and return how to go on.

        Raises:
            UncountedError: they take too long, or the answers are not those of the test.
        """
        pids = [each.pid for each in process_tree(os.getpid())]
        answers, first_ns = self._time(pids)
        if answers.lasted_ns > LONGEST_QUERY_S * 1e9 and first_ns > LONGEST_QUERY_S * 1e9:
            raise UncountedError(f"{len(self.indices)} samples take {first_ns / 1e9:.0f} s on one processor")
        self._check(answers)
        before_s = _read_thread_times(pids)
        warm_ns = first_ns if first_ns > _ROUND_NS else min(self._time(pids)[1] for _ in range(_WARM))
        repeats = min(round(_ROUND_NS / max(warm_ns, 1)), _LONGEST_ROUND_NS // max(answers.lasted_ns, 1))
        parts = answers.tokens if isinstance(self.model.program, GenerationProgram) else len(self.indices)
        return WarmSamples(pids=pids, threads_s=before_s, repeats=max(1, repeats), parts=parts)

    def turn_ns(self, begun: WarmSamples) -> float:
        """Compute the samples for some milliseconds; return the processor time per sample or token."""
        self.note()
        return fmean(self._time(begun.pids)[1] for _ in range(begun.repeats)) / begun.parts

    def _make_rounds(self, begun: WarmSamples) -> list[_Round]:
        pids, repeats = begun.pids, begun.repeats
        work, rounds = make_reference_work(), list[_Round]()
        until_s, spent_ns = time.monotonic() + _LONGEST_S, 0.0
        while len(rounds) < _LEAST_ROUNDS or spent_ns < _ENOUGH_NS:
            if time.monotonic() > until_s and len(rounds) >= _LEAST_ROUNDS:
                break
            self.note()
            samples_ns = fmean(self._time(pids)[1] for _ in range(repeats))
            references_ns = _repeat(work, repeats * samples_ns * _REFERENCE_SHARE)
            rounds.append(_Round(samples_ns=samples_ns, references_ns=references_ns))
            spent_ns += repeats * samples_ns
        return rounds

    def _time(self, pids: Sequence[int]) -> tuple[Answers, int]:
        """Compute the samples once; return the answers, and the processor time of all processes."""
        began_ns = sum(map(read_processor_clock_ns, pids))
        answers = ask(self.engine, self.dataset, self.indices, timeout_s=_PATIENCE_S)
        spent_ns = sum(map(read_processor_clock_ns, pids)) - began_ns
        if not answers.is_whole:
            raise UncountedError("not all samples were answered")
        return answers, spent_ns

    def _check(self, answers: Answers) -> None:
        """Check that most answers are nearer to those of the test than to the ones to other samples."""
        known = _read_known_answers(self.folder, self.indices, self.model.program.reply.dtype)
        found = {index: output for index, output in zip(self.indices, answers.outputs, strict=True) if index in known}
        if not found:
            return
        right = sum(
            distance(np.ravel(output), known[index])
            <= min(distance(np.ravel(output), other) for other in known.values())
            for index, output in found.items()
            if output is not None
        )
        if right < LEAST_RIGHT * len(found):
            raise UncountedError(f"{len(found) - right} of {len(found)} answers were not those of the test")

    def _check_threads(self, begun: WarmSamples, rounds: Sequence[_Round]) -> None:
        """Check that one thread computed: of several, all but one wait for the last."""
        pids, before_s = begun.pids, begun.threads_s
        if [each.pid for each in process_tree(os.getpid())] != pids:
            raise UncountedError("its processes came and went")
        spent_s = {thread: each_s - before_s.get(thread, 0.0) for thread, each_s in _read_thread_times(pids).items()}
        spent_s[os.getpid()] -= sum(sum(each.references_ns) for each in rounds) / 1e9
        if max(spent_s.values()) < _LEAST_SHARE * sum(spent_s.values()):
            raise UncountedError("several threads shared the work on one processor, and waited for each other")


def _repeat(work: Callable[[], object], least_ns: float) -> list[int]:
    """Do work until it has taken so much processor time of this thread; return how much each time."""
    spent_ns = list[int]()
    while sum(spent_ns) < least_ns or not spent_ns:
        began_ns = time.thread_time_ns()
        work()
        spent_ns.append(time.thread_time_ns() - began_ns)
    return spent_ns


def _read_thread_times(pids: Sequence[int]) -> dict[int, float]:
    return {thread: spent_s for pid in pids for thread, spent_s in read_thread_times_s(pid).items()}


def _read_known_answers(folder: Path, indices: Sequence[int], dtype: str) -> Mapping[int, np.ndarray]:
    """Return the answers that the test's log has to some samples."""
    wanted, replies = set(indices), list[LoggedReply]()
    for mode in (Mode.ACCURACY, Mode.PERFORMANCE):
        log = folder / mode / LOG
        if log.is_file():
            replies = [reply for reply in read_accuracy(log) if reply.index in wanted]
        if replies:
            break
    return {reply.index: np.frombuffer(reply.data, np.dtype(dtype).newbyteorder("<")) for reply in replies}


def make_reference_work() -> Callable[[], object]:
    """Return a function that does two milliseconds of work in one thread, always the same.

    It is scrypt, which mixes arithmetic with reads all over 256 KiB: it follows engines as closely as products of
    matrices do when neighbours share the core or its caches, and no library changes it (docs/processor-time.md).

    Raises:
        UncountedError: this Python's OpenSSL does not offer it.
    """
    try:
        work = partial(hashlib.scrypt, b"reference", salt=b"work", n=256, r=8, p=3)
        work()
    except (AttributeError, ValueError) as error:  # built without OpenSSL, or held to FIPS
        raise UncountedError(f"this Python has no scrypt, the reference work: {error}") from error
    return work
