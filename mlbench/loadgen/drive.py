"""One test: LoadGen drives an engine, and writes its logs to a folder."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import mlperf_loadgen

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine
from mlbench.errors import DataError, MlbenchError, describe_error
from mlbench.loadgen.audit_file import hand_over
from mlbench.loadgen.completer import Completer
from mlbench.loadgen.lateness import LateCount
from mlbench.loadgen.ledger import Ledger
from mlbench.loadgen.network import Network, dispatch_library
from mlbench.loadgen.replies import CheckedReply
from mlbench.loadgen.settings import Test, late_allowed, late_limits, loadgen_settings
from mlbench.loadgen.sut import Qsl, Sut
from mlbench.loadgen.watchdog import ProgressCallbacks, Watchdog, Watched

_SWITCH_INTERVAL_S = 0.0005
"""How long a Python thread may hold the GIL; the default of 5 ms would show in every latency."""

_GATHER_S = 0.01
"""How long replies of an Offline query may wait for each other: only the end of the whole query is timed there, and for
that none waits. A shorter wait takes the interpreter from engines with short calls more often."""

_LONGEST_PAUSE = 30.0
"""Between two arrivals in Server, in mean intervals: one of 10^13 is longer."""

_NOTHING = nullcontext()


class Traffic:
    """Counts and faults of a test, as the SUT saw it. A reply after the test still becomes a fault."""

    def __init__(self, ledger: Ledger, late: LateCount | None = None) -> None:
        self._ledger = ledger
        self.late = late
        """The count of late samples; None where nothing ends a test early."""

    @property
    def issued(self) -> int:
        """How many samples LoadGen sent."""
        return self._ledger.issued

    @property
    def answered(self) -> int:
        """How many were answered, soundly or not."""
        return self._ledger.answered()

    @property
    def faults(self) -> list[str]:
        """A line for each invalid reply, naming the sample; empty if there was none."""
        return self._ledger.faults()


def drive(  # noqa: PLR0913 - a test has these parts
    test: Test,
    engine: Engine,
    dataset: Dataset,
    folder: Path,
    callbacks: ProgressCallbacks,
    *,
    section: AbstractContextManager[object] = _NOTHING,
    network: Network | None = None,
) -> Traffic:
    """Run one test; LoadGen's logs are in ``folder``, which is created.

    Call it from one thread of the process at a time. ``section`` is entered when samples are loaded, and left when they
    have been answered; it must not raise. ``network`` is how an engine is reached that is on other machines, of a
    test that says so (`Test.is_remote`).

    Raises:
        DataError: the dataset could not load a sample.
        MlbenchError: LoadGen left no summary.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger()
    most = late_allowed(test, dataset.count)
    late = None if most is None else LateCount(late_limits(test), most)
    gather_s = _GATHER_S if test.scenario.sends_all_at_once else 0
    lasting = network.threads() if network else ()
    with Completer(ledger.fault, gather_s=gather_s, late=late, lasting=lasting) as completer:
        wants_tokens = test.tokens is not None
        reply = CheckedReply(
            test.reply,
            ledger,
            completer,
            wants_tokens=wants_tokens,
            needs_first_tokens=wants_tokens and not test.scenario.sends_all_at_once,
        )
        sut = Sut(engine, dataset, reply, ledger, completer, late=late)
        qsl = Qsl(dataset, sut.abort, section)
        watched = Watched(ledger=ledger, completer=completer, sut=sut, qsl=qsl, folder=folder)
        idle_s = _LONGEST_PAUSE / test.load.target_qps if test.scenario.sends_rate else 0.0
        watchdog = Watchdog(watched, stall_timeout_s=test.load.stall_timeout_s, idle_s=idle_s, callbacks=callbacks)
        with watchdog, _quiet_interpreter():
            _start(test, _handle(test, sut, network), qsl, dataset, folder)
        reply.shut()
    if isinstance(qsl.error, MlbenchError):
        raise qsl.error
    if qsl.error:
        raise DataError(f"a sample cannot be loaded: {describe_error(qsl.error)}.") from qsl.error
    summary = folder / "mlperf_log_summary.txt"
    if not summary.is_file() or not summary.stat().st_size:
        raise MlbenchError(f"LoadGen left no summary in {folder}.", hint="Is the disk full?")
    return Traffic(ledger, late)


@contextmanager
def _fast_sut(sut: Sut) -> Iterator[int]:
    handle = mlperf_loadgen.ConstructFastSUT(sut.issue, sut.flush)  # plain lists: a third of the cost per sample
    try:
        yield handle
    finally:
        mlperf_loadgen.DestroyFastSUT(handle)


@contextmanager
def _handle(test: Test, sut: Sut, network: Network | None) -> Iterator[int]:
    assert test.is_remote is bool(network)
    with dispatch_library(sut, network.names) if network and network.names else _fast_sut(sut) as handle:
        if network is None:
            yield handle
            return
        with network.watch(partial(sut.lose, holds_queries=test.scenario.sends_rate)):
            yield handle


def _start(test: Test, sut: AbstractContextManager[int], qsl: Qsl, dataset: Dataset, folder: Path) -> None:
    loaded = test.load.performance_sample_count or dataset.performance_count
    library = mlperf_loadgen.ConstructQSL(dataset.count, min(loaded, dataset.count), qsl.load, qsl.unload)
    try:
        with sut as handle, hand_over(test.audit) as audit_file:
            mlperf_loadgen.StartTestWithLogSettings(
                handle, library, loadgen_settings(test, dataset.count), _log_settings(folder), audit_file
            )
    finally:
        mlperf_loadgen.DestroyQSL(library)


def _log_settings(folder: Path) -> mlperf_loadgen.LogSettings:
    output = mlperf_loadgen.LogOutputSettings()
    output.outdir = str(folder)
    log = mlperf_loadgen.LogSettings()
    log.log_output = output
    log.enable_trace = False  # a trace grows with every sample
    return log


@contextmanager
def _quiet_interpreter() -> Iterator[None]:
    """Keep Python from adding pauses while LoadGen measures; a heap that its owner has frozen stays so afterwards."""
    interval_s = sys.getswitchinterval()
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.collect()
    if not was_frozen:
        gc.freeze()
    gc.disable()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        if was_enabled:
            gc.enable()
        if not was_frozen:
            gc.unfreeze()
