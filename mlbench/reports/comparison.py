"""A comparison as a table, as Markdown for a CI summary, and as JUnit XML."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree

from mlbench.comparison.effect import Effect
from mlbench.comparison.kinds import KINDS, SPEED
from mlbench.comparison.outcome import Cell, Comparison, Guard, Judged
from mlbench.comparison.scores import Score
from mlbench.comparison.spread import usual_mean
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.reports.console import DISCLAIMER
from mlbench.reports.plain_text import markdown_text, single_line
from mlbench.reports.table import markdown_lines, table
from mlbench.reports.text_table import WIDTH, TextColumn, TextTable, build_table, fit_columns, print_line
from mlbench.reports.units import finite, quantity, tell_apart

COLUMNS = ("runs", "measure", "base", "new", "change", "interval", "detectable", "verdict")

LEFT_OUT: tuple[tuple[str, ...], ...] = ((), ("detectable",), ("detectable", "interval"))
"""Columns to drop on narrow terminals, in this order."""

WITHOUT_SIDES = ("detectable", "interval", "base", "new")
"""Columns to drop if names of runs still do not fit; --json has their values."""

NO_SIDES_NOTE = "Not shown at this width: base, new, interval, counts; a wider terminal or --json has them."
_COUNTS = re.compile(r", \d+ and \d+ runs$")
_NUMBER = re.compile(r"\d[\d.,]*%?")
_FAR = 10.0
"""Ratio from which an end of an interval says only that next to nothing is known."""

MOST_NAMED = 3
"""Most runs that are named for a difference; others are counted."""

WORSE = (SpeedVerdict.SLOWER, SpeedVerdict.WORSE, "less accurate", "missing", "no valid run")
"""Verdicts of rows that are regressions."""


def comparison_table(comparison: Comparison, width: int = WIDTH) -> TextTable:
    """Return a row per number, then one per score, with as many columns as fit; reasons follow below."""
    rows = list(comparison_rows(comparison))
    shared, short_rows = _without_shared_words(rows)
    choices = [_columns(each, left_out) for each in (rows, short_rows) for left_out in LEFT_OUT]
    least_rows = [(row[0], _COUNTS.sub("", row[1]), *row[2:]) for row in short_rows]
    fitting = fit_columns([*choices, _columns(least_rows, WITHOUT_SIDES)], width)
    styles = ["red" if row[-1] in WORSE else "yellow" if row[-1] == SpeedVerdict.SUSPECTED else "" for row in rows]
    has_names = any(column.cells == [row[0] for row in rows] for column in fitting)
    titles = {"title": single_line(shared)} if shared and not has_names else {}
    is_without_sides = "base" not in {column.heading for column in fitting}
    caption = f"{NO_SIDES_NOTE}\n{DISCLAIMER}" if is_without_sides else DISCLAIMER
    return build_table(fitting, width, styles=styles, **titles, caption=caption)


def _columns(rows: Sequence[tuple[str, ...]], left_out: Sequence[str]) -> Sequence[TextColumn]:
    """Return the columns that have values, without the dropped ones."""
    return [
        TextColumn(
            heading=heading,
            cells=[row[number] for row in rows],
            justify="right" if heading in COLUMNS[2:7] else "left",
            wraps=heading in COLUMNS[:2],
        )
        for number, heading in enumerate(COLUMNS)
        if heading not in left_out and (number or any(row[0] for row in rows))
    ]


def _without_shared_words(rows: Sequence[tuple[str, ...]]) -> tuple[str, Sequence[tuple[str, ...]]]:
    """Return the words that all names share at the same place, and the rows without them, each name once."""
    names = [row[0].split() for row in rows]
    if len({len(name) for name in names}) != 1:
        return "", rows
    is_shared = [len(set(words)) == 1 for words in zip(*names, strict=True)]
    shared = " ".join(word for word, is_it in zip(names[0], is_shared, strict=True) if is_it)
    rest = [" ".join(word for word, is_it in zip(name, is_shared, strict=True) if not is_it) for name in names]
    once = [name if number == 0 or name != rest[number - 1] else "" for number, name in enumerate(rest)]
    return shared, [(name, *row[1:]) for name, row in zip(once, rows, strict=True)]


def comparison_counts(comparison: Comparison) -> str:
    """Return the line above the table: whether a result is worse, and the number of judged results."""
    counts = f"{comparison.judged_count} judged, {len(comparison.not_judged)} not judged"
    if comparison.suspected:
        counts += f", {len(comparison.suspected)} suspected"
    if comparison.is_worse:
        return f"worse: {counts}"
    if comparison.suspected:
        return f"suspected: {counts}"
    if comparison.is_blind:
        return f"nothing could be judged: {counts}"
    differing = {each.fact for cell in comparison.cells for each in cell.differences}
    nothing = "nothing is slower" if "backend" in differing else "no regression"
    if comparison.is_blind_to_speed:
        others = _guarded(guard for guard in comparison.guards if guard.kind != SPEED.name)
        return f"{nothing}, but no speed could be judged: {counts}{others and f'; detectable today: {others}'}"
    if any(guard.judged for guard in comparison.guards) and comparison.not_judged:
        return f"{nothing} ({counts}); detectable today: {_guarded(comparison.guards)}"
    return f"{nothing} in what could be judged: {counts}" if comparison.not_judged else f"{nothing}: {counts}"


def _guarded(guards: Iterable[Guard]) -> str:
    """Return the loss that would be detected in the worst cell of each kind: ``speed, losses of 31% or more``."""
    return "; ".join(f"{each.kind}, {_guard(each)}" for each in guards)


def _guard(guard: Guard) -> str:
    if guard.detectable is None:
        return "nothing"
    some = f" in {guard.judged} of {guard.count}" if guard.judged < guard.count else ""
    if not KINDS[guard.kind].is_amount:
        return f"losses of {guard.detectable:.0%} or more{some}"
    large = guard.detectable >= 1
    return f"growth {f'to x {1 + guard.detectable:.1f}' if large else f'of {guard.detectable:.0%}'} or more{some}"


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Yield the lines below the table: reasons, runs that do not count, facts that differ."""
    yield from _fold((each, each.partition(": ")[2]) for each in comparison.suspected)
    yield from _fold((each, each.partition(": ")[2]) for each in comparison.not_judged)
    yield from (
        f"{each.cell}, {each.measure}: measured again, interleaved, {each.runs} runs of each side: {each.before}, "
        f"{'still' if each.after is each.before else 'now'} {each.after}."
        for each in comparison.confirmed
    )
    yield from _resource_notes(comparison)
    if any(each.is_by_history for cell in comparison.cells for each in cell.speeds):
        yield "Slower than on other days. Interleaved runs show whether the code or the machine is the cause."
    for cell in comparison.cells:
        yield from (f"{cell.name}: left out {run}." for run in cell.set_aside)
    yield from _fold((f"{cell.name}, {each}", each) for cell in comparison.cells for each in cell.beside)
    yield from _differing(comparison.cells)
    if any(each.detectable is not None for cell in comparison.cells for each in cell.speeds):
        yield "Detectable: the smallest slowdown or growth that 80 % of such comparisons would report."
    kinds = {guard.kind for guard in comparison.guards} - {SPEED.name}
    others = "".join(
        f", of {name} less than {share:.0%}" for name, share in comparison.margins.items() if name in kinds
    )
    margins = f"less than {comparison.margin:.0%}, of a score less than {comparison.accuracy_margin:.1%}{others}"
    yield f"Changes counted as the same: of a speed {margins}."


