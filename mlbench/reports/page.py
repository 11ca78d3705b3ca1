"""One record, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.contracts.statistics import GenerationStatistics
from mlbench.records.beside import BesideRecord
from mlbench.records.node_record import ReachedNodeRecord
from mlbench.records.run_record import OutputDifferenceRecord, RunRecord
from mlbench.records.transfers_record import TransfersRecord
from mlbench.records.work_record import EnergyRecord, WorkRecord
from mlbench.reports.console import (
    DISCLAIMER,
    ESTIMATE_NOTE,
    accuracy,
    estimate_note,
    log_lines,
    percentile_beside,
    problems,
    result,
    rule_line,
    says_all,
    standing,
)
from mlbench.reports.explanation import next_step, sentence
from mlbench.reports.plain_text import single_line
from mlbench.reports.replay import chosen_text
from mlbench.reports.telemetry import describe_device, steady_speed
from mlbench.reports.units import duration, plural, three_digits, with_prefix
from mlbench.wire.engine_statistics import statistics_to_json
from mlbench.wire.runtime_facts import runtime_to_json

_NOTHING: tuple[object, ...] = ("", None, {}, [])


def page(record: RunRecord) -> str:
    """Return a run's result, its verdict with every rule, and its conditions."""
    return "\n".join(map(single_line, _lines(record)))


def _lines(record: RunRecord) -> Iterator[str]:
    yield sentence(record)
    yield next_step(record)
    yield ""
    yield f"  run       {record.run_id}"
    yield from _origin(record)
    yield f"  form      profile {record.profile}, {record.weights} weights, tier {record.tier}{_of_round(record)}"
    yield from _beyond_rules(record)
    yield from _model(record)
    yield f"  result    {result(record)}{percentile_beside(record)}, {standing(record)}"
    yield from _steady(record)
    if estimate_note(record):
        yield f"            {ESTIMATE_NOTE}"
    yield f"  accuracy  {accuracy(record)}"
    if record.accuracy and record.accuracy.tested_in:
        yield f"            the accuracy test is that of run {record.accuracy.tested_in}, on the same engine"
    if record.stages_ns:
        yield f"  time      {_stages(record.stages_ns)}"
    if record.accuracy and (difference := record.accuracy.output_difference):
        yield f"  outputs   {_difference(difference, record.precision)}"
    if record.failure:
        yield from ("", *problems(record))
        if says_all(record.failure):
            yield from log_lines(record.failure)
    if record.result:
        yield from ("", "Latency", *_latencies(record))
    if record.verdict:
        yield from ("", "Rules")
        yield from (f"  {rule_line(rule)}" for rule in record.verdict.rules)
        yield from (f"  n/a  {rule}: {reason}" for rule, reason in record.verdict.not_applied.items())
    if record.status == "completed":
        yield from ("", "Machine", *_machine(record))
    yield from _engine(record)
    yield from ("", "Conditions", *_conditions(record))
    yield from ("", "Settings that are not defaults")
    yield from (
        f"  {key:<28} {setting.value!s:<14} {setting.layer}"
        for key, setting in record.settings.items()
        if setting.layer != "default"
    )
    yield from ("", DISCLAIMER)


def _of_round(record: RunRecord) -> str:
    return "" if record.round == DEFAULT_ROUND else f", rules of {record.round}"


def _beyond_rules(record: RunRecord) -> Iterator[str]:
    if record.scenario_facts.is_beyond_rules:
        yield f"            {record.scenario} is not an official scenario, so no such run is conformant"


def _engine(record: RunRecord) -> Iterator[str]:
    """Yield the engine's statistics and the runtime's facts that have a value."""
    facts = {**statistics_to_json(record.engine), **runtime_to_json(record.runtime)}
    if known := {key: value for key, value in facts.items() if value not in _NOTHING}:
        yield from ("", "Engine")
        yield from (f"  {key:<22} {value}" for key, value in known.items())


def _origin(record: RunRecord) -> Iterator[str]:
    """Yield the origin of an imported run, a compliance test or a replay."""
    if record.imported:
        yield f"  imported  {record.imported.path}; mlbench read its logs, and did not make the run"
        if source := record.imported.inferred_from:
            yield f"  inferred  from a log of {source}, as the rules of {record.round} allow on edge systems"
    if record.audit:
        yield f"  audit     {record.audit.test} of {record.audit.of}"
    if record.replay:
        taken = f", with its {chosen_text(record.replay)}" if record.replay.chosen else ""
        yield f"  replay    of {record.replay.of}{taken}"


