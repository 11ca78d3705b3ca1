"""All checks of a backend in a process of its own: when it crashes, hangs or leaves, a fresh one goes on."""

from __future__ import annotations

import copy
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlbench.conformance.kit import checks_for
from mlbench.conformance.subject import Check, Subject, demanded_by
from mlbench.contracts.graph import Precision
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError, PluginError, UnavailableError, UsageError
from mlbench.execution.isolation import Channel, Failure, Limits, call_isolated
from mlbench.tuning import filled

_MEMORY_SHARE = 0.95
_LONGEST_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which backend to examine, and how."""

    backend: str
    """Its name, as in `mlbench list`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """``backend.<option>`` to value, as typed."""
    precision: Precision | None = None
    """None: what the backend prefers."""
    timeout_s: float = 60.0
    """For each graph that a check compiles, and for the rest of it."""

    def subject(self) -> Subject:
        """Return the backend on trial.

        Raises:
            UsageError: the backend or a setting is unknown, or the precision is not offered.
            PluginError: the backend is broken, or cannot run here.
        """
        backend = copy.copy(Plugins.discover().backend(self.backend))
        backend.options = filled(backend.options, "backend", self.settings)
        probe = backend.probe()
        if not probe.is_available:
            raise UnavailableError(f"{self.backend} cannot run here: {probe.reason}.", hint=probe.install)
        if self.precision and self.precision not in probe.precisions:
            offered = ", ".join(probe.precisions)
            raise UsageError(f"{self.backend} does not offer {self.precision}.", hint=f"It offers: {offered}.")
        patience_s = min(_LONGEST_PATIENCE_S, self.timeout_s / 2)
        precision = Precision(self.precision or probe.precisions[0])
        return Subject(backend=backend, precision=precision, patience_s=patience_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one check went."""

    check: str
    demand: str
    """What it demands, in a sentence."""
    seconds: float
    reason: str
    """What was found and what was wanted; empty when the check passed."""
    hint: str
    """What the backend's author should do."""

    @property
    def passed(self) -> bool:
        """Tell whether the backend kept what the check demands."""
        return not self.reason


def examine(request: Request, log: Path, on_finding: Callable[[Finding], None]) -> list[Finding]:
    """Run all checks that apply to a backend, and return how each went, in order.

    What the backend prints goes to ``log``; ``on_finding`` hears each finding as soon as there is one.

    Raises:
        UsageError: as `Request.subject` does.
        PluginError: as `Request.subject` does; or a process ended before it began a check.
    """
    examination = _Examination(checks_for(request.subject().backend), on_finding)
    while remaining := examination.remaining:
        payload = {
            "backend": request.backend,
            "settings": dict(request.settings),
            "precision": request.precision,
            "timeout_s": request.timeout_s,
            "checks": remaining,
        }
        limits = Limits(stage_timeout_s=request.timeout_s, memory_bytes=_memory_allowed())
        outcome = call_isolated(f"{__name__}:{run_checks.__name__}", payload, log, limits, examination.hear)
        if isinstance(outcome, Failure):
            reason, hint = f"{outcome.kind}: {outcome.message}", f"The end of {log} says more."
            examination.end(reason, hint)
            if examination.remaining == remaining:
                raise PluginError(f"no check could begin: {reason}.", hint=hint)
    return examination.findings


def run_checks(payload: Mapping[str, Any], channel: Channel) -> Mapping[str, Any]:
    """Run checks one after another, in the child; the channel hears when each begins, what it compiles, how it went."""
    names = payload["checks"]
    subject = Request(**{key: value for key, value in payload.items() if key != "checks"}).subject()
    subject = replace(subject, on_compiled=channel.alive)
    checks = {check.__name__: check for check in checks_for(subject.backend)}
    for name in names:
        channel.progress(name)
        reason = hint = ""
        try:
            checks[name](subject)
        except MlbenchError as error:
            reason, hint = error.message, error.hint
        except Exception as error:  # a backend may raise anything
            traceback.print_exc()
            reason, hint = f"{type(error).__name__}: {error}", "The traceback is in the log."
        channel.progress(name, reason=reason, hint=hint)
    return {}


class _Examination:
    """What is known of the checks so far. A child tells of each check twice: when it begins, and when it is over."""

    def __init__(self, checks: tuple[Check, ...], on_finding: Callable[[Finding], None]) -> None:
        self._demands = {check.__name__: demanded_by(check) for check in checks}
        self._on_finding = on_finding
        self._in_progress = ""
        self._began_s = 0.0
        self.findings: list[Finding] = []

    @property
    def remaining(self) -> list[str]:
        """The checks that have no finding yet."""
        return list(self._demands)[len(self.findings) :]

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take a message of the child."""
        if "reason" in message:
            self._note(message["stage"], message["reason"], message["hint"])
        elif message["stage"] != self._in_progress:
            self._in_progress, self._began_s = message["stage"], time.monotonic()

    def end(self, reason: str, hint: str) -> None:
        """Hold the end of a child against the check in progress, if there is one."""
        if self._in_progress:
            self._note(self._in_progress, reason, hint)

    def _note(self, check: str, reason: str, hint: str) -> None:
        seconds = time.monotonic() - self._began_s
        self._in_progress = ""
        finding = Finding(check=check, demand=self._demands[check], seconds=seconds, reason=reason, hint=hint)
        self.findings.append(finding)
        self._on_finding(finding)


def _memory_allowed() -> int:
    import psutil

    return int(_MEMORY_SHARE * psutil.virtual_memory().total)
