"""Records as lines and tables on a terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.records.run_record import PERPLEXITY, AccuracyRecord, FailureRecord, RuleRecord, RunRecord, TargetRecord
from mlbench.records.store.run_names import short_id
from mlbench.reports.text_table import WIDTH, TextColumn, TextTable, build_table, fit_columns
from mlbench.reports.units import duration, quantity, tell_apart, three_digits

DISCLAIMER = (
    "Unverified results, not reviewed by MLCommons. MLPerf is a trademark of MLCommons; these are not MLPerf results."
)


ESTIMATE_NOTE = "est.: LoadGen's early-stopping estimate of that percentile: the result, never below the percentile."

UNSUPPORTED = "unsupported"
"""A failure that is not an error: the backend reported that it cannot compile a graph."""

SHARED_TEST = " (shared)"
"""Marks scores of an accuracy test that an earlier run of the same engine made."""

SHORT_PRECISION = "in"
"""Heading of the precision in narrow tables."""


def one_line(record: RunRecord) -> str:
    """Return a run in one line: its names, result, validity and accuracy."""
    found = f"{result(record)}{percentile_beside(record)}"
    judged = f"{standing(record)}{_beside(record)}, {accuracy(record)}{_not_official(record)}"
    return f"{_name(record)}: {found}, {judged}  [{record.run_id}]"


def _beside(record: RunRecord) -> str:
    """Return a note on other load, other runs or throttling during the test; else empty."""
    work, beside = record.other_work, record.beside
    found = [f"under other load ({work.share:.0%} of the processors)"] if work and work.is_noticeable else []
    found += [f"beside {beside.note}"] if beside and beside.note else []
    found += [f"with {words}" for words in (record.telemetry.throttled_in_words if record.telemetry else ())]
    return f" {' and '.join(found)}" if found else ""


def _not_official(record: RunRecord) -> str:
    """Return a note if the files are a smaller set; else empty."""
    rules = record.verdict.rules if record.verdict else []
    return ", a smaller set than the official one" if any(each.rule == "official_files" for each in rules) else ""


def result(record: RunRecord) -> str:
    """Return the result with its unit and its percentile (``12.3 ms est. p99``), or the failure."""
    if record.failure:
        return f"{record.failure.kind} during {record.failure.stage}"
    assert record.result
    return quantity(record.result.value, record.result.unit) + estimate_note(record)


def _result_or_kind(record: RunRecord) -> str:
    """Return the result, or only the kind of the failure, to keep the column narrow."""
    return record.failure.kind if record.failure else result(record)


def estimate_note(record: RunRecord) -> str:
    """Return the percentile that LoadGen estimated, if the result is such an estimate: `` est. p99``; else empty."""
    is_latency = record.result and record.result.value is not None and record.result.unit == "ns"
    return f" est. {_percentile_name(record)}" if is_latency and record.scenario_facts.has_estimate else ""


def percentile_beside(record: RunRecord) -> str:
    """Return the percentile of the latencies, to print after its estimate: `` (p99 12.1 ms)``."""
    if not record.result or not estimate_note(record):
        return ""
    found = record.result.percentile_ns(record.scenario_facts.percentile or 0)
    return f" ({_percentile_name(record)} {duration(found)})" if found else ""


def _percentile_name(record: RunRecord) -> str:
    return f"p{100 * (record.scenario_facts.percentile or 0):g}"


def standing(record: RunRecord) -> str:
    """Return whether the performance is valid, for the tier."""
    if not record.verdict:
        return "failed"
    if not record.verdict.is_valid:
        return "INVALID"
    return "not checked" if record.unchecked else "valid"


def accuracy(record: RunRecord) -> str:
    """Return the required scores against their targets, and the perplexity; marked where another run made the test."""
    if not record.accuracy:
        return "accuracy not measured"
    shown = []
    for target in record.accuracy.targets:
        if target.required:
            reached, window = spell_target(target)
            sign = target_sign(target) if target.is_met else "MISSES"
            shown.append(f"{target.score} {reached} {sign} {window}")
    distant = [] if record.is_open else _distant_outputs(record.accuracy)
    scores = ", ".join([*shown, *distant]) or record.accuracy.line
    if record.accuracy.perplexity is not None:
        scores += f", {PERPLEXITY} {record.accuracy.perplexity:.5g}"
    return f"{scores}{SHARED_TEST}" if record.accuracy.tested_in else scores


def _distant_outputs(accuracy: AccuracyRecord) -> Iterator[str]:
    """Yield the difference of outputs from the fp32 model's, if it is too large."""
    found = accuracy.output_difference
    if found and not found.is_met:
        reached = "no number" if found.value is None else f"{found.value:.3g}"
        yield f"outputs {reached} {found.unit} from fp32 MISSES {found.bound:.3g}"


