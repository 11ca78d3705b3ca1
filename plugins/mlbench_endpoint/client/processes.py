"""The processes that talk to servers: one, or several that share the requests where one would be the bottleneck."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO

from mlbench import UnavailableError
from mlbench.toolkit import SideProcess, usable_threads
from mlbench_endpoint.client.advice import to_hint
from mlbench_endpoint.client.messages import Message, RequestMessage, of_line, to_line
from mlbench_endpoint.client.settings import ClientSettings

ENDED = "the process that talks to servers ended"

_PATIENCE_S = 10.0
_MOST, _PLACES_EACH, _THREADS_EACH = 8, 128, 4
"""Most processes with ``auto``, fewest places of each if there are several, and threads of the machine for each."""


def choose_processes(settings: ClientSettings) -> int:
    """Return the number of processes: the user's, or one for so many places and threads; never more than places."""
    options = settings.options
    if isinstance(wanted := options.client_processes, int):
        return min(wanted, options.most_requests)
    return max(1, min(_MOST, options.most_requests // _PLACES_EACH, usable_threads() // _THREADS_EACH))


class ClientProcesses:
    """Starts the processes, divides the places for requests among them, and deals requests out in turn."""

    def __init__(
        self, settings: ClientSettings, take: Callable[[Message], None], lose: Callable[[Callable[[int], bool]], None]
    ) -> None:
        """Store what is called, by one thread at a time.

        Args:
            settings: of all processes together.
            take: gets each report.
            lose: called when a process ended by itself; is given a function that says whether a request was its.
        """
        self._settings = settings
        self._take = take
        self._lose = lose
        self._lock = threading.Lock()
        self._is_leaving = False
        self._processes: list[SideProcess] = []
        self._readers: list[BinaryIO] = []
        self._threads: list[threading.Thread] = []

    @property
    def pids(self) -> list[int]:
        """The processes' numbers."""
        return [each.pid for each in self._processes]

    def start(self) -> str:
        """Start them; each asks every target for its models. Return the model's name.

        Raises:
            UnavailableError: a target does not answer, or does not have the model.
        """
        count, most = choose_processes(self._settings), self._settings.options.most_requests
        self._processes = [SideProcess("mlbench_endpoint.client.process") for _ in range(count)]
        self._readers = [each.line.makefile("rb") for each in self._processes]
        try:
            for place, process in enumerate(self._processes):
                options = replace(self._settings.options, connections=most // count + (place < most % count))
                process.line.sendall(replace(self._settings, options=options).to_line())
            greetings = [json.loads(each.readline()) for each in self._readers]
        except (OSError, ValueError):
            greetings = [{"refused": ENDED}]
        if refused := next((each for each in greetings if "refused" in each), None):
            raise UnavailableError(f"{refused['refused']}.", hint=to_hint(refused.get("advice", "")))
        for place in range(count):
            thread = threading.Thread(target=self._listen, args=(place,), name="mlbench-endpoint", daemon=True)
            self._threads.append(thread)
            thread.start()
        return str(greetings[0]["ready"])

    def send(self, message: RequestMessage) -> None:
        """Give a request to the process whose turn it is; raises OSError if that is gone."""
        self._processes[message.id % len(self._processes)].line.sendall(to_line(message))

    def close(self) -> None:
        """Close the sockets, which ends the processes and the threads; open requests are dropped."""
        self._is_leaving = True
        for process in self._processes:
            process.hang_up()
        for process in self._processes:
            process.wait(_PATIENCE_S)
        for thread in self._threads:
            thread.join()
        for reader, process in zip(self._readers, self._processes, strict=True):
            reader.close()
            process.line.close()

    def _listen(self, place: int) -> None:
        """Pass on a process's reports, until it ends; its unanswered requests are lost then."""
        try:
            with suppress(OSError):  # it was killed
                for line in self._readers[place]:
                    if line.endswith(b"\n"):  # else it was killed while it wrote
                        message = of_line(line)
                        with self._lock:
                            self._take(message)
        finally:
            if not self._is_leaving:
                with self._lock:
                    self._lose(lambda number: number % len(self._processes) == place)
