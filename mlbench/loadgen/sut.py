"""LoadGen's view of an engine: one system under test for all engines and scenarios."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import FrameType

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.errors import describe_error
from mlbench.loadgen.completer import Completer
from mlbench.loadgen.lateness import LateCount
from mlbench.loadgen.ledger import Closed, Ledger
from mlbench.loadgen.replies import CheckedReply

logger = logging.getLogger(__name__)


class Sut:
    """Receives LoadGen's callbacks. None of them raises: an exception there would crash the process at exit."""

    def __init__(  # noqa: PLR0913 - a test has these parts
        self,
        engine: Engine,
        dataset: Dataset,
        reply: CheckedReply,
        ledger: Ledger,
        completer: Completer,
        *,
        late: LateCount | None = None,
    ) -> None:
        self._engine = engine
        self._dataset = dataset
        self._reply = reply
        self._ledger = ledger
        self._completer = completer
        self._late = late
        self._held: list[Closed] = []
        self._is_aborted = False
        self._holds_queries = False
        self.lost = ""
        """Reason why the engine can no longer answer; empty while it can."""
        self.lost_s = 0.0
        """Time of its loss, by the monotonic clock."""

    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Take a query: LoadGen's sample ids and their dataset indices."""
        ids, indices = tuple(ids), tuple(indices)  # the engine must not change what the ledger has
        self._ledger.open(ids, indices)
        if self._holds_queries:
            self._held.append(self._reply.hold(ids))
            return
        if self._is_aborted:
            self._completer.give_up(self._ledger.close(ids))
            return
        if self._late is not None:
            if self._late.is_over:
                self._hold(ids, self._late)
                return
            self._late.issued(ids)
        try:
            self._engine.submit(Samples(ids, indices, self._dataset), self._reply)
        except BaseException as error:  # an engine may call sys.exit
            logger.exception("submit failed")
            self._reply.fail_open(ids, describe_error(error))

    def flush(self) -> None:
        """No more queries are coming."""
        try:
            self._engine.flush()
        except BaseException as error:  # as in `issue`
            logger.exception("flush failed")
            self._ledger.fault_of_test(f"flush failed: {describe_error(error)}")
        while self._held:
            self._reply.release(self._held.pop())

    def _hold(self, ids: tuple[int, ...], late: LateCount) -> None:
        """Let a query wait until LoadGen, with too many of them open, sends no more."""
        if not late.is_ended:
            late.is_ended = True
            self._ledger.fault_of_test(late.reason)
        self._held.append(self._reply.hold(ids))

    def abort(self, reason: str) -> None:
        """Abort the run: fail every open sample by name, and complete those still to come without data."""
        self._is_aborted = True
        self._reply.fail_all(reason)

    def lose(self, reason: str, *, holds_queries: bool) -> None:
        """Abort the run since its engine is lost.

        With ``holds_queries`` those still to come are not completed before LoadGen has stopped sending: with enough of
        them open it stops early (`loadgen_settings`), and a test of many minutes is over in seconds.
        """
        self.lost_s, self.lost = time.monotonic(), reason
        self._holds_queries = holds_queries
        self._ledger.fault_of_test(reason)  # there may be no open sample to fail
        self.abort(reason)

    def engine_call(self) -> str:
        """Return which method of the engine LoadGen's thread is in, for a caller on another thread."""
        frame: FrameType | None = sys._current_frames().get(self._completer.issuer)
        methods = {Sut.issue.__code__: "submit", Sut.flush.__code__: "flush"}
        while frame:
            if frame.f_code in methods:
                return methods[frame.f_code]
            frame = frame.f_back
        return ""


class Qsl:
    """LoadGen's sample library over a dataset. A sample that cannot be loaded makes the run fail afterwards, by name.

    ``section`` is entered when samples have been loaded, and left before they are unloaded: between the two lies what
    LoadGen measures, and little else.
    """

    def __init__(self, dataset: Dataset, abort: Callable[[str], None], section: AbstractContextManager[object]) -> None:
        self._dataset = dataset
        self._abort = abort
        self._section = section
        self._entered = ExitStack()
        self.error: BaseException | None = None
        self.is_busy = False
        """Whether the dataset loads or unloads samples at this moment."""
        self.calls = 0
        """How many loads and unloads have finished."""

    def load(self, indices: Sequence[int]) -> None:
        """Load samples into memory, outside the measured time."""
        self._guard(self._dataset.load, indices)
        self._entered.enter_context(self._section)

    def unload(self, indices: Sequence[int]) -> None:
        """Free samples."""
        self._entered.close()
        self._guard(self._dataset.unload, indices)

    def _guard(self, call: Callable[[Sequence[int]], None], indices: Sequence[int]) -> None:
        self.is_busy = True
        try:
            call(indices)
        except BaseException as error:  # a dataset is not our code
            self.error = self.error or error
            self._abort(f"samples could not be loaded: {describe_error(error)}")
        finally:
            self.is_busy = False
            self.calls += 1