def target_sign(target: TargetRecord) -> str:
    """Return the sign between a score that meets a target and `spell_target`'s text."""
    if target.lower is None:
        return "<="
    return ">=" if target.upper is None else "in"


_TINY = 0.005
"""Limits below it, of differences, are written with an exponent where that is shorter."""


def spell_target(target: TargetRecord, decimals: int = 2) -> tuple[str, str]:
    """Return the score, and its limit, or both limits if it has two: ``23.01..23.95``.

    Both have this many decimals, or as many as needed to tell the score from a limit. Tiny differences have two digits,
    and scores without limits five.
    """
    ends = [end for end in (target.lower, target.upper) if end is not None]
    sizes = [math.floor(math.log10(abs(end))) for end in ends if end and math.isfinite(end)]
    if not ends:
        return "no score" if target.value is None else f"{target.value:.5g}", "none"
    is_tiny = target.lower is None and max(map(abs, ends)) < _TINY
    form, enough = ("g", 2) if is_tiny else ("f", max(decimals, 1 - min(sizes, default=0)))
    value = math.nan if target.value is None else target.value
    reached, limits = tell_apart(value, ends, lambda number, digits: f"{number:.{digits}{form}}", enough)
    return "no score" if target.value is None else reached, "..".join(limits)


def table(records: Sequence[RunRecord], width: int = WIDTH) -> TextTable:
    """Return a table with a line per run and as many columns as fit; `show` has the others."""
    choices = list(_column_choices(records))
    columns = fit_columns(choices, width)
    shown = {"precision" if column.heading == SHORT_PRECISION else column.heading for column in columns}
    missing = [each.heading for each in choices[0] if each.heading not in shown]
    captions = [ESTIMATE_NOTE] if any(map(estimate_note, records)) else []
    if missing:
        captions.append(f"Not shown at this width: {', '.join(missing)}; `mlbench show RUN` has all.")
    styles = ["" if record.is_good else "red" for record in records]
    caption = "\n".join([*captions, DISCLAIMER])
    return build_table(columns, width, styles=styles, title="mlbench", caption=caption)


def _column_choices(records: Sequence[RunRecord]) -> Iterator[Sequence[TextColumn]]:
    """Yield sets of columns: all of them first, then fewer each time."""
    name = [
        TextColumn(heading="workload", cells=[record.model for record in records], is_cropped=True),
        TextColumn(heading="backend", cells=[record.backend for record in records], is_cropped=True),
        TextColumn(heading="scenario", cells=[record.scenario for record in records], is_cropped=True),
        TextColumn(heading="precision", cells=[record.precision_and_transform for record in records]),
        TextColumn(heading="result", cells=[*map(_result_or_kind, records)], justify="right", is_cropped=True),
    ]
    times = [
        TextColumn(heading="p99 latency", cells=[*map(p99, records)], justify="right"),
        TextColumn(heading="overhead", cells=[*map(overhead, records)], justify="right"),
    ]
    extras = [
        TextColumn(heading=heading, cells=[cell(record) or "-" for record in records], justify="right")
        for heading, cell in _EXTRAS.items()
        if any(map(cell, records))
    ]
    if len({record.round for record in records}) > 1:
        name.insert(3, TextColumn(heading="round", cells=[record.round for record in records]))
    ends = [
        TextColumn(heading="performance", cells=[*map(standing, records)]),
        TextColumn(heading="accuracy", cells=[*map(accuracy, records)]),
    ]
    run = TextColumn(heading="run", cells=short_ids(records))
    counts = TextColumn(heading="counts", cells=[*map(verdict_in_a_word, records)])
    yield [*name, *times, *extras, *ends, run]
    yield [*name, *times[:1], *extras, *ends, run]
    yield [*name, *extras, *ends, run]
    yield [*name, *ends, run]
    yield [*name, *times, *extras, counts, run]
    yield [*name, *times, counts, run]
    yield [*name, counts, run]
    yield [*name, counts]
    yield [*name[:3], replace(name[3], heading=SHORT_PRECISION), name[4], counts]


def short_ids(records: Sequence[RunRecord]) -> list[str]:
    """Return a name for each run: the last part of its id, or the whole id if several share it."""
    endings = [short_id(record.run_id) for record in records]
    shared = {ending for ending, count in Counter(endings).items() if count > 1}
    return [record.run_id if ending in shared else ending for record, ending in zip(records, endings, strict=True)]


def verdict_in_a_word(record: RunRecord) -> str:
    """Return in a word whether a run counts, for narrow tables."""
    is_inaccurate = record.verdict and record.verdict.is_valid and record.verdict.is_accurate is False
    return "inaccurate" if is_inaccurate else standing(record)


