"""One run, from request to run folder."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from mlbench.contracts.runtime_facts import UNKNOWN
from mlbench.contracts.scenario import LoadSettings
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError, StorageError, UsageError, describe_error
from mlbench.execution.processes.failures import Failure, FailureKind
from mlbench.execution.processes.isolation import (
    ANYWHERE,
    ChildFunction,
    OnProgress,
    ProcessLimits,
    call_isolated,
    tail_of,
)
from mlbench.execution.stage_times import WARM_UP, StageTimes
from mlbench.measurement.evidence import (
    Burst,
    BurstBegins,
    BurstEnds,
    JudgeRequest,
    MeasuredRun,
    Overseen,
    ProcessorTime,
)
from mlbench.measurement.other_work import ELSEWHERE
from mlbench.measurement.side_by_side import ProcessorTimeRequest, TurnsTaken
from mlbench.planning.requests import ResolvedRequest
from mlbench.records.job_spec import JobSpec
from mlbench.records.run_outcome import JudgedPart, RunOutcome
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_folder import Claim, RunFolder, remove_abandoned
from mlbench.rules.facts import TimedAnswers
from mlbench.running.lane_log import LanePlace
from mlbench.running.notices import asking_plugins, run_notices
from mlbench.running.started_run import ANSWER_PARTNER, COUNT_PROCESSOR_TIME, JUDGE, MEASURE, SCORE_TIMED, StartedRun
from mlbench.running.telemetry import Telemetry
from mlbench.wire.load_progress import LoadProgress
from mlbench.wire.progress import ProgressMessage

_Answer = TypeVar("_Answer")

OnLook = Callable[[Sequence[int]], None]
"""Called about twice a second with the ids of a child's processes."""

LOG_FILE = "log.txt"
"""In the run folder: the output of the run's process."""

_DRIVEN = {"accuracy", "performance"}
"""The stages of a run in which LoadGen drives: by then the request is known to be valid."""

_REFERENCE = "reference"
"""The stage in which some answers of the fp32 model are computed."""

_REFERENCE_S = 120.0
"""Time limit for computing some answers of the fp32 model, loading included."""

_COUNTING_S, _LONGEST_BUILD_S = 45.0, 10.0
"""Time limit for counting processor time, and how long the engine it needs may take to be made once more."""

_STALLS_OF_WARM_UP = 5  # it is several calls of the engine, and shows no progress between them

logger = logging.getLogger(__name__)


def run_benchmark(  # noqa: PLR0913 - a run among others
    request: ResolvedRequest,
    plugins: Plugins,
    on_progress: OnProgress = lambda progress: None,
    *,
    claim: Claim | None = None,
    place: LanePlace | None = None,
    later: Sequence[ResolvedRequest] = (),
) -> RunRecord:
    """Measure one workload on one backend under one scenario, and store the run folder.

    A run that crashes, hangs or runs out of memory is stored too, as a failure of that kind, and so is one that was
    measured and whose record cannot be made. ``on_progress`` is given the run's stages and, while
    LoadGen drives, each `LoadProgress`. With a ``place`` this is called in a thread that is bound to the lane. Where
    the run must export graphs, it may export those of ``later`` runs as well.

    Raises:
        MlbenchError: the request cannot be carried out (a corrupt file, a missing library); nothing is stored.
        UnstoredRunError: it was measured, and cannot be stored; the error has the record.
        TakenError: another process has the claim.
        KeyboardInterrupt: the user ended the command, all of whose lanes end.
    """
    with asking_plugins:
        started, sensors = StartedRun.now(request, plugins, place, later), plugins.usable_sensors()
    remove_abandoned(request.results)
    with ExitStack() as notices:
        with RunFolder.create(request.results, started.run_id, claim) as folder, started.stay or nullcontext():
            notices.enter_context(run_notices(request.results / started.run_id, request.tag, plugins))
            overseer = Overseer()
            outcome = _measure(started, folder, on_progress, overseer, Telemetry(sensors, folder.path))
            record = started.record(outcome, folder.path / LOG_FILE, overseer.stages.end())
            try:
                stored = folder.store(record)
            except StorageError as error:
                raise UnstoredRunError(error.message, hint=error.hint, record=record) from None
        with asking_plugins:
            plugins.notify_stored(stored)
    return record


