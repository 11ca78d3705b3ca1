"""The process that samples servers' metrics, so that neither LoadGen's process nor the client's parses them.

It reads and writes lines of JSON on a socket. The first line has its settings, a `MetricsSettings`; it answers whether
all servers have metrics, and ends if not. From then on it takes a sample each second; to each further line it answers
with one more and all before it, and keeps that one as the first of the next. It exits when the other side closes the
socket.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from mlbench_endpoint.client.access import Access
from mlbench_endpoint.client.connection import Connection
from mlbench_endpoint.client.failure import RequestFailed
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.servers.server_metrics import MetricsSample, read_metrics, samples_to_json

PERIOD_S = 1.0
_MOST_BYTES = 1 << 22
_PATIENCE_S = 2.0
_MOST_SAMPLES = 100_000
"""Beyond a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where the metrics are."""

    urls: Sequence[str]
    options: EndpointOptions
    """How they are reached; without variables no secret is sent."""


class MetricsSampler:
    """Reads the metrics of all servers."""

    def __init__(self, settings: MetricsSettings) -> None:
        access = Access.of_options(settings.options)
        self._servers = []
        for url in settings.urls:
            parts = urlsplit(url)
            target = f"{parts.scheme}://{parts.netloc}"
            self._servers.append((Connection(target, access=access, timeout_s=_PATIENCE_S), parts.path.lstrip("/")))

    def sample(self) -> MetricsSample | None:
        """Return the metrics now; None if a server has none, or sends something else."""
        found = []
        for connection, path in self._servers:
            try:
                body = connection.send("GET", path, end_s=time.monotonic() + _PATIENCE_S).read_rest(_MOST_BYTES)
                found.append(read_metrics(body.decode()))
            except (OSError, http.client.HTTPException, RequestFailed, ValueError):
                connection.close()
                return None
        sample = MetricsSample.of_servers(time.monotonic_ns(), found)
        return sample if sample.values else None


def _serve(line: socket.socket) -> None:
    reader = line.makefile("rb")
    settings = json.loads(reader.readline())
    sampler = MetricsSampler(MetricsSettings(urls=settings["urls"], options=EndpointOptions(**settings["options"])))
    samples = [sample] if (sample := sampler.sample()) else []
    line.sendall(json.dumps(bool(samples)).encode() + b"\n")
    if not samples:
        return
    due_s = time.monotonic() + PERIOD_S
    while True:
        ready, _, _ = select.select([line], [], [], max(0.0, due_s - time.monotonic()))
        if ready and not reader.readline():
            return
        if (sample := sampler.sample()) and len(samples) < _MOST_SAMPLES:
            samples.append(sample)
        if ready:
            line.sendall(json.dumps(samples_to_json(samples)).encode() + b"\n")
            samples = samples[-1:]
        due_s = max(due_s + PERIOD_S, time.monotonic())


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, ConnectionError):
        _serve(socket.socket(fileno=int(sys.argv[1])))