def _steady(record: RunRecord) -> Iterator[str]:
    """Yield the speed of a language model without the tail, if all samples came at once."""
    engine = record.engine
    if not isinstance(engine, GenerationStatistics) or not engine.steady:
        return
    if not record.scenario_facts.sends_all_at_once:
        return
    if not (speed := steady_speed(record)):
        yield "            no sample waited for a slot, so the whole test is a tail"
        return
    yield (
        f"            {speed} while samples waited for a slot; "
        f"the tail, without waiting samples, took {engine.steady.tail_share:.0%} of the time"
    )


def _model(record: RunRecord) -> Iterator[str]:
    """Yield changes of the model, and the number formats of its weights where they are known."""
    for by, change in zip(record.transform.split(), record.changes, strict=False):
        yield f"  changed   {change} ({by})"
    if formats := record.number_format:
        yield f"  weights   stored in {formats.stores}, computed in {formats.computes}"


def _stages(stages_ns: Mapping[str, int]) -> str:
    """Return the times of a run's stages: those of 5 % or more, and the sum of the rest."""
    whole_ns = sum(stages_ns.values())
    long = {stage: spent_ns for stage, spent_ns in stages_ns.items() if spent_ns * 20 >= whole_ns}
    parts = [f"{stage} {duration(spent_ns)}" for stage, spent_ns in long.items()]
    if rest_ns := whole_ns - sum(long.values()):
        parts.append(f"other stages {duration(rest_ns)}")
    return f"{duration(whole_ns)}: {', '.join(parts)}"


def _difference(difference: OutputDifferenceRecord, precision: str) -> str:
    """Return the difference of outputs from the fp32 model's, and its bound."""
    value = "not a number" if difference.value is None else f"{difference.value:.3g}"
    bound = "no bound is known" if difference.bound is None else f"{difference.bound:.3g} allowed"
    samples = plural(difference.samples, "sample")
    return f"{value} {difference.unit} from the fp32 model's, {bound} in {precision}; {samples}"


def _latencies(record: RunRecord) -> Iterator[str]:
    assert record.result
    latencies = record.result.latency_ns
    if any(name.startswith(_TOKENS) for name in latencies):
        yield from _times_of_tokens(latencies)
        latencies = {}
    for name, nanoseconds in latencies.items():
        yield f"  {name.replace('_', ' '):<34} {duration(nanoseconds)}"
    if record.overhead_ns_per_sample is not None:
        yield f"  {'overhead, about':<34} {duration(record.overhead_ns_per_sample)}"


_TOKENS = "time_per_output_token"
_COLUMNS = ("50.00_percentile", "90.00_percentile", "99.00_percentile", "99.90_percentile")


def _times_of_tokens(latencies: Mapping[str, int]) -> Iterator[str]:
    """Yield a table of a language model's latencies, under readable names."""
    rows = {"TTFT, first token": "first_token_{}_latency", "TPOT, each further token": f"{_TOKENS}_{{}}"}
    rows["whole answer"] = "{}_latency"
    headings = (f"p{float(column.partition('_')[0]):g}" for column in _COLUMNS)
    yield f"  {'':<26}{''.join(f'{heading:>12}' for heading in headings)}"
    for name, key in rows.items():
        found = [latencies.get(key.format(column)) for column in _COLUMNS]
        cells = ("-" if each is None else duration(each) for each in found)
        yield f"  {name:<26}{''.join(f'{cell:>12}' for cell in cells)}".rstrip()


def _transfers(transfers: TransfersRecord) -> Iterator[str]:
    """Yield the bytes that go into graphs and come out of them, by graph where there are several."""
    per_sample = "" if transfers.bytes_per_sample is None else f"{with_prefix(transfers.bytes_per_sample, 'B')} and "
    yield f"  {'graphs per sample':<22} {per_sample}{transfers.calls_per_sample:.3g} calls, in and out"
    for each in transfers.graphs if len(transfers.graphs) > 1 else ():
        sent, received = (
            "-" if count is None else with_prefix(count / each.calls, "B")
            for count in (each.input_bytes, each.output_bytes)
        )
        yield f"    {each.graph:<20} {sent} in and {received} out a call"


def _work(work: WorkRecord) -> Iterator[str]:
    """Yield the least work of a sample."""
    yield (
        f"  {'work per sample':<22} {with_prefix(work.operations_per_sample, 'op')} and "
        f"{with_prefix(work.bytes_per_sample, 'B')} at least"
    )
    if work.useful_share is not None:
        yield f"  {'of it for samples':<22} {work.useful_share:.1%}; the rest is padding"


