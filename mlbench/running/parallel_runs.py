"""Runs of a command side by side, each lane with one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlbench.execution.lanes import Lane
from mlbench.execution.processes.fork_server import close_servers_of_thread
from mlbench.planning.accuracy_tests import AccuracyTests, engine_key
from mlbench.planning.requests import ResolvedRequest
from mlbench.planning.suite import WAIT_S, SharedRuns
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_folder import TakenError
from mlbench.running.lane_log import LaneLog, LanePlace
from mlbench.system.guards import undo_on_error

Run = Callable[[ResolvedRequest, int, LanePlace], RunRecord | None]


def run_on_lanes(
    requests: Sequence[ResolvedRequest],
    lanes: Sequence[Lane],
    run: Run,
    shared: SharedRuns | None = None,
    on_wait: Callable[[int], None] = lambda count: None,
) -> list[RunRecord]:
    """Make runs on all lanes, and return those that are stored, in the order of the requests.

    Lanes take them in order. Where runs share the accuracy test of an engine, one whose engine is being tested by
    another run is left for later as long as there are others.

    Args:
        requests: in their order.
        lanes: of this machine.
        run: makes the run of a request, which is the n-th from 1; called in the lane's thread, which is bound to its
            cores. None: it could not be stored. Raises `TakenError` where another process makes it.
        shared: where given, a run that another process makes meanwhile is waited for.
        on_wait: told how many these are.

    Raises:
        MlbenchError: a run cannot be carried out. None is begun after that, and those on other lanes end as usual.
        KeyboardInterrupt: the user ended the command; the runs that went on have ended, and nothing of them is stored.
    """
    log, ended = LaneLog(), list[threading.Event]()
    work = _Work(requests, shared, on_wait)

    def interrupt() -> None:
        log.interrupted.set()
        work.stop()
        _wait_for(ended)

    with undo_on_error(interrupt):
        for lane in lanes:
            has_ended = threading.Event()
            use = (LanePlace(lane, log), work, run, has_ended)
            threading.Thread(target=_use, args=use, name=f"mlbench-lane-{lane.number}").start()
            ended.append(has_ended)
        _wait_for(ended)
    return work.records()


def _wait_for(ended: Sequence[threading.Event]) -> None:
    """Wait for all lanes. `Thread.join` will not do: interrupted, it takes a thread that goes on for ended."""
    for each in ended:
        each.wait()


def _use(place: LanePlace, work: _Work, run: Run, has_ended: threading.Event) -> None:
    """Make runs on a lane until there are none left."""
    try:
        place.lane.bind_thread()
        while (task := work.take()) is not None:
            try:
                work.done(task, run(work.with_earlier(task), task.number, place))
            except TakenError:
                work.put_back(task)
    except KeyboardInterrupt:  # it is the main thread's, which waits for this one
        work.stop()
    except BaseException as error:  # it leaves through the main thread
        work.fail(error)
    finally:
        close_servers_of_thread()
        has_ended.set()


@dataclass(slots=True)
class _Task:
    number: int
    request: ResolvedRequest
    engine: str
    """A key of the engine whose accuracy test it makes, or takes over; empty: it shares none."""
    not_before_s: float = 0.0
    """When to look again whether another process has made it."""


class _Work:
    """Runs left and runs done, shared by the lanes."""

    def __init__(
        self, requests: Sequence[ResolvedRequest], shared: SharedRuns | None, on_wait: Callable[[int], None]
    ) -> None:
        self._left = [_Task(number, request, engine_key(request)) for number, request in enumerate(requests, 1)]
        self._going: list[_Task] = []
        self._records: dict[int, RunRecord] = {}
        self._tests = AccuracyTests()
        self._shared, self._on_wait = shared, on_wait
        self._told = 0
        self._error: BaseException | None = None
        self._is_over = False
        self._changed = threading.Condition()

    def take(self) -> _Task | None:
        """Return the next run to make; None when there is none, after waiting for those of other processes."""
        with self._changed:
            while True:
                if self._is_over or not self._left:
                    return None
                now_s = time.monotonic()
                ready = [task for task in self._left if task.not_before_s <= now_s]
                if not ready:
                    self._tell()
                    self._changed.wait(min(task.not_before_s for task in self._left) - now_s)
                    continue
                task = next((each for each in ready if not self._is_being_tested(each)), ready[0])
                self._left.remove(task)
                if self._shared and (record := self._shared.find_new_record(task.request)):
                    self._add(task, record)
                    continue
                self._going.append(task)
                return task

    def with_earlier(self, task: _Task) -> ResolvedRequest:
        """Return a run's request, with the accuracy test of its engine where there is one by now."""
        with self._changed:
            return self._tests.with_earlier(task.request)

    def done(self, task: _Task, record: RunRecord | None) -> None:
        """Take in the record of a run; None: it is not stored."""
        with self._changed:
            self._going.remove(task)
            if record:
                self._add(task, record)

    def put_back(self, task: _Task) -> None:
        """Leave a run to the process that makes it, and look again later."""
        with self._changed:
            self._going.remove(task)
            task.not_before_s = time.monotonic() + WAIT_S
            self._left.append(task)
            self._left.sort(key=lambda each: each.number)

    def fail(self, error: BaseException) -> None:
        """Begin no further run, because of an error."""
        with self._changed:
            self._error = self._error or error
        self.stop()

    def stop(self) -> None:
        """Begin no further run."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def records(self) -> list[RunRecord]:
        """Return the records, in the order of the requests; raises what ended a lane."""
        if self._error:
            raise self._error
        return [record for _, record in sorted(self._records.items())]

    def _add(self, task: _Task, record: RunRecord) -> None:
        self._records[task.number] = record
        self._tests.add(task.request, record)

    def _is_being_tested(self, task: _Task) -> bool:
        """Return whether another run is making the accuracy test that this one could take over."""
        if not task.engine or self._tests.with_earlier(task.request).accuracy_of:
            return False
        return any(task.engine == other.engine for other in self._going)

    def _tell(self) -> None:
        if (count := len(self._left)) != self._told:
            self._told = count
            self._on_wait(count)
