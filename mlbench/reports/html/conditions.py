"""The conditions of runs, and their costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mlbench.contracts.load_pattern import Arrivals
from mlbench.errors import IncomparableRunsError
from mlbench.records.beside import count_neighboured
from mlbench.records.environment import Environment
from mlbench.records.machine.other_work import count_beside
from mlbench.records.published import place_of, why_not_placed
from mlbench.records.run_record import RunRecord
from mlbench.reports.console import overhead
from mlbench.reports.html.work_charts import mean_batch, useful_share, waiting
from mlbench.reports.published import place_lines
from mlbench.reports.summary import Combination, Summary
from mlbench.reports.table import ReportTable, TableCell, table
from mlbench.reports.telemetry import describe_device, steady_speed
from mlbench.reports.units import percent, plural, quantity, size, three_digits
from mlbench.wire.engine_statistics import statistics_to_json
from mlbench.wire.runtime_facts import runtime_to_json

_MEDIANS = ("50.00_percentile_per_query_latency", "50.00_percentile_latency")

_RESULTS = {
    Arrivals.ONE_BY_ONE: "{p:g}th percentile latency of a query",
    Arrivals.AT_A_RATE: "completed per second at the rate that was sent, within the latency limit",
    Arrivals.ALL_AT_ONCE: "throughput",
}
"""Meaning of a scenario's result, by arrival pattern."""


def _cell(text: str) -> TableCell | None:
    return TableCell(text) if text else None


def overhead_cell(run: RunRecord) -> TableCell | None:
    """Return the overhead per sample, and its share of the result."""
    return None if run.overhead_ns_per_sample is None else TableCell(overhead(run), detail=_overhead_share(run))


def _overhead_share(run: RunRecord) -> str:
    """Return the overhead's share of the time per sample (for a rate), or of the median latency."""
    if run.overhead_ns_per_sample is None or not run.result:
        return ""
    if run.scenario_facts.sends_all_at_once:
        whole, name = (1e9 / run.result.value if run.result.value else None), "time per sample"
        if run.result.unit != "samples/s":
            return ""
    else:
        whole = next((run.result.latency_ns[key] for key in _MEDIANS if key in run.result.latency_ns), None)
        name = "median latency"
    return f"{percent(run.overhead_ns_per_sample / whole)} of {name}" if whole else ""


def energy_cell(run: RunRecord) -> TableCell | None:
    """Return a meter's joules per sample, with the parts left out."""
    energy = run.energy
    if energy is None:
        return None
    detail = f"{energy.covers}, by {energy.source}"
    if energy.leaves_out:
        detail += f"; without {energy.leaves_out}"
    if energy.joules_per_token is not None:
        return TableCell(quantity(energy.joules_per_token, "J/token"), detail=detail)
    if energy.joules_per_sample is not None:
        return TableCell(quantity(energy.joules_per_sample, "J/sample"), detail=detail)
    return TableCell(quantity(energy.joules, "J"), detail=detail)


def roofline_cell(run: RunRecord) -> TableCell | None:
    """Return the share of the machine's measured ceiling that the run reached."""
    roofline = run.roofline
    return None if roofline is None else TableCell(percent(roofline.share), detail=f"bound by {roofline.bound}")


_WORK: Mapping[str, Callable[[RunRecord], TableCell | None]] = {
    "overhead": overhead_cell,
    "mean batch": lambda run: _cell(mean_batch(run)),
    "useful work": lambda run: _cell(useful_share(run)),
    "wait for a slot": lambda run: _cell(waiting(run)),
    "without the tail": lambda run: _cell(steady_speed(run)),
    "peak memory": lambda run: TableCell(size(run.peak_memory_bytes)) if run.peak_memory_bytes is not None else None,
    "energy": energy_cell,
    "share of roofline": roofline_cell,
}
"""Values of a run's cost, by column; None where not measured."""


def work_table(combinations: Sequence[Combination]) -> ReportTable:
    """Return the cost of the newest runs of a workload, without empty columns."""
    unknown = TableCell("not measured", tone="quiet")
    columns = {
        name: cells for name, measure in _WORK.items() if any(cells := [measure(each.newest) for each in combinations])
    }
    rows: list[list[TableCell | str]] = [
        [each.series, each.scenario, *(cells[number] or unknown for cells in columns.values())]
        for number, each in enumerate(combinations)
    ]
    return table("Cost of the run, newest runs", ["backend", "scenario", *(f"{name}#" for name in columns)], rows)


def work_notes(combinations: Sequence[Combination]) -> list[str]:
    """Return values that were not measured, with the reason."""
    notes: dict[str, str] = {}
    for each in combinations:
        notes.update(each.newest.not_measured)
    if all(each.newest.energy is None for each in combinations):
        notes.setdefault("energy", "no power meter ran, and energy is never estimated")
    return [f"{name}: not measured: {reason}" for name, reason in notes.items()]


def machines_table(summary: Summary) -> ReportTable:
    """Return the machine and its software, a column for each different one; load does not count as a difference."""
    grouped: dict[str, list[RunRecord]] = {}
    for run in summary.runs:
        software = (run.mlbench_version, run.loadgen_version)
        key = f"{run.environment.model_dump_json(exclude={'load_average'})} {software}"
        grouped.setdefault(key, []).append(run)
    columns = [dict(_facts(runs)) for runs in grouped.values()]
    names = dict.fromkeys(name for facts in columns for name in facts)
    headings = [f"machine {runs[0].environment.machine}, {plural(len(runs), 'run')}" for runs in grouped.values()]
    return table(
        "Machine and software",
        ["fact", *headings],
        [[name, *(facts.get(name, "\N{EN DASH}") for facts in columns)] for name in names],
    )


