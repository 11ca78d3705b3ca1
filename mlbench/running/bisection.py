"""Makes the runs of a bisection, and keeps them, so that a repeated command continues with them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlbench.comparison.bisection import Bisected, Rule, Seen, Tried, differ, judge, least_seen, mean_value, ratio_of
from mlbench.comparison.bisection_order import VersionMark, next_place, suspects
from mlbench.comparison.kinds import KINDS
from mlbench.errors import MlbenchError, UsageError
from mlbench.planning.requests import RunRequest
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_folder import make_results_folder
from mlbench.running.installations import Installations
from mlbench.running.kept_runs import KeptRuns, tag_of
from mlbench.running.turns import arguments_of
from mlbench.system.locks import hold_lock

FOLDER = ".bisect"
"""In the results folder; hidden, so that its runs are not part of a history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notices:
    """Is told what a bisection does."""

    on_run: Callable[[int, RunRecord], None] = lambda place, record: None
    """The place of a version, and its run."""
    on_verdict: Callable[[int, Tried], None] = lambda place, tried: None
    on_step: Callable[[float], None] = lambda seconds: None
    """The ends differ; a run takes so long."""
    on_doubt: Callable[[], None] = lambda: None
    """The version that was found does not differ from the one before it: all are looked at once more."""


@dataclass(slots=True, kw_only=True)
class Bisection:
    """A bisection in its folder."""

    installations: Installations
    request: RunRequest
    """The request of each run; its results folder holds the bisection's."""
    measure: str
    rule: Rule
    told: Notices = field(default_factory=Notices)
    _groups: list[Sequence[float]] = field(default_factory=list)
    """The differences by which each version was judged so far."""
    _seen: dict[int, Seen] = field(default_factory=dict)
    """What each version was judged by."""
    _kept: KeptRuns = field(init=False)

    def __post_init__(self) -> None:
        names = tuple(version.name for version in self.installations.versions)
        self._kept = KeptRuns(folder=self.folder, versions=names, measure=self.measure, is_exact=self.rule.is_exact)

    @property
    def folder(self) -> Path:
        """The folder of this question: the same versions, and the same request."""
        asked = [*self.installations.key, *arguments_of(replace(self.request, tag="", results=Path("/")))]
        key = hashlib.sha256("\n".join(asked).encode(errors="backslashreplace")).hexdigest()[:12]
        return self.request.results / FOLDER / key

    def run(self) -> Bisected:
        """Measure versions until the first bad one is found, or none is left that could be judged.

        Raises:
            UsageError: an end cannot be measured, or another process works on the same question.
        """
        make_results_folder(self.folder)
        with _hold(self.folder):
            self._kept.load()
            found = self._search()
            self.installations.clean_up(0, self.folder)
        return found

    def count_stored(self) -> int:
        """Return how many runs are stored."""
        return self._kept.count_stored()

    def _search(self) -> Bisected:
        last = len(self.installations.versions) - 1
        end, seen = self._try(last, None)
        known = {0: Tried(mark=VersionMark.GOOD), last: end}
        has_step = end.mark is VersionMark.BAD
        if has_step and seen:
            self.told.on_step(self._kept.usual_seconds())
            found = self._narrow(known, seen.mean)
            known = found if self._is_sure(found) else self._narrow_strictly(known, found, seen.mean)
        known[0] = self._describe(0, VersionMark.GOOD, 0.0)
        good = self._kept.of(0)[0].reading
        return Bisected(
            versions=self.installations.versions,
            tried=dict(sorted(known.items())),
            measure=good.name,
            unit=good.unit,
            is_amount=self._is_amount(),
            detectable=least_seen(seen, self.rule) if seen and not has_step else None,
        )

    def _narrow(self, ends: Mapping[int, Tried], step: float) -> dict[int, Tried]:
        """Try versions between the ends until none is left that could be judged."""
        known = dict(ends)
        while (place := next_place({place: each.mark for place, each in known.items()})) is not None:
            known[place], _ = self._try(place, step)
        return known

    def _is_sure(self, known: Mapping[int, Tried]) -> bool:
        """Return whether the version that was found differs from the one before it; true where several are left."""
        *others, bad = suspects({place: each.mark for place, each in known.items()})
        if others or bad == 1 or self.rule.is_exact:
            return True
        return differ(self._seen[bad], self._seen[bad - 1])

    def _narrow_strictly(self, ends: Mapping[int, Tried], found: Mapping[int, Tried], step: float) -> dict[int, Tried]:
        """Look at the versions once more, where the number changed in parts; what was made counts again."""
        self.told.on_doubt()
        self.rule, self._groups = replace(self.rule, is_strict=True), self._groups[:1]
        doubted = {
            place: replace(each, mark=VersionMark.CANNOT_TELL) for place, each in found.items() if not each.reason
        }
        return {**found, **doubted, **self._narrow(ends, step)}

    def _try(self, place: int, step: float | None) -> tuple[Tried, Seen | None]:
        """Measure a version until it has a verdict or is skipped; ``step`` as of `judge`.

        A run whose partner comes too late makes no pair, so that more runs are made than pairs: at most twice as many.
        """
        mark, seen = None, None
        for _ in range(4 * self.rule.most + 1):
            found = self._kept.differences(place)
            mark, seen = judge([*self._groups, found], self.rule, step)
            if mark:
                break
            reason = "" if step is None else self._kept.why_skipped(place)
            if reason := reason or self._make_next(place, is_end=step is None):
                return self._skip(place, reason), None
        if seen:
            self._groups.append(found[: seen.pairs])
            self._seen[place] = seen
        tried = self._describe(place, mark or VersionMark.CANNOT_TELL, seen.mean if seen else None)
        self.installations.clean_up(place, self.folder)
        self.told.on_verdict(place, tried)
        return tried, seen

    def _skip(self, place: int, reason: str) -> Tried:
        """Note that a version cannot be measured; a repeated command does not try it again."""
        self._kept.note_skipped(place, reason)
        self.installations.clean_up(place, self.folder)
        tried = self._describe(place, VersionMark.SKIPPED, None, reason)
        self.told.on_verdict(place, tried)
        return tried

    def _make_next(self, place: int, *, is_end: bool) -> str:
        """Make the next run for a version; return the reason where it cannot be measured."""
        which = place
        try:
            self.installations.command(place, self.folder)  # it may take long, so it comes before a pair and not in it
            which = self._kept.next_of(place)
            command = self.installations.command(which, self.folder)
            record = command.run(replace(self.request, results=self._kept.results, tag=tag_of(which)))
            self.told.on_run(which, record)
            reason = self._kept.take_in(which, record)
        except MlbenchError as error:
            reason = error.message.removesuffix(".")
        if reason:
            if which == place and not is_end:
                return reason
            name = self.installations.versions[which].name
            raise UsageError(f"{name} cannot be measured: {reason}.", hint="Both ends must run.")
        return ""

    def _is_amount(self) -> bool:
        good = self._kept.of(0)
        return bool(good) and KINDS[good[0].reading.kind].is_amount

    def _in_direction(self, ratio: float) -> float:
        """Return a ratio as reports show it: of an amount, 2 is twice as much."""
        return 1 / ratio if self._is_amount() and ratio else ratio

    def _describe(self, place: int, mark: VersionMark, mean: float | None, reason: str = "") -> Tried:
        values = [run.reading.value for run in self._kept.of(place)]
        return Tried(
            mark=mark,
            runs=len(values),
            value=mean_value(values, self.rule),
            ratio=None if mean is None else self._in_direction(ratio_of(mean, self.rule)),
            reason=reason,
        )


@contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder."""
    try:
        with hold_lock(folder, patience_s=0):
            yield
    except BlockingIOError:
        raise UsageError(f"another mlbench bisect works on {folder}.", hint="Wait until it is finished.") from None
