"""An event loop in its own thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class EventLoopThread:
    """Runs coroutines in a daemon thread, and what they give to `asyncio.to_thread` in threads of its own.

    The loop outlives whatever its tasks raise: asyncio lets SystemExit and KeyboardInterrupt of one task end the loop,
    and with it all others.
    """

    def __init__(self, name: str) -> None:
        """Start it; the threads have this name."""
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._workers = self._new_workers()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def post(self, function: Callable[..., object], *arguments: object) -> None:
        """Have a function called in the loop; raises RuntimeError once it is closed."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Return the result of a coroutine; raises TimeoutError if it takes longer."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def drain(self, timeout_s: float) -> bool:
        """Wait for calls that were moved to threads, and return whether all have ended; none that waits is begun."""
        workers, self._workers = self._workers, self._new_workers()
        ending = threading.Thread(target=lambda: workers.shutdown(cancel_futures=True), daemon=True)
        ending.start()
        ending.join(timeout_s)
        return not ending.is_alive()

    def stop(self, timeout_s: float) -> None:
        """End the loop after what it does now; one that is blocked for longer than this is left, and ends later."""
        self._is_stopping = True
        with suppress(RuntimeError):  # it has ended this moment, and is closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _new_workers(self) -> ThreadPoolExecutor:
        workers = ThreadPoolExecutor(thread_name_prefix=self._name)
        self._loop.set_default_executor(workers)
        return workers

    def _run(self) -> None:
        while not self._is_stopping:
            self._turn(self._loop.run_forever)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._turn(lambda: self._loop.run_until_complete(asyncio.sleep(0)))  # they may end; none is waited for
        self._loop.set_exception_handler(self._note_leftover)
        self._loop.close()

    def _note_leftover(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what asyncio says of a task that did not end, when it is freed: at any later time, wherever that is."""
        logger.info("%s: %s", self._name, context["message"])

    def _turn(self, run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException:  # of a task or callback, which ended with it; the others are served on
            logger.exception("%s: the event loop goes on after this", self._name)