def _facts(runs: Sequence[RunRecord]) -> Iterator[tuple[str, str]]:
    environment, first = runs[0].environment, runs[0]
    cpu, allowance = environment.cpu, environment.allowance
    yield "processor", cpu.model
    yield "usable threads", f"{allowance.threads} of {cpu.threads}" + (", virtual machine" if cpu.is_virtual else "")
    yield "instruction sets", " ".join(cpu.flags) or "none of the known ones"
    yield "clock", f"governor {cpu.governor or 'unknown'}, turbo {_switch(cpu.turbo)}"
    yield "memory", size(environment.memory_bytes) if environment.memory_bytes else "not told"
    yield "accelerator", accelerators(environment)
    yield "system", f"{environment.os}, kernel {environment.kernel}"
    yield "container", allowance.container or "none found"
    yield "busy", _load(runs)
    yield "Python", environment.python
    yield "mlbench", first.mlbench_version
    yield "LoadGen", first.loadgen_version or "not told"
    yield from environment.libraries.items()


def processor(environment: Environment) -> str:
    """Return the processor with its usable threads, if known."""
    model, threads = environment.cpu.model, environment.allowance.threads
    return f"{model}, {plural(threads, 'thread')}" if threads else model


def accelerators(environment: Environment) -> str:
    """Return the names of the accelerators, each with its number."""
    names = [each.name for each in environment.accelerators]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "none"


def _switch(value: bool | None) -> str:
    return "not told" if value is None else "on" if value else "off"


def _load(runs: Sequence[RunRecord]) -> str:
    """Return the load average over all runs, and the machine's threads."""
    loads = [run.environment.load_average for run in runs if run.environment.load_average is not None]
    if not loads:
        return "not told"
    threads = runs[0].environment.allowance.threads
    text = f"load average {min(loads):.2f} to {max(loads):.2f}"
    if not threads:
        return text
    text = f"{text} on {plural(threads, 'thread')}"
    if neighboured := count_neighboured([run.beside for run in runs]):
        text = f"{text}; {neighboured}"
    if works := [run.other_work for run in runs if run.other_work]:
        return f"{text}; {count_beside(works) or 'almost no other load during the tests'}"
    return f"{text}: other processes were running, so results are noisy" if max(loads) > threads + 0.5 else text


def scenario_note(summary: Summary) -> str:
    """Return the meaning of the results of these runs' scenarios."""
    facts = {each.scenario: each.newest.scenario_facts for each in summary.combinations}
    named = [(name, facts[name]) for name in summary.scenarios]
    return " ".join(
        f"{name}: {_RESULTS[each.arrivals].format(p=100 * (each.percentile or 0))}."
        for name, each in named
        if each.arrivals
    )


def spread_line(summary: Summary) -> str:
    """Return the largest spread of repeats; a hint if nothing was repeated."""
    spreads = [
        (max(each.values) / min(each.values) - 1, each.name)
        for each in summary.combinations
        if len(each.values) > 1 and min(each.values) > 0
    ]
    if not spreads:
        return "No run was repeated, so the noise between runs is unknown: use mlbench run --repeat 5."
    widest, name = max(spreads)
    apart = percent(widest) if widest < 1 else f"a factor of {three_digits(1 + widest)}"
    return f"Repeats of the same run differ by up to {apart} ({name})."


def details_of(run: RunRecord) -> Mapping[str, Mapping[str, str]]:
    """Return the rest of the record, by group: settings, devices, engine statistics, runtime."""
    chosen = {
        key: f"{_format_value(each.value)} ({each.layer})"
        for key, each in run.settings.items()
        if each.layer != "default"
    }
    devices = {each.device: describe_device(each) for each in (run.telemetry.devices if run.telemetry else ())}
    groups: dict[str, Mapping[str, object]] = {
        "Settings that are not defaults": chosen,
        "Devices during the test": devices,
        "LoadGen's settings": run.load,
        "Engine": statistics_to_json(run.engine),
        "Runtime": runtime_to_json(run.runtime),
        "Fingerprints": {name: value[:16] for name, value in run.fingerprints.items()},
    }
    return {
        title: {key: _format_value(value) for key, value in group.items()} for title, group in groups.items() if group
    }


def _format_value(value: object) -> str:
    """Return a JSON value in readable form."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_format_value(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_format_value, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def notes_on_published(summary: Summary) -> list[str]:
    """Return the rank of each run among the published results of its round, or the reason why it has none."""
    notes: list[str] = []
    reasons: dict[str, int] = {}
    for each in summary.combinations:
        if reason := why_not_placed(each.newest):
            reasons[reason] = reasons.get(reason, 0) + 1
            continue
        try:
            notes.append("\n".join((f"{each.name}:", *place_lines(place_of(each.newest)))))
        except IncomparableRunsError as error:
            notes.append(f"{each.name}: {error.message}")
    notes += [f"{plural(count, 'combination')} not placed: {reason}." for reason, count in reasons.items()]
    return notes