def _fold(notes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield notes once each that say the same with other numbers; the second text of a note is all that it says."""
    alike: dict[str, list[str]] = {}
    for note, said in notes:
        alike.setdefault(_NUMBER.sub("#", said), []).append(note)
    for first, *others in alike.values():
        yield f"{first}{f'; likewise {len(others)} more' if others else ''}."


def _resource_notes(comparison: Comparison) -> Iterator[str]:
    """Yield the number of resources without a row, by kind, and what a growth must be to be seen."""
    for guard in comparison.guards:
        resources = [each for cell in comparison.cells for each in cell.resources if not _has_row(each)]
        resources = [each for each in resources if each.kind == guard.kind]
        same, unsure = (
            sum(each.verdict is verdict for each in resources)
            for verdict in (SpeedVerdict.SAME, SpeedVerdict.CANNOT_TELL)
        )
        if same or unsure:
            counts = [f"{same} the same"] * bool(same) + [f"{unsure} without a verdict"] * bool(unsure)
            yield f"Not in the table: {guard.kind}, {', '.join(counts)}; detectable: {_guard(guard)}."
    if any(map(_has_row, (each for cell in comparison.cells for each in cell.resources))):
        yield "Processor time, memory, times to start and work are amounts: x 2 is twice as much."


def _differing(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the facts that differ, and their runs if not all differ."""
    differing: dict[str, list[str]] = {}
    for cell in cells:
        for difference in cell.differences:
            differing.setdefault(str(difference), []).append(cell.name)
    for told, names in differing.items():
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        of_which = "" if len(names) == len(cells) else f"{', '.join(names[:MOST_NAMED])}{more}: "
        yield f"{of_which}{told}."


def print_comparison(comparison: Comparison, width: int | None = None) -> None:
    """Print counts, table and notes to standard output, in a given width."""
    from rich.console import Console

    console = Console(width=width or WIDTH)
    print_line(console, comparison_counts(comparison), style="bold")
    console.print(comparison_table(comparison, console.width))
    for note in comparison_notes(comparison):
        print_line(console, f"  {note}")


def comparison_markdown(comparison: Comparison, *, title: str) -> str:
    """Return a Markdown page with the same rows and notes."""
    counts = comparison_counts(comparison)
    lines = [
        f"## {markdown_text(title)}",
        "",
        counts.replace("worse", "**worse**", 1) if comparison.is_worse else counts,
        "",
    ]
    lines += markdown_lines(table("", COLUMNS, comparison_rows(comparison)))
    lines += ["", *(f"- {markdown_text(note)}" for note in comparison_notes(comparison)), "", DISCLAIMER]
    return "\n".join(lines) + "\n"


def comparison_junit(comparison: Comparison) -> str:
    """Return JUnit XML: a case per number, score, and count of valid runs.

    Results that are slower, suspected, less accurate or missing are failures; unjudged ones are skipped, with the
    reason. If all are skipped, one more case is an error, since skipped ones alone count as success.
    """
    suite = ElementTree.Element("testsuite", name="mlbench regress")
    for cell in comparison.cells:
        for each in cell.numbers:
            skipped = each.reason if each.verdict is SpeedVerdict.CANNOT_TELL else ""
            _case(suite, cell.name, each.measure, failure=_failure(each), skipped=skipped)
        for score in cell.scores:
            _case(suite, cell.name, f"accuracy, {score.name}", failure=_fall(cell, score), skipped=score.reason)
        _case(suite, cell.name, "valid runs", failure=_describe_lost(cell), skipped=_describe_left_out(cell))
    for name in comparison.missing:
        _case(suite, name, "present", failure="the base has runs, the new side has none")
    if comparison.is_blind and not comparison.suspected:
        _case(suite, "mlbench regress", "anything judged", error=comparison_counts(comparison))
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def comparison_json(comparison: Comparison) -> str:
    """Return the comparison with its verdicts as JSON; an infinite end of an interval is null."""
    content = dataclasses.asdict(comparison)
    for cell, fields in zip(comparison.cells, content["cells"], strict=True):
        fields |= {"is_worse": cell.is_worse, "is_less_accurate": cell.is_less_accurate}
    content |= {
        "is_worse": comparison.is_worse,
        "is_blind": comparison.is_blind,
        "is_blind_to_speed": comparison.is_blind_to_speed,
        "judged": comparison.judged_count,
        "not_judged": comparison.not_judged,
        "suspected": comparison.suspected,
        "guards": [dataclasses.asdict(each) for each in comparison.guards],
    }
    return json.dumps(finite(content), indent=2)


def comparison_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """Yield a row per number, per score, and per cell that only one side has, under `COLUMNS`, with `both_names`."""
    for cell in comparison.cells:
        yield from (_speed_row(cell, each) for each in (*cell.speeds, *filter(_has_row, cell.resources)))
        yield from (_score_row(cell, score) for score in cell.scores)
        if cell.lost:
            yield (both_names(cell), "", "", "", "", "", "", "no valid run")
        if cell.is_without_base:
            yield (both_names(cell), "", "", "", "", "", "", "no valid run in the base")
    yield from ((name, "", "", "", "", "", "", "missing") for name in comparison.missing)
    yield from ((name, "", "", "", "", "", "", "new") for name in comparison.added)


def _has_row(each: Judged) -> bool:
    """Return whether a resource has a row: a processor time, a change, a suspicion. The others are one line for all."""
    return KINDS[each.kind].shows_speed or each.verdict not in (SpeedVerdict.SAME, SpeedVerdict.CANNOT_TELL)


def both_names(cell: Cell) -> str:
    """Return the name of a cell's runs, with both sides' words where they differ: ``bert pytorch->null Offline``."""
    base, new = cell.base_name.split(), cell.name.split()
    if len(base) != len(new):
        return f"{cell.base_name} -> {cell.name}"
    return " ".join(one if one == other else f"{one}->{other}" for one, other in zip(base, new, strict=True))


def _speed_row(cell: Cell, each: Judged) -> tuple[str, ...]:
    counts = len(each.base), len(each.new)
    name = each.measure if counts == (1, 1) else f"{each.measure}, {counts[0]} and {counts[1]} runs"
    detectable = "" if each.detectable is None or each.effect is None else f"{each.detectable:.1%}"
    return (both_names(cell), name, *speed_texts(each), detectable, each.verdict)


def speed_texts(each: Judged) -> tuple[str, str, str, str]:
    """Return a number of both sides, their ratio and its interval; these two are empty without an effect."""
    base, new = (quantity(usual_mean(values), each.unit) for values in (each.base, each.new))
    if each.effect is None:
        return base, new, "", ""
    return base, new, f"x {each.effect.ratio:.3f}", interval_of(each.effect)


def interval_of(effect: Effect) -> str:
    """Return the interval of a ratio; of an end that is far from 1 only that it is."""
    low = f"{effect.low:.3f}" if effect.low >= 1 / _FAR else f"< {1 / _FAR:g}"
    high = f"{effect.high:.3f}" if effect.high <= _FAR else f"> {_FAR:g}"
    return f"{low} to {high}" if math.isfinite(effect.high) else "unknown"


def _score_row(cell: Cell, score: Score) -> tuple[str, ...]:
    base, new = ("none" if value is None else f"{value:.3f}" for value in (score.base, score.new))
    if score.base is not None and score.new is not None:
        new, (base,) = tell_apart(score.new, [score.base], lambda number, decimals: f"{number:.{decimals}f}", 3)
    change = f"{score.change:+.1%}" if score.base is not None and score.new is not None else ""
    return (both_names(cell), score.name, base, new, change, "", "", score_verdict(cell, score))


def score_verdict(cell: Cell, score: Score) -> str:
    """Return the verdict on a score against the base's."""
    if score.is_worse or cell.misses_target:
        return "less accurate"
    return "not judged" if score.reason else "as accurate"


def _failure(each: Judged) -> str:
    if not (each.is_worse or each.verdict is SpeedVerdict.SUSPECTED) or each.effect is None:
        return ""
    base, new, ratio, interval = speed_texts(each)
    return f"{each.verdict}: {base}, then {new} ({ratio}, {interval})" + (f": {each.reason}" if each.reason else "")


def _fall(cell: Cell, score: Score) -> str:
    if cell.misses_target:
        return f"a target is missed: {score.base}, then {score.new}"
    return f"worse by {-score.change:.2%}: {score.base}, then {score.new}" if score.is_worse else ""


def _describe_lost(cell: Cell) -> str:
    return ("the new side has none: " + "; ".join(cell.set_aside)) if cell.lost else ""


def _describe_left_out(cell: Cell) -> str:
    reasons = [each for each in cell.not_judged if each.startswith("valid runs")]
    return "; ".join([*reasons, *cell.set_aside]) if reasons else ""


def _case(suite: ElementTree.Element, cell: str, name: str, **ends: str) -> None:
    """Add a case that ended as the first of ``error``, ``failure`` and ``skipped`` that has a reason."""
    # XML has no form for control characters
    classname = single_line(cell).replace(" ", ".")
    case = ElementTree.SubElement(suite, "testcase", classname=classname, name=single_line(name))
    for kind in ("error", "failure", "skipped"):
        if reason := ends.get(kind):
            ElementTree.SubElement(case, kind, message=single_line(reason))
            return
