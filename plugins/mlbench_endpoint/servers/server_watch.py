"""The engine's side of the process that samples servers' metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from mlbench import UnavailableError, UsageError
from mlbench.toolkit import SideProcess
from mlbench_endpoint.client.access import has_address
from mlbench_endpoint.client.request_times import RequestTimes
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.servers.metrics_process import MetricsSettings
from mlbench_endpoint.servers.server_metrics import (
    MetricsSample,
    ServerMetrics,
    compare_counts,
    summarise_metrics,
    write_metrics,
)

_PATIENCE_S = 20.0
"""Longest wait for samples: one takes up to 2 s for each server."""


class ServerWatch:
    """Samples servers' metrics between its start and its end; without metrics it has no samples."""

    def __init__(
        self, settings: MetricsSettings, *, is_required: bool, file: Path | None = None, is_alone: bool = True
    ) -> None:
        """Store the settings.

        Args:
            settings: where the metrics are.
            is_required: whether it is an error if there are none.
            file: CSV file for the samples.
            is_alone: whether all requests of the run are this engine's, so that counts can be compared.
        """
        self._settings = settings
        self._is_required = is_required
        self._file = file
        self._is_alone = is_alone
        self._process: SideProcess | None = None

    def start(self) -> None:
        """Start the process that samples."""
        self._process = SideProcess("mlbench_endpoint.servers.metrics_process")
        self._process.line.settimeout(_PATIENCE_S)
        self._answers = self._process.line.makefile("rb")
        self._send(asdict(self._settings))

    def expect_metrics(self) -> None:
        """Wait for the first samples; without any, end the process.

        Raises:
            UnavailableError: the metrics are required, and a server has none that are known.
        """
        if self._receive() is not True:
            self.end()
            if self._is_required:
                where = ", ".join(self._settings.urls)
                raise UnavailableError(
                    f"{where} shows no metrics of vLLM, SGLang, TensorRT-LLM or Triton.",
                    hint="Check --metrics (backend.metrics), or leave it out.",
                )

    def take(self) -> Sequence[MetricsSample]:
        """Return the samples since the last call, with one from then and one from now."""
        self._send("samples")
        found = self._receive()
        return [MetricsSample(**each) for each in found] if isinstance(found, list) else []

    def report(self, times: RequestTimes, end_tokens: int = 0) -> ServerMetrics | None:
        """Return a summary of the samples since the last call, and write them; None where there are none.

        Args:
            times: all requests since then.
            end_tokens: end tokens that only one side may count.
        """
        samples = self.take()
        found = summarise_metrics(samples)
        if not found:
            return None
        if self._file:
            with suppress(OSError):  # a full disk; the record has the summary
                write_metrics(samples, self._file)
        if not self._is_alone or times.failed_ns:  # the server counts tokens of failed requests too
            return found
        columns = times.columns()
        ours = {"prompt_tokens": int(columns.prompt_tokens.sum()), "answer_tokens": int(columns.answer_tokens.sum())}
        return replace(found, remarks=tuple(compare_counts(found, **ours, end_tokens=end_tokens)))

    def end(self) -> None:
        """End the process."""
        if self._process:
            self._process.kill()
            self._process.wait(_PATIENCE_S)
            self._answers.close()
            self._process.line.close()
            self._process = None

    def _send(self, message: object) -> None:
        if self._process:
            with suppress(OSError):  # it ended, which its answer says
                self._process.line.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self) -> object:
        """Return the answer to a message; None: there is none, and the process is ended."""
        with suppress(OSError, ValueError):
            found: object = json.loads(self._answers.readline()) if self._process else None
            return found
        self.end()
        return None


def settings_of(options: EndpointOptions, targets: Sequence[str]) -> MetricsSettings | None:
    """Return where the metrics are that the options name; None: nowhere.

    Args:
        options: ``metrics`` is ``auto`` (``/metrics`` of the servers, if they have it), ``none`` or a URL. The key and
            the headers are sent to the servers only.
        targets: URLs of the servers.

    Raises:
        UsageError: ``metrics`` is none of them, or the parser is not installed for a URL.
    """
    metrics = options.metrics
    if metrics == "none":
        return None
    has_parser = find_spec("prometheus_client") is not None
    origins = list(dict.fromkeys(map(_origin_of, targets)))
    if metrics == "auto":
        urls = [f"{each}/metrics" for each in origins]
        return MetricsSettings(urls=urls, options=options) if has_parser else None
    is_http = metrics.startswith(("http://", "https://"))
    if not is_http or not has_address(metrics) or any(mark in metrics for mark in "@?#"):
        raise UsageError(
            f"backend.metrics is {metrics!r}." if "@" not in metrics else "backend.metrics contains a user.",
            hint="Give auto, none or a URL like http://localhost:8000/metrics.",
        )
    if not has_parser:
        raise UsageError("prometheus_client is not installed.", hint="pip install 'mlbench-inference[endpoint]'")
    if _origin_of(metrics) not in origins:
        options = replace(options, key_variable="", header_variables="")
    return MetricsSettings(urls=[metrics], options=options)


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
