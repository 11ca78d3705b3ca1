"""LoadGen's view of an engine: one system under test for every engine and scenario."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.loadgen.completer import Completer
from mlbench.loadgen.ledger import Ledger
from mlbench.loadgen.replies import CheckedReply

logger = logging.getLogger(__name__)


class Sut:
    """Takes LoadGen's callbacks. None of them raises: an exception there would bring the process down at exit."""

    def __init__(
        self, engine: Engine, dataset: Dataset, reply: CheckedReply, ledger: Ledger, completer: Completer
    ) -> None:
        self._engine = engine
        self._dataset = dataset
        self._reply = reply
        self._ledger = ledger
        self._completer = completer
        self._is_aborted = False

    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Take a query: LoadGen's sample ids and their dataset indices."""
        samples = Samples(ids, indices, self._dataset)
        self._ledger.open(samples)
        if self._is_aborted:
            self._completer.give_up(self._ledger.close(samples))
            return
        try:
            self._engine.submit(samples, self._reply)
        except Exception as error:  # an engine is not our code
            logger.exception("submit failed")
            self._reply.fail(self._ledger.still_open(samples), f"{type(error).__name__}: {error}")

    def flush(self) -> None:
        """No more queries come."""
        try:
            self._engine.flush()
        except Exception as error:  # an engine is not our code
            logger.exception("flush failed")
            self._ledger.fault([-1], f"flush failed: {type(error).__name__}: {error}")

    def abort(self, reason: str) -> None:
        """End the run soon: give up every open sample, naming it, and answer those still to come with nothing."""
        self._is_aborted = True
        ids, indices = self._ledger.open_samples()
        if ids:
            self._reply.fail(Samples(ids, indices, self._dataset), reason)


class Qsl:
    """LoadGen's sample library over a dataset. A sample that cannot be loaded ends the run after it, by name.

    ``section`` is entered when samples have been loaded, and left before they are unloaded: between the two lies what
    LoadGen measures, and little else.
    """

    def __init__(self, dataset: Dataset, abort: Callable[[str], None], section: AbstractContextManager[object]) -> None:
        self._dataset = dataset
        self._abort = abort
        self._section = section
        self._entered = ExitStack()
        self.error: Exception | None = None

    def load(self, indices: Sequence[int]) -> None:
        """Bring samples into memory, outside the measured time."""
        self._guard(self._dataset.load, indices)
        self._entered.enter_context(self._section)

    def unload(self, indices: Sequence[int]) -> None:
        """Let samples go."""
        self._entered.close()
        self._guard(self._dataset.unload, indices)

    def _guard(self, call: Callable[[Sequence[int]], None], indices: Sequence[int]) -> None:
        try:
            call(indices)
        except Exception as error:  # a dataset is not our code
            self.error = self.error or error
            self._abort(f"samples could not be loaded: {error}")