class UnstoredRunError(StorageError):
    """A run was measured, and cannot be stored."""

    def __init__(self, message: str, *, hint: str, record: RunRecord) -> None:
        super().__init__(message, hint=hint)
        self.record = record


def _measure(
    started: StartedRun, folder: RunFolder, on_progress: OnProgress, overseer: Overseer, telemetry: Telemetry
) -> RunOutcome | Failure:
    """Carry out the run in a separate process, and judge it in another one, where the backend's code never was.

    Raises:
        UsageError, PluginError: the request cannot be carried out; nothing was measured.
    """
    log = folder.path / LOG_FILE

    def show(progress: ProgressMessage) -> None:
        overseer.note(progress)
        telemetry.note(progress)
        if started.stay:
            started.stay.note(progress)
        try:
            on_progress(progress)
        except Exception:  # a closed terminal must not fail the run
            logger.debug("progress cannot be shown", exc_info=True)

    try:
        job = started.job(folder.path)
        function = ChildFunction(MEASURE, MeasuredRun, started.modules)
        with telemetry:
            measured = call_isolated(function, job, log, _limits(started), show)
        if isinstance(measured, Failure):
            return measured
        request = JudgeRequest(spec=job, measured=measured, overseen=overseer.seen, without=started.origin)
        counted = _count_processor_time(request, started, log, show)
        request = replace(request, scored=_score_timed(request, started, log, show))
        judged = call_isolated(
            ChildFunction(JUDGE, JudgedPart, started.modules_of_judge), request, log, _limits(started), show
        )
        if isinstance(judged, Failure):
            return judged
        observed = counted.added_to(measured.observed).model_copy(update={"telemetry": telemetry.record()})
        return RunOutcome.of_parts(observed, judged)
    except MlbenchError as error:
        stages = overseer.stages
        if error.exit_code == UsageError.exit_code and _DRIVEN.isdisjoint(stages.names):  # the request itself is wrong
            raise
        return Failure(kind=FailureKind.EXCEPTION, message=str(error), stage=stages.last, log_tail=tail_of(log))


def _score_timed(request: JudgeRequest, started: StartedRun, log: Path, show: OnProgress) -> TimedAnswers | None:
    """Return how many answers that were timed are the fp32 model's, or why that is unknown; None where none counts."""
    spec = request.spec
    if not spec.wants_accuracy or spec.is_probe or spec.audit or not started.has_trained_weights:
        return None  # there is no accuracy that such a run could claim
    if not request.measured.evidence.timed:
        return TimedAnswers(reason="no answer was timed that would tell new content from known")
    # its first process of a command imports torch, which is no part of the stage before
    show(ProgressMessage(stage=_REFERENCE))
    function = ChildFunction(SCORE_TIMED, TimedAnswers, started.modules_of_reference)
    found = _ask_helper(function, request, started, log, show, limit_s=_REFERENCE_S)
    if isinstance(found, str):
        return TimedAnswers(reason=f"the fp32 model could not be computed here: {found}")
    return found


def _count_processor_time(request: JudgeRequest, started: StartedRun, log: Path, show: OnProgress) -> ProcessorTime:
    """Return the processor time of a sample, or why it is unknown; it needs the run's engine once more."""
    if started.no_processor_time:
        return ProcessorTime(reason=started.no_processor_time)
    if request.measured.observed.runtime.devices == UNKNOWN:
        return ProcessorTime(reason=ELSEWHERE)
    build_s = sum(request.overseen.stages_ns.get(stage, 0) for stage in ("load", "compile")) / 1e9
    if build_s > _LONGEST_BUILD_S:
        return ProcessorTime(reason=f"it needs the engine once more, which takes {build_s:.0f} s to make")
    function = ChildFunction(COUNT_PROCESSOR_TIME, ProcessorTime, started.modules)
    with _partner(request.spec, started, log) as asked:
        limit_s = 2 * _COUNTING_S if asked.meeting else _COUNTING_S  # both engines are made on one processor
        found = _ask_helper(function, asked, started, log, show, limit_s=limit_s)
    return ProcessorTime(reason=f"it could not be counted: {found}") if isinstance(found, str) else found


