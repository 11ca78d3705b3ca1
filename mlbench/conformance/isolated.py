"""Runs all checks of a plugin in a separate process: if it crashes, hangs or exits, a fresh one continues."""

from __future__ import annotations

import copy
import dataclasses
import faulthandler
import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import TypeAdapter

from mlbench.conformance.causes import cause_of, cause_of_hang, raised_in
from mlbench.conformance.hang_guard import HangGuard
from mlbench.conformance.kit import checks_for, modules_of_checks
from mlbench.conformance.subject import (
    Check,
    ModelKind,
    ModelRefusedError,
    Subject,
    UnansweredError,
    demand_of,
)
from mlbench.contracts.backend import Backend
from mlbench.contracts.precision import Precision
from mlbench.discovery import Plugins
from mlbench.discovery.guard import call_plugin
from mlbench.errors import MlbenchError, PluginError, UnavailableError, UsageError, describe_error, printable
from mlbench.execution.processes.failures import FailureKind
from mlbench.execution.processes.isolation import Channel, ChildFunction, Failure, ProcessLimits, call_isolated
from mlbench.settings.layers import fill_template
from mlbench.wire.progress import ProgressMessage

if TYPE_CHECKING:
    from mlbench.conformance.workload_subject import TrialSubject

_LONGEST_PATIENCE_S = 20.0
_SHARE_OF_TIMEOUT = 1 / 3
"""How much of a check's timeout it waits for a reply: it may do so twice in a row, and says then which one is lost."""

MOST_HANGS = 3
"""Checks in a row that may hit one and the same hang: each takes the whole timeout, and the next would tell no more."""

_GRACE_S = 10.0
"""How much longer than a check the process may be silent: inside the process a hang is reported with its position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """A request to check a backend."""

    backend: str
    """Its name, as in `mlbench list`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """``backend.<option>`` to value, as typed."""
    precision: Precision | None = None
    """None: what the backend prefers."""
    timeout_s: float = 60.0
    """For each graph that a check compiles, and for the rest of it."""

    def subject(self) -> Subject:
        """Return the backend under test.

        Raises:
            UsageError: the backend or a setting is unknown, or the precision is not offered.
            PluginError: the backend is broken, or cannot run here.
        """
        plugins = Plugins.discover()
        found = plugins.backend(self.backend)
        options = fill_template(found.options, "backend", self.settings)
        backend = call_plugin(lambda: _with_options(found, options), f"configuring {self.backend}")
        probe = plugins.probe(self.backend)
        if not probe.is_available:
            raise UnavailableError(f"{self.backend} cannot run here: {probe.reason}.", hint=probe.install)
        if self.precision and self.precision not in probe.precisions:
            offered = ", ".join(probe.precisions)
            raise UsageError(f"{self.backend} does not offer {self.precision}.", hint=f"It offers: {offered}.")
        patience_s = min(_LONGEST_PATIENCE_S, self.timeout_s * _SHARE_OF_TIMEOUT)
        precision = Precision(self.precision or probe.precisions[0])
        return Subject(backend=backend, precision=precision, patience_s=patience_s, timeout_s=self.timeout_s)

    def checks(self) -> Sequence[Check]:
        """Return the checks that apply; raises as `subject`."""
        return checks_for(self.subject().backend)

    def modules(self) -> Sequence[str]:
        """Return the modules that its checks import."""
        return modules_of_checks(Plugins.discover().backend(self.backend))