def _during_test(record: RunRecord) -> Iterator[str]:
    """Yield the state of the processors and of other devices during the test."""
    if others := record.other_work:
        stolen = f", {others.stolen:.1%} by the virtual machine's host" if others.stolen else ""
        yield f"  {'processors':<22} {others.processes:.1%} used by other processes{stolen}, during the test"
    if counted := record.processor_time:
        share = "" if counted.covers == "all" else ", the host's share"
        yield f"  {'processor time':<22} {duration(counted.ns)} per {counted.unit} on one processor{share}"
        if together := counted.side_by_side:
            yield f"  {'':<22} x {together.ratio:.3f} of {together.run_id}, side by side"
    if telemetry := record.telemetry:
        yield from (f"  {each.device[:22]:<22} {describe_device(each)}" for each in telemetry.devices)


def _machine(record: RunRecord) -> Iterator[str]:
    """Yield the machine's utilisation and energy, or the reason why they are unknown."""
    if transfers := record.transfers:
        yield from _transfers(transfers)
    if record.work:
        yield from _work(record.work)
    if roofline := record.roofline:
        yield (
            f"  {'reached':<22} {with_prefix(roofline.operations_per_s, 'op/s')} of "
            f"{with_prefix(roofline.operations_ceiling_per_s, 'op/s')}, {with_prefix(roofline.bytes_per_s, 'B/s')} of "
            f"{with_prefix(roofline.bytes_ceiling_per_s, 'B/s')}"
        )
        yield f"  {'share of the ceiling':<22} {roofline.share:.1%} of {roofline.bound} on {roofline.device}"
    yield from _during_test(record)
    if beside := record.beside:
        yield f"  {'lane':<22} {beside.lane} of {beside.lanes}: {_lane(beside)}"
        yield f"  {'beside it':<22} {_neighbours(beside)}"
        if beside.strayed:
            yield f"  {'not kept to its lane':<22} it could also use processors {_numbers(beside.strayed)}"
    if energy := record.energy:
        yield f"  {'energy':<22} {', '.join(_joules(energy))}"
        yield f"  {'measured':<22} {energy.covers}, by {energy.source}, in {energy.seconds:.1f} s"
        yield f"  {'not in it':<22} {energy.leaves_out}"
    for reason in dict.fromkeys(record.not_measured.values()):
        names = ", ".join(name for name, why in record.not_measured.items() if why == reason)
        yield f"  {names:<22} not measured: {reason}"


def _lane(beside: BesideRecord) -> str:
    device = f", device {beside.device}" if beside.device else ""
    return f"processors {_numbers(beside.processors)}{device}"


def _neighbours(beside: BesideRecord) -> str:
    """Return the runs on other lanes, and the resources shared with this one."""
    if not beside.runs:
        return "no other run of its command during the test"
    runs = ", ".join(f"{each.workload} {each.backend} {each.scenario} [{each.run_id[-4:]}]" for each in beside.runs)
    return f"{runs}; shared: {', '.join(beside.shared) or 'nothing known'}"


def _numbers(processors: Sequence[int]) -> str:
    """Return processors as the kernel lists them: ``0-3,8``."""
    parts: list[list[int]] = []
    for number in processors:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _joules(energy: EnergyRecord) -> Iterator[str]:
    yield f"{with_prefix(energy.joules, 'J')}"
    for unit, joules in (("sample", energy.joules_per_sample), ("token", energy.joules_per_token)):
        if joules is not None:
            yield f"{three_digits(joules)} J/{unit}"
    yield f"{energy.joules / energy.seconds:.1f} W" + ("" if energy.idle_w is None else f", idle {energy.idle_w:.1f} W")


def _conditions(record: RunRecord) -> Iterator[str]:
    environment = record.environment
    yield f"  {'machine':<22} {environment.processor}"
    for name, count in Counter(accelerator.name for accelerator in environment.accelerators).items():
        yield f"  {'accelerator':<22} {f'{count} x ' if count > 1 else ''}{name}"
    yield f"  {'system':<22} {environment.os}, kernel {environment.kernel}, Python {environment.python}"
    yield f"  {'LoadGen':<22} {record.loadgen_version}"
    for name, version in environment.libraries.items():
        yield f"  {name:<22} {version}"
    for name, fingerprint in record.fingerprints.items():
        yield f"  {name:<22} {fingerprint[:16]}"
    for node in record.nodes:
        yield f"  {f'node {node.node.name}':<22} {', '.join(_node(node))}"


def _node(node: ReachedNodeRecord) -> Iterator[str]:
    """Yield a node's machine, and its work in the performance test."""
    yield f"{node.node.environment.processor}"
    if node.device and node.device != "cpu":
        yield node.device
    yield f"{node.address}, round trip {duration(node.round_trip_ns)}"
    yield plural(node.samples, "sample")
    if node.elapsed_ns:
        yield f"busy {node.occupied_ns / node.elapsed_ns:.1%} of the time, else waiting for samples"
    if node.samples:
        yield f"{duration(node.in_flight_ns / node.samples)} from sending to the answer"
    if node.ended:
        yield f"lost: {node.ended}"