@contextmanager
def _partner(spec: JobSpec, started: StartedRun, log: Path) -> Iterator[ProcessorTimeRequest]:
    """Yield the request to count a run, with the other run of its pair in a process beside it where it has one."""
    partner = started.request.partner
    if partner is None:
        yield ProcessorTimeRequest(spec=spec)
        return
    is_over = threading.Event()

    def end(pids: Sequence[int]) -> None:
        if is_over.is_set():
            raise TimeoutError("the run that it computes beside has ended")

    with tempfile.TemporaryDirectory(prefix="mlbench-") as folder, ThreadPoolExecutor(1) as thread:
        meeting = f"{folder}/pair"
        function = ChildFunction(ANSWER_PARTNER, TurnsTaken, started.modules)
        request = ProcessorTimeRequest(spec=partner, meeting=meeting)
        answering = thread.submit(
            _ask_helper, function, request, started, log, lambda progress: None, limit_s=2 * _COUNTING_S, watch=end
        )
        try:
            yield ProcessorTimeRequest(spec=spec, meeting=meeting, partner=Path(partner.folder).name)
        finally:
            is_over.set()
            logger.debug("beside the run: %s", answering.result())


def _ask_helper(  # noqa: PLR0913 - a call has these parts
    asked: ChildFunction[_Answer],
    request: object,
    started: StartedRun,
    log: Path,
    show: OnProgress,
    *,
    limit_s: float,
    watch: OnLook | None = None,
) -> _Answer | str:
    """Return the answer of a process that the run does not depend on, or in words why there is none.

    It is ended after a time, or where ``watch`` raises `TimeoutError`.
    """
    limits = ProcessLimits.for_helper(limit_s)
    watch = watch or partial(_end_after, time.monotonic() + limit_s, limit_s)
    limits = replace(limits, place=replace(_limits(started).place, watch=watch))
    try:
        found = call_isolated(asked, request, log, limits, show)
    except (MlbenchError, TimeoutError) as error:
        return describe_error(error)
    return str(found.kind) if isinstance(found, Failure) else found


def _end_after(until_s: float, limit_s: float, pids: Sequence[int]) -> None:
    if time.monotonic() > until_s:
        raise TimeoutError(f"it took more than {limit_s:.0f} s")


def _limits(started: StartedRun) -> ProcessLimits:
    load, stay = started.request.settings.fill("load", LoadSettings()), started.stay
    return ProcessLimits.for_run(
        load.stage_timeout_s,
        memory_gib=load.memory_limit_gib,
        idle_timeouts_s={WARM_UP: _STALLS_OF_WARM_UP * load.stall_timeout_s},
        free_bytes=stay.lane.free_bytes if stay else None,
        place=stay.place if stay else ANYWHERE,
    )


class Overseer:
    """Notes a run's progress as it arrives."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.stages = StageTimes()
        self._clock_ns = clock_ns
        self._bursts: list[Burst] = []
        self._began_ns: int | None = None
        self._answered = self._first_ns = self._last_ns = 0

    def note(self, progress: ProgressMessage) -> None:
        """Take a message; what is odd about it is left out."""
        now_ns = self._clock_ns()
        self.stages.enter(progress.stage)
        if progress.stage == "performance" and (test := progress.read(LoadProgress)):
            self._note_answers(test.counts.answered, now_ns)
        if progress.read(BurstBegins):
            self._began_ns = now_ns
        elif (end := progress.read(BurstEnds)) and self._began_ns is not None:
            self._bursts.append(Burst(kind=end.kind, said_ns=end.lasted_ns, lasted_ns=now_ns - self._began_ns))
            self._began_ns = None

    def _note_answers(self, answered: int, now_ns: int) -> None:
        """Note when samples were answered; a test that is made again begins anew."""
        if answered == self._answered:
            return
        if answered < self._answered or not self._answered:
            self._first_ns = now_ns
        self._answered, self._last_ns = answered, now_ns

    @property
    def seen(self) -> Overseen:
        """Return what was noted so far."""
        return Overseen(
            stages_ns=self.stages.end(), bursts=tuple(self._bursts), answering_ns=self._last_ns - self._first_ns
        )