def _with_options(backend: Backend, options: Any) -> Backend:
    changed = copy.copy(backend)
    changed.options = options
    return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """How a check went."""

    reason: str = ""
    """The finding and the expectation; empty if the check passed."""
    hint: str = ""
    """The fix for the backend's author."""
    cause: str = ""
    """Equal for checks that failed with one cause; empty when the check passed."""
    raised_in: str = ""
    """Owner of the code that raised the error; empty if unknown."""
    refused: str = ""
    """The `ModelKind` that the backend will not run, for ``reason``: nothing was checked, so nothing failed."""
    taken: Sequence[str] = ()
    """The kinds of model that the backend took for the check."""
    is_hang: bool = False
    """Whether it failed because a call did not return, or nothing was answered, for as long as the kit waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(_Outcome):
    """The result of a check."""

    check: str
    demand: str
    """The requirement, in a sentence."""
    seconds: float
    is_left_out: bool = False
    """Whether it was not run, for ``reason``: the checks before it hit one and the same hang."""

    @property
    def passed(self) -> bool:
        """Return whether the check passed."""
        return not self.reason

    @property
    def failed(self) -> bool:
        """Return whether the check failed; one that was refused or not run did not."""
        return not self.passed and not self.refused and not self.is_left_out


class KitRequest(Protocol):
    """What a kit is asked for: a dataclass such as `CheckRequest`."""

    @property
    def timeout_s(self) -> float:
        """For each step of a check."""

    def subject(self) -> Subject | TrialSubject:
        """Return the subject of the checks."""

    def checks(self) -> Sequence[Callable[[Any], None]]:
        """Return the checks that apply."""

    def modules(self) -> Sequence[str]:
        """Return the modules that its checks import."""


def examine(
    request: KitRequest, log: Path, on_finding: Callable[[Finding], None], *, only: Sequence[str] = ()
) -> list[Finding]:
    """Run the checks that apply, and return how each went, in order.

    What the plugin prints goes to ``log``; ``on_finding`` is called with each finding as soon as there is one, with a
    refusal at the end: it is a failure if the backend took a model of that kind for another check.
    ``only`` names the checks to run; all when empty. Once `MOST_HANGS` checks in a row hit one and the same hang, the
    rest is not run.

    Raises:
        UsageError: as the request's ``checks``.
        PluginError: likewise; or a process ended before it began a check.
    """
    checks = [check for check in request.checks() if not only or check.__name__ in only]
    examination = _Examination(checks, on_finding)
    kind = f"{type(request).__module__}:{type(request).__name__}"
    function = ChildFunction(f"{__name__}:{run_checks.__name__}", ChecksAnswer, request.modules())
    while remaining := examination.remaining:
        asked = ChecksRequest(kind=kind, request=request, checks=remaining)
        limits = ProcessLimits.for_run(request.timeout_s + _GRACE_S)
        outcome = call_isolated(function, asked, log, limits, examination.on_message)
        if isinstance(outcome, Failure):
            reason, hint = f"{outcome.kind}: {outcome.message}", f"See the end of {log}."
            examination.end(reason, hint, is_hang=outcome.kind is FailureKind.HANG)
            if examination.remaining == remaining:
                raise PluginError(f"no check could begin: {reason}.", hint=hint)
        if hang := repeated_hang(examination.findings):
            examination.leave_out_rest(hang)
    return examination.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksRequest:
    """The request to the child: checks by name, and the request to the kit."""

    kind: str
    """The request's class: ``module:class``."""
    request: Any
    checks: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksAnswer:
    """The child finished its checks; it has reported each by then."""


def run_checks(asked: ChecksRequest, channel: Channel) -> ChecksAnswer:
    """Run checks one after another, in the child, until several in a row hit one and the same hang.

    The channel reports each check's start, compilations and result.
    """
    module, _, name = asked.kind.partition(":")
    request: KitRequest = TypeAdapter(getattr(importlib.import_module(module), name)).validate_python(asked.request)
    subject, by_name = request.subject(), {check.__name__: check for check in request.checks()}
    outcomes: list[_Outcome] = []
    for name in asked.checks:
        channel.progress(name)
        outcomes.append(_run_check(by_name[name], subject, channel))
        channel.progress(name, outcomes[-1])
        if repeated_hang(outcomes):
            break
    return ChecksAnswer()


_AnyOutcome = TypeVar("_AnyOutcome", bound=_Outcome)


def repeated_hang(ended: Sequence[_AnyOutcome]) -> _AnyOutcome | None:
    """Return the first of the last `MOST_HANGS` checks where all of them hit one and the same hang, else None.

    Checks of what the backend refuses do not count.
    """
    last = [each for each in ended if not each.refused][-MOST_HANGS:]
    is_repeated = len(last) == MOST_HANGS and all(each.is_hang for each in last)
    return last[0] if is_repeated and len({each.cause for each in last}) == 1 else None


def _run_check(check: Callable[[Any], None], subject: Any, channel: Channel) -> _Outcome:
    """Return how a check went; end the process where it never ends."""
    ended = threading.Lock()  # taken either by the check or by the thread that ends the process

    def end(reason: str) -> None:
        if not ended.acquire(blocking=False):
            return
        why = f"hang: {reason}"
        cause = cause_of_hang(reason)
        hang = _Outcome(reason=why, hint="The log has the stacks of all threads.", cause=cause, is_hang=True)
        channel.progress(check.__name__, hang)
        faulthandler.dump_traceback(all_threads=True)
        sys.stderr.flush()
        os._exit(1)

    def compiled() -> None:
        guard.progress()
        channel.alive()

    taken: list[ModelKind] = []
    with HangGuard(subject.timeout_s, end) as guard:
        callbacks = {"on_taken": taken.append} if isinstance(subject, Subject) else {}
        outcome = _outcome(check, replace(subject, on_compiled=compiled, on_stuck=end, **callbacks))
        outcome = replace(outcome, taken=sorted(set(taken)))
        if not ended.acquire(blocking=False):
            threading.Event().wait()  # too late: the process ends this moment
    return outcome


