"""Repeats a run alternately with two installations of mlbench: another command, and this one."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from mlbench.comparison.comparability import key_of, knowing
from mlbench.comparison.speeds import Sides
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.discovery import Plugins
from mlbench.errors import DataError, MlbenchError, StorageError, UsageError
from mlbench.planning.repeats import check_word, request_of
from mlbench.planning.requests import ResolvedRequest, RunRequest
from mlbench.records.environment import Environment, observe_environment
from mlbench.records.job_spec import transform_options
from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.run_folder import runs_in
from mlbench.rules.entry_demand import Division
from mlbench.settings.layers import SET_FOR_RUN, OwnWord
from mlbench.system.installed import versions_of
from mlbench.version import __version__

FOLDER = ".in-turns"
"""In the results folder; hidden, so that its runs are not part of a history."""


class Command:
    """Another installation's mlbench, such as ``old/bin/mlbench``."""

    text: str
    """As it was given."""

    def __init__(self, text: str) -> None:
        """Take a command line apart.

        Raises:
            UsageError: there is no such program.
        """
        self.text = text
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{text!r} is not a command: {error}.") from None
        if not self._words or not shutil.which(self._words[0]):
            raise UsageError(f"there is no program {text!r}.", hint="Name the other mlbench, such as old/bin/mlbench.")

    def run(self, request: RunRequest) -> RunRecord:
        """Make a run, and return its record.

        Raises:
            MlbenchError: it left none.
        """
        before = set(runs_in(request.results))
        done = subprocess.run(
            [*self._words, *arguments_of(request)], capture_output=True, text=True, check=False, errors="replace"
        )
        made = [folder for folder in runs_in(request.results) if folder not in before]
        if len(made) == 1:
            return read(made[0])
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise MlbenchError(
            f"{shlex.join(self._words)} left {len(made)} runs, not one (status {done.returncode}): {last}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """A request, and the function that makes its runs."""

    request: RunRequest
    run: Callable[[RunRequest], RunRecord]


def request_by_word(record: RunRecord, results: Path, plugins: Plugins, word: OwnWord) -> RunRequest:
    """Return `request_like` of a record that may be a stranger's.

    Raises:
        UsageError: it sets what only the user's own word may set.
    """
    check_word(record, dict(_set_by_hand(record)), plugins, word)
    return request_like(record, results)


def request_like(record: RunRecord, results: Path) -> RunRequest:
    """Return a request for the same run without accuracy, into a separate folder."""
    return replace(
        request_of(record),
        wants_accuracy=False,
        overrides={key: _as_text(key, value) for key, value in _set_by_hand(record)},
        results=results / FOLDER,
        tag=record.tag,
    )


def _set_by_hand(record: RunRecord) -> Iterator[tuple[str, Any]]:
    return ((key, each.value) for key, each in record.settings.items() if each.layer in SET_FOR_RUN)


def arguments_of(request: RunRequest) -> list[str]:
    """Return the command line of a request, without the program."""
    options = {
        "--backend": request.backend,
        "--scenario": request.scenario,
        "--profile": request.profile,
        "--tier": request.tier,
        "--weights": request.weights,
        "--precision": request.precision,
        "--tag": request.tag,
        "--power": request.power,
        "--round": "" if request.round == DEFAULT_ROUND else request.round,
        "--variant": request.entry.variant,
        "--category": request.entry.category,
        "--division": "" if request.entry.division == Division.CLOSED else request.entry.division,
        "--results": str(request.results.absolute()),
    }
    words = [
        "run",
        request.workload,
        *(word for name, value in options.items() if value for word in (name, str(value))),
    ]
    words += transform_options(request.transform)
    words += [] if request.wants_accuracy else ["--no-accuracy"]
    return [*words, *(word for key, value in request.overrides.items() for word in ("--set", f"{key}={value}"))]


def requests_in_turns(requests: Sequence[RunRequest], count: int) -> list[RunRequest]:
    """Return each request several times, interleaved A B C C B A, so that steady drift affects all equally."""
    return [
        replace(request, repeat=number)
        for number in range(1, count + 1)
        for request in (requests if number % 2 else reversed(requests))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeAgain:
    """Runs of some kinds to repeat on all sides, interleaved."""

    requests: tuple[tuple[RunRequest, ...], ...]
    """For each kind of run, a request per side."""
    records: tuple[tuple[RunRecord, ...], ...]
    """The runs that these repeat, likewise."""
    reasons: tuple[str, ...]
    """Reasons why the others cannot be repeated here."""

    def all_requests(self, count: int) -> list[RunRequest]:
        """Return all runs in their order, with a number of each."""
        return [request for of_a_kind in self.requests for request in requests_in_turns(of_a_kind, count)]

    def split(self, records: Sequence[RunRecord], count: int) -> list[list[RunRecord]]:
        """Return the records of each side.

        Raises:
            StorageError: one is missing.
        """
        sides = len(self.requests[0])
        if len(records) != count * sides * len(self.requests):
            message = f"{len(records)} of the interleaved runs are stored, so they cannot be compared."
            raise StorageError(message, hint="Make room.")
        found: list[list[RunRecord]] = [[] for _ in range(sides)]
        for number, record in enumerate(records):
            turn, place = divmod(number, sides)
            found[place if turn % count % 2 == 0 else sides - 1 - place].append(record)
        return found


def plan_again(  # noqa: PLR0913 - what is asked, and by whom
    sides: Sequence[Sequence[RunRecord]],
    keys: Collection[tuple[str, ...]],
    across: Collection[str],
    *,
    results: Path,
    plugins: Plugins,
    word: OwnWord,
) -> MadeAgain:
    """Return the requests that repeat the newest run of each side, for each requested kind of runs.

    Args:
        sides: the base first.
        keys: of kinds that all sides have (`comparability.key_of`).
        across: facts in which the sides may differ.
        results: the runs go into a hidden folder in it.
        plugins: must hold the runs'.
        word: what the user says, since the records may be a stranger's.
    """
    environment = observe_environment()
    newest = [{key_of(run, across): run for run in sorted(knowing(side), key=_created)} for side in sides]
    requests, repeated, reasons = [], [], dict[str, None]()
    for key in keys:
        runs = [side[key] for side in newest if key in side]
        why_not = [f"{run.run_id}: {why}" for run in runs if (why := why_not_again(run, environment))]
        reasons |= dict.fromkeys(why_not)
        if not why_not and len(runs) == len(sides):
            try:
                requests.append(tuple(request_by_word(run, results, plugins, word) for run in runs))
                repeated.append(tuple(runs))
            except UsageError as error:
                reasons[f"{error.message} {error.hint}".removesuffix(".")] = None
    return MadeAgain(requests=tuple(requests), records=tuple(repeated), reasons=tuple(reasons))


def _created(record: RunRecord) -> datetime:
    return record.created


def why_not_again(record: RunRecord, environment: Environment) -> str:
    """Return the reason why a run cannot be repeated here; empty if it can."""
    if record.imported:
        return "it was imported"
    then = record.environment
    if (then.machine, then.processor) != (environment.machine, environment.processor):
        return f"it was made on {then.processor} ({then.machine})"
    if record.mlbench_version != __version__:
        return f"it was made by mlbench {record.mlbench_version}"
    return next(_changed_software(then, environment), "")


def _changed_software(then: Environment, now: Environment) -> Iterator[str]:
    """Yield which software of a run is installed in another version, or from another commit of the same version.

    What was installed since took no part in the run; without what was removed since it cannot be made again anyway.
    A release that only fixes faults, ``2.14.4`` after ``2.14.3``, is the same version: it is listed beside the numbers.
    """
    libraries = versions_of(then.libraries) | now.libraries
    for name, version in then.libraries.items():
        installed = libraries.get(name, version)
        if _without_fixes(installed) != _without_fixes(version):
            yield f"it was made with {name} {version}, and {installed} is installed"
    for name in sorted(then.commits.keys() | (now.commits.keys() & then.libraries.keys())):
        before, after = (each.commits.get(name, "") for each in (then, now))
        if before != after:
            yield f"it was made with {name} of {_short(before)}, and {_short(after)} is installed"


def _without_fixes(version: str) -> str:
    """Return a version up to its second number, and what a build adds: ``2.14+cpu``."""
    released, plus, build = version.partition("+")
    return ".".join(released.split(".")[:2]) + plus + build


def _short(commit: str) -> str:
    return f"commit {commit[:12]}" if commit else "an unknown commit"


def tags_of_turns(command: str, base: RunRecord, new: RunRecord) -> tuple[str, str]:
    """Return the tags for each side's interleaved runs: the same whenever the same command asks about the same runs.

    `measure_in_turns` adds the number of the pair: runs of another installation are the first of their command each,
    so that their own numbers do not tell them apart.
    """
    asked = hashlib.sha256("\n".join((command, base.run_id, new.run_id)).encode()).hexdigest()[:12]
    return f"turns-{asked}-base", f"turns-{asked}-new"


def stored_pairs(base: RunRequest, new: RunRequest) -> dict[int, tuple[RunRecord, RunRecord]]:
    """Return the pairs that are stored with the tags of these requests, as an interrupted command left them.

    The key is a pair's number, from 1; one with a failed run is missing. Of a run that was made twice the newer one
    counts; requests without tags that tell them apart have no pairs.
    """
    if not base.tag or base.tag == new.tag:
        return {}
    found: dict[str, RunRecord] = {}
    for folder in runs_in(base.results):  # oldest first
        with suppress(DataError):
            record = read(folder)
            if record.status == "completed":
                found[record.tag] = record
    first = f"{base.tag}-"
    numbers = sorted(int(each) for tag in found if (each := tag.removeprefix(first)).isdecimal())
    pairs = {number: tuple(found.get(_numbered(each, number).tag) for each in (base, new)) for number in numbers}
    return {number: (one, other) for number, (one, other) in pairs.items() if one and other}


def _numbered(request: RunRequest, number: int) -> RunRequest:
    return replace(request, repeat=number, tag=f"{request.tag}-{number}" if request.tag else "")


def measure_in_turns(base: Maker, new: Maker, pairs: int) -> Sides:
    """Make both runs again, A B B A, so many times each; steady drift affects both equally.

    Pairs that an interrupted command with the same tags has stored are not made again.
    """
    stored = stored_pairs(base.request, new.request)
    made = [stored.get(number) or make_pair(base, new, number) for number in range(1, pairs + 1)]
    return Sides(base=tuple(one for one, _ in made), new=tuple(other for _, other in made))


def make_pair(base: Maker, new: Maker, number: int) -> tuple[RunRecord, RunRecord]:
    """Make the pair with this number, from 1: the base's run first where it is odd; the second has the first beside."""
    first, second = (base, new) if number % 2 else (new, base)
    one = first.run(_numbered(first.request, number))
    asked, partner = first.request, None
    if isinstance(asked, ResolvedRequest) and one.processor_time:  # made by this installation, on this machine
        partner = asked.spec(asked.results / one.run_id)
    other = second.run(replace(_numbered(second.request, number), partner=partner))
    return (one, other) if number % 2 else (other, one)


def _as_text(key: str, value: Any) -> str:
    """Return a setting as ``--set`` takes it."""
    if isinstance(value, Mapping):
        return ",".join(name if its is None else f"{name}={its}" for name, its in value.items())
    if value is None or isinstance(value, list):
        raise UsageError(
            f"{key} is {value!r}, which cannot be given on a command line.", hint="Interleave the runs by hand."
        )
    return str(value)
