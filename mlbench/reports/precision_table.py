"""Precisions and transforms of a model side by side: speed, memory, scores, and devices with room for the weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mlbench.comparison.effect import effect_of
from mlbench.comparison.spread import usual_mean
from mlbench.records.run_record import EXPORT, RunRecord, TargetRecord
from mlbench.reports.console import result, spell_target, verdict_in_a_word
from mlbench.reports.table import table as report_table
from mlbench.reports.text_table import TextTable, wrapped_table
from mlbench.reports.units import quantity

DEVICES_GB = (24, 40, 80, 141)
"""Memory of an A10 or L4, an A100, an H100, and an H200."""
_SHARED = ("workload", "backend", "scenario")
_FORMAT = re.compile(r"(?:nv|mx)?(?:fp|bf|int|uint)(\d{1,2})(?!\d)")


def precision_table(records: Sequence[RunRecord]) -> TextTable:
    """Return a table of precisions: speed, memory and accuracy, each with the change from the first one.

    Repeats share a row: the mean result of the valid ones, and the speed-up with its interval at 95 %. The base is the
    backend's first row if it has the scenario's first precision, else the scenario's first row. What all rows share is
    in the title. Of one workload with several scores each is a column; of several workloads the first one is shown.
    """
    groups: dict[tuple[str, str, str, str], list[RunRecord]] = {}
    for record in records:
        names = (record.workload, record.backend, record.scenario, record.precision_and_transform)
        groups.setdefault(names, []).append(record)
    shows_all = len({record.workload for record in records}) == 1
    scores = list(dict.fromkeys(name for runs in groups.values() for name in _scores_of(runs))) if shows_all else []
    rows, first = [], dict[tuple[str, ...], list[RunRecord]]()
    for names, runs in groups.items():
        anywhere = first.setdefault((names[0], names[2]), runs)
        stands_in = names[3] != anywhere[0].precision_and_transform
        base = first.setdefault(names[:3], anywhere if stands_in else runs)
        speed = (_result(runs), _speed(runs, base), _peak_memory(runs))
        of_scores = _each_score(runs, base, scores) if len(scores) > 1 else _score_and_loss(runs, base)
        rows.append((*names, *speed, *of_scores, _verdict(runs)))
    kept = [place for place in range(len(_SHARED)) if len({row[place] for row in rows}) > 1]
    title = " ".join(["precisions", *(name for place, name in enumerate(rows[0][:3]) if place not in kept)])
    kept += range(len(_SHARED), len(rows[0]))
    shown_scores = [f"{name} (loss)#" for name in scores] if len(scores) > 1 else ["score#", "loss#"]
    columns = (*_SHARED, "precision", "result#", "speed#", "peak memory#", *shown_scores, "verdict")
    shown = [[row[place] for place in kept] for row in rows]
    found = report_table("", [columns[place] for place in kept], shown)
    return wrapped_table(found, overflow="fold", title=title, title_style="bold")


def size_lines(records: Sequence[RunRecord], count: int) -> Iterator[str]:
    """Yield a line about the room that the weights of the full-size network take in each format of these runs.

    Args:
        records: runs of one workload.
        count: of its weights; 0: unknown, and nothing is yielded.
    """
    formats = (each.number_format.stores if each.number_format else each.precision for each in records)
    sizes = {name: count * int(found[1]) / 8e9 for name in formats if (found := _FORMAT.match(name))}
    if count and sizes:
        room = ", ".join(f"{name} {_spell_room(size_gb)}" for name, size_gb in sizes.items())
        size = f"{count / 1e9:.3g} billion" if count >= 1e9 else f"{count / 1e6:.3g} million"
        yield f"The {size} weights at full size: {room}. Cache and activations come on top."


def _spell_room(size_gb: float) -> str:
    least = next((device for device in DEVICES_GB if size_gb <= device), None)
    return f"{size_gb:.3g} GB ({f'fits in {least} GB' if least else f'too large for {DEVICES_GB[-1]} GB'})"


def _values(runs: Sequence[RunRecord]) -> list[float]:
    """Return the results of valid repeats; of all, where none is valid."""
    valid = [each for each in runs if each.verdict and each.verdict.is_valid]
    return [each.result.value for each in valid or runs if each.result and each.result.value]


def _result(runs: Sequence[RunRecord]) -> str:
    """Return the mean result of repeats; of one run the result, or its failure."""
    values, newest = _values(runs), runs[-1]
    if len(runs) == 1 or not values:
        return result(newest)
    unit = next(each.result.unit for each in runs if each.result)
    of = f" of {len(runs)}" if len(values) < len(runs) else ""
    return f"{quantity(usual_mean(values), unit)} ({len(values)}{of} runs)"


def _peak_memory(runs: Sequence[RunRecord]) -> str:
    """Return the device's memory if the backend reports it, else the process's; of repeats the smallest.

    The first run of a model may export or quantise it in its process, which the others do not; its note says so.
    """
    exports = " (with export)" if all(each.stages_ns.get(EXPORT) for each in runs) else ""
    device = [each.runtime.device_peak_memory_bytes for each in runs]
    host = [each.peak_memory_bytes for each in runs]
    for found, note in ((device, " (device)"), (host, exports)):
        if known := [each for each in found if each is not None]:
            return f"{min(known) / 2**30:.2f} GiB{note}"
    return "-"


def _speed(runs: Sequence[RunRecord], base: Sequence[RunRecord]) -> str:
    """Return the ratio of the speeds, with its interval where both sides were repeated."""
    ours, theirs = _values(runs), _values(base)
    if not ours or not theirs:
        return "-"
    is_more_better = all(each.result.higher_is_better for each in runs if each.result)
    if runs is not base and min(len(ours), len(theirs)) > 1:
        found = effect_of(theirs, ours, higher_is_better=is_more_better)
        return f"x {found.ratio:.2f} ({found.low:.2f} to {found.high:.2f})"
    ratio = usual_mean(ours) / usual_mean(theirs)
    return f"x {ratio if is_more_better else 1 / ratio:.2f}"


def _each_score(runs: Sequence[RunRecord], base: Sequence[RunRecord], names: Sequence[str]) -> Iterator[str]:
    """Yield the scores of these names, each with its loss from the base's in percent."""
    ours, theirs = _scores_of(runs), _scores_of(base)
    for name in names:
        found = ours.get(name)
        yield f"{spell_target(found)[0]} ({_spell_loss(found, theirs.get(name))})" if found else "-"