def _outcome(check: Callable[[Any], None], subject: Any) -> _Outcome:
    try:
        check(subject)
    except BaseException as error:  # a backend may raise anything, and call sys.exit
        if error.__cause__ or not isinstance(error, MlbenchError):
            traceback.print_exc()  # a runtime's own words, of which a message has one line
        if isinstance(error, MlbenchError):
            reason, hint = printable(error.message), printable(error.hint)
            hint = hint or ("The log has the full error." if error.__cause__ else "")
        else:
            reason, hint = describe_error(error), "The traceback is in the log."
        return _Outcome(
            reason=reason,
            hint=hint,
            cause=printable(cause_of(error)),
            raised_in=raised_in(error, subject.plugin),
            refused=error.kind if isinstance(error, ModelRefusedError) else "",
            is_hang=isinstance(error, UnansweredError),
        )
    return _Outcome()


class _Examination:
    """The results so far. A child reports each check twice: when it begins, and when it is over."""

    def __init__(self, checks: Sequence[Callable[[Any], None]], on_finding: Callable[[Finding], None]) -> None:
        self._demands = {check.__name__: demand_of(check) for check in checks}
        self._on_finding = on_finding
        self._in_progress = ""
        self._began_s = 0.0
        self.findings: list[Finding] = []
        self._refusals: list[Finding] = []

    @property
    def remaining(self) -> list[str]:
        """The checks that have no finding yet."""
        return list(self._demands)[len(self.findings) :]

    def on_message(self, message: ProgressMessage) -> None:
        """Take a message of the child."""
        if outcome := message.read(_Outcome):
            # a check that finished while its process was being ended is reported twice
            if self.remaining[:1] == [message.stage]:
                self._note(message.stage, outcome)
        elif message.stage != self._in_progress:
            self._in_progress, self._began_s = message.stage, time.monotonic()

    def end(self, reason: str, hint: str, *, is_hang: bool = False) -> None:
        """Attribute the end of a child to the check in progress, if any."""
        if self._in_progress:
            cause = cause_of_hang(reason) if is_hang else reason
            self._note(self._in_progress, _Outcome(reason=reason, hint=hint, cause=cause, is_hang=is_hang))

    def leave_out_rest(self, hang: Finding) -> None:
        """Note of the checks that remain that they are not run, because of a hang."""
        reason = f"not run: {MOST_HANGS} checks in a row hit the same hang as {hang.check}: {hang.reason}"
        hint = "Fix that first; `--only CHECK` runs one check alone."
        for check in self.remaining:
            demand = self._demands[check]
            self._add(Finding(check=check, demand=demand, seconds=0.0, reason=reason, hint=hint, is_left_out=True))

    def finish(self) -> list[Finding]:
        """Return all findings; a refusal of what was taken for another check becomes a failure."""
        taken_for = {kind: each.check for each in self.findings for kind in each.taken}
        self.findings = [_judge_refusal(each, taken_for) for each in self.findings]
        for each in self._refusals:
            self._on_finding(_judge_refusal(each, taken_for))
        return self.findings

    def _note(self, check: str, outcome: _Outcome) -> None:
        seconds = time.monotonic() - self._began_s
        self._in_progress = ""
        demand = self._demands[check]
        self._add(Finding(check=check, demand=demand, seconds=seconds, **dataclasses.asdict(outcome)))

    def _add(self, finding: Finding) -> None:
        self.findings.append(finding)
        if finding.refused:
            self._refusals.append(finding)
        else:
            self._on_finding(finding)


def _judge_refusal(finding: Finding, taken_for: Mapping[str, str]) -> Finding:
    if finding.refused not in taken_for:
        return finding
    other = taken_for[finding.refused]
    return replace(
        finding,
        refused="",
        reason=f"the backend refused {finding.refused}, but accepted them for the check {other}: {finding.reason}",
        cause=f"refused {finding.refused}, taken elsewhere",
        hint="Refuse a kind of model each time, or never: a plan's batching is a suggestion.",
    )