def conditions(records: Sequence[RunRecord]) -> str:
    """Return a line with the facts that all runs of a table share."""
    first = records[0]
    tiers = ", ".join(sorted({record.tier for record in records}))
    profiles = ", ".join(sorted({record.profile for record in records}))
    line = f"{first.environment.processor}; profile {profiles}, tier {tiers}"
    beyond = sorted({record.scenario for record in records if record.scenario_facts.is_beyond_rules})
    line += f"; {', '.join(beyond)}: not an official scenario" if beyond else ""
    rounds = sorted({record.round for record in records})
    line += f"; rules of {', '.join(rounds)}" if rounds != [DEFAULT_ROUND] else ""
    is_any_shared = any(record.accuracy and record.accuracy.tested_in for record in records)
    return f"{line};{SHARED_TEST}: the accuracy test of an earlier run of the same engine" if is_any_shared else line


def problems(record: RunRecord) -> Iterator[str]:
    """Yield, for an invalid run, each failed rule with its fix, or the end of its log."""
    if record.failure:
        yield f"{_name(record)}: {record.failure.kind}: {record.failure.message}"
        if not says_all(record.failure):
            yield from log_lines(record.failure)
    for rule in record.verdict.rules if record.verdict else ():
        if rule.required and not rule.passed:
            yield f"{_name(record)}: {rule_line(rule)}"


def says_all(failure: FailureRecord) -> bool:
    """Return whether a failure's message is enough without its log: mlbench's own error with a hint."""
    last = failure.log_tail.rstrip().rpartition("\n")[2]
    return failure.kind == UNSUPPORTED or (last.startswith("mlbench.") and last.endswith(f": {failure.message}"))


def log_lines(failure: FailureRecord) -> Iterator[str]:
    """Yield the end of a failed run's log."""
    yield from (f"  {line}" for line in failure.log_tail.rstrip().splitlines())


def rule_line(rule: RuleRecord) -> str:
    """Return a rule with the measured value, its limit, and the fix if it failed."""
    mark = "ok  " if rule.passed else ("FAIL" if rule.required else "miss")
    measured, limit = format_rule_values(rule)
    line = f"{mark} {rule.rule}: {measured}, limit {limit}"
    return line if rule.passed or not rule.fix else f"{line}. {rule.fix}"


def format_rule_values(rule: RuleRecord) -> tuple[str, str]:
    """Return a rule's measured value and its limit, with their unit and enough digits to tell them apart."""
    measured, limit, unit = rule.measured, rule.limit, rule.unit
    ends = _ends(limit)
    if isinstance(measured, bool | str | None) or not ends:
        return _format_value(measured, unit), _format_value(limit, unit)
    if unit == "ns":
        spelled, limits = tell_apart(measured, ends, duration, 3)
        return spelled, " .. ".join(limits)
    if isinstance(measured, int) and isinstance(limit, int):
        return f"{measured} {unit}".rstrip(), f"{limit} {unit}".rstrip()
    spelled, limits = tell_apart(measured, ends, lambda number, digits: f"{number:.{digits}g}", 6)
    return f"{spelled} {unit}".rstrip(), f"{' .. '.join(limits)} {unit}".rstrip()


def _ends(limit: bool | float | str) -> list[float]:
    """Return the numbers of a limit: one, or two where it is spelled ``23.01 .. 23.95``."""
    if isinstance(limit, bool):
        return []
    try:
        return [float(end) for end in limit.split(" .. ")] if isinstance(limit, str) else [limit]
    except ValueError:
        return []


def _format_value(value: bool | float | str | None, unit: str) -> str:
    if value is None:
        return "not in the log"
    if unit == "ns" and not isinstance(value, str):
        return duration(value)
    return f"{value:.6g} {unit}".rstrip() if isinstance(value, float) else f"{value} {unit}".rstrip()


def _name(record: RunRecord) -> str:
    return f"{record.model} {record.backend} {record.scenario} {record.precision_and_transform}"


def p99(record: RunRecord) -> str:
    """Return the 99th percentile latency, or a dash if the scenario has no meaningful latency."""
    found = record.result.percentile_ns(0.99) if record.result else None
    return duration(found) if found and record.scenario_facts.percentile else "-"


def overhead(record: RunRecord) -> str:
    """Return the overhead per sample, or a dash."""
    return "-" if record.overhead_ns_per_sample is None else duration(record.overhead_ns_per_sample)


def _share(record: RunRecord) -> str:
    return f"{record.roofline.share:.0%} {record.roofline.bound}" if record.roofline else ""


def _energy(record: RunRecord) -> str:
    energy = record.energy
    return f"{three_digits(energy.joules_per_sample)} J" if energy and energy.joules_per_sample else ""


def _origin(record: RunRecord) -> str:
    return "imported" if record.imported else ""


_EXTRAS: Mapping[str, Callable[[RunRecord], str]] = {"% of peak": _share, "per sample": _energy, "origin": _origin}
"""Columns that a table has only if some run has a value."""