def _score_and_loss(runs: Sequence[RunRecord], base: Sequence[RunRecord]) -> tuple[str, str]:
    """Return the first score, and its loss from the base's in percent."""
    ours, theirs = _scores_of(runs), _scores_of(base)
    name = next(iter(ours), "")
    return (spell_target(ours[name])[0], _spell_loss(ours[name], theirs.get(name))) if name else ("-", "-")


def first_loss(runs: Sequence[RunRecord], base: Sequence[RunRecord]) -> tuple[str, float | None]:
    """Return the name of the first score of repeats, and its loss from the base's in percent; None: unknown."""
    name, target = next(iter(_scores_of(runs).items()), ("", None))
    return name, _loss(target, _scores_of(base).get(name)) if target else None


def _scores_of(runs: Sequence[RunRecord]) -> dict[str, TargetRecord]:
    """Return the scores of the newest run that has some: those with a target, the required ones first; perplexity."""
    scored = next((each.accuracy for each in reversed(runs) if each.accuracy), None)
    found: dict[str, TargetRecord] = {}
    for target in sorted(scored.shown if scored else [], key=lambda each: not each.required):
        if target.value is not None:
            found.setdefault(target.score, target)
    return found


def _spell_loss(target: TargetRecord, base: TargetRecord | None) -> str:
    lost = _loss(target, base)
    return "-" if lost is None else f"{lost:.2f} %"


def _loss(target: TargetRecord, base: TargetRecord | None) -> float | None:
    if target.value is None or base is None or not base.value:
        return None
    share = target.value / base.value
    return 100 * (share - 1 if target.lower_is_better else 1 - share)


def _verdict(runs: Sequence[RunRecord]) -> str:
    """Return whether all repeats count; else of how many which does not."""
    bad = [each for each in runs if not each.is_good]
    if not bad:
        return verdict_in_a_word(runs[-1])
    return verdict_in_a_word(bad[-1]) + (f" ({len(bad)} of {len(runs)})" if len(runs) > 1 else "")
