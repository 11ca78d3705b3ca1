"""Log of the runs on each lane, from which records list the runs at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from mlbench.execution.lanes import Lane, shared_parts
from mlbench.execution.processes.isolation import ProcessPlace
from mlbench.planning.requests import RunRequest
from mlbench.records.beside import BesideRecord, NeighbourRecord
from mlbench.wire.progress import ProgressMessage

_TEST = "performance"
"""The stage in which a run is measured."""
_STILL = float("inf")
"""When a run ends that goes on."""


@dataclass(slots=True)
class _Stay:
    """A run on a lane, and the time in which it was measured."""

    lane: Lane
    run_id: str
    request: RunRequest
    began_s: float
    ended_s: float = _STILL
    test_began_s: float | None = None
    test_ended_s: float | None = None

    @property
    def measured_s(self) -> tuple[float, float]:
        """Return when its performance test began and ended; where there was none, the run."""
        if self.test_began_s is None:
            return self.began_s, self.ended_s
        return self.test_began_s, min(self.ended_s, self.test_ended_s or self.ended_s)


@dataclass(slots=True)
class LaneLog:
    """The runs of a command on its lanes; threads share it."""

    _stays: list[_Stay] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    interrupted: threading.Event = field(default_factory=threading.Event)
    """Set when the user ends the command: its runs then end with `KeyboardInterrupt`, as those of a main thread do."""

    def enter(self, stay: _Stay) -> None:
        """Note that a run begins on its lane."""
        with self._lock:
            oldest_s = min((each.began_s for each in self._stays if each.ended_s == _STILL), default=stay.began_s)
            self._stays = [each for each in self._stays if each.ended_s >= oldest_s] + [stay]

    def beside(self, stay: _Stay) -> Sequence[_Stay]:
        """Return the runs on other lanes while a run was measured, as far as they have begun by now."""
        begin_s, end_s = stay.measured_s
        with self._lock:
            return [
                other
                for other in self._stays
                if other.lane is not stay.lane and other.began_s < end_s and other.ended_s > begin_s
            ]


class LaneStay:
    """A context manager: a run's time on its lane."""

    def __init__(self, place: LanePlace, run_id: str, request: RunRequest) -> None:
        """Store what runs where; it begins when it is entered."""
        self._log, self._stay = place.log, _Stay(place.lane, run_id, request, time.monotonic())
        self._strayed = set[int]()

    def __enter__(self) -> Self:
        self._stay.began_s = time.monotonic()
        self._log.enter(self._stay)
        return self

    def __exit__(self, *_: object) -> None:
        self._stay.ended_s = time.monotonic()

    @property
    def lane(self) -> Lane:
        """The lane."""
        return self._stay.lane

    @property
    def place(self) -> ProcessPlace:
        """Return where the run's process runs."""
        return ProcessPlace(variables=self._stay.lane.environment, watch=self._watch)

    def note(self, progress: ProgressMessage) -> None:
        """Take in what the run is doing."""
        stay, now_s = self._stay, time.monotonic()
        if progress.stage == _TEST:
            stay.test_began_s = stay.test_began_s or now_s
            stay.test_ended_s = None
        elif stay.test_began_s is not None and stay.test_ended_s is None:
            stay.test_ended_s = now_s

    def record(self) -> BesideRecord:
        """Return what else ran during the measurement of the run."""
        lane, others = self._stay.lane, self._log.beside(self._stay)
        return BesideRecord(
            lane=lane.number,
            lanes=lane.of,
            processors=list(lane.processors),
            device=lane.device.name if lane.device else "",
            runs=[
                NeighbourRecord(
                    lane=other.lane.number,
                    run_id=other.run_id,
                    workload=other.request.workload,
                    backend=other.request.backend,
                    scenario=other.request.scenario,
                )
                for other in others
            ],
            shared=list(dict.fromkeys(part for other in others for part in shared_parts(lane, other.lane))),
            strayed=sorted(self._strayed),
        )

    def _watch(self, pids: Sequence[int]) -> None:
        """Look where a run's processes may run; raises `KeyboardInterrupt` once the user has ended the command."""
        if self._log.interrupted.is_set():
            raise KeyboardInterrupt
        self._strayed |= self._stay.lane.strayed(pids)


@dataclass(frozen=True, slots=True)
class LanePlace:
    """The lane of a run, and the log of all lanes."""

    lane: Lane
    log: LaneLog
