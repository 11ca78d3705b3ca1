"""Memory, times to start and work, each with a margin, a noise and a family of tests of its own."""

import json
import random
import re
from datetime import timedelta

import pytest
from invoking import invoke

from mlbench.comparison.compare import compare
from mlbench.comparison.confirmation import cells_to_confirm, confirm
from mlbench.comparison.kinds import KINDS, kind_named, margins_of
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.errors import UsageError
from mlbench.reports.comparison import comparison_junit, comparison_markdown

STAGES = {"start": 200, "load": 40, "compile": 300, "warm-up": 400}
"""Milliseconds, as of ResNet-50 on ONNX Runtime on two cores."""
NAMES = ("peak memory", "time to load", "time to compile", "time to warm up")


@pytest.fixture
def session(a_run):
    """Make five runs that differ by a few percent in time and by a thousandth in memory."""

    def session(name, *, memory=166e6, times=1.0, days=0, backend="onnxruntime", **changes):
        chance, made = random.Random(name), []
        for number in range(5):
            value = 1000 * chance.uniform(0.99, 1.01)
            result = a_run().result.model_dump() | {"value": value}
            stages = {
                stage: round(ms * 1e6 * chance.uniform(0.9, 1.1) * (1 if stage == "start" else times))
                for stage, ms in STAGES.items()
            }
            fields = {
                "run_id": f"{name}-{number}",
                "tag": name,
                "backend": backend,
                "created": a_run().created + timedelta(days=days, minutes=number),
                "result": result,
                "stages_ns": stages,
                "peak_memory_bytes": round(memory * chance.uniform(0.9995, 1.0005)),
                "engine": {"kind": "batch", "batch": 32, "samples": 3200},
            }
            made.append(a_run(**fields | changes))
        return made

    return session


def verdicts_of(comparison):
    return {each.measure: each.verdict for cell in comparison.cells for each in cell.resources}


def processor_time_in(comparison):
    (found,) = (each for each in comparison.cells[0].resources if each.kind == "processor time")
    return found


def test_ten_times_the_memory_and_the_times_to_start_is_worse_on_the_first_day(session):
    base, new = session("old"), session("new", memory=1660e6, times=10, days=1)
    comparison = compare(base, new)
    assert verdicts_of(comparison) == dict.fromkeys(NAMES, SpeedVerdict.WORSE)
    assert comparison.is_worse
    told = {each.measure: each.effect.ratio for each in comparison.cells[0].resources}
    assert told["peak memory"] == pytest.approx(10, rel=0.01)


def test_eight_cells_that_all_take_ten_times_as_much_are_worse_and_not_suspected(session):
    cells = [f"backend{number}" for number in range(8)]
    base = [run for name in cells for run in session(f"{name} old", backend=name)]
    new = [run for name in cells for run in session(f"{name} new", backend=name, memory=1660e6, times=10, days=1)]
    comparison = compare(base, new)
    assert set(verdicts_of(comparison).values()) == {SpeedVerdict.WORSE}
    assert not comparison.suspected


def test_a_regression_of_each_names_it_in_every_form_and_fails(session, tmp_path, monkeypatch):
    results = tmp_path / "results"
    monkeypatch.setenv("MLBENCH_RESULTS", str(results))
    for run in (*session("old"), *session("new", memory=1660e6, times=10, days=1)):
        (results / run.run_id).mkdir(parents=True)
        (results / run.run_id / "record.json").write_text(run.text())
    invoke("baseline", "save", "good", "old")
    files = [tmp_path / "junit.xml", tmp_path / "summary.md"]
    words = ["regress", "new", "--baseline", "good", "--junit", str(files[0]), "--markdown", str(files[1])]
    done = invoke(*words)
    assert done.exit_code == 1, done.output
    as_json = json.loads(invoke(*words, "--json").stdout)
    in_json = {each["measure"] for each in as_json["cells"][0]["resources"] if each["verdict"] == "worse"}
    assert in_json == set(NAMES)
    for text in (done.stdout, *(file.read_text() for file in files)):
        assert all(name in " ".join(text.split()) for name in NAMES), text
    allowed = [word for name in ("memory=95%", "startup=0.95") for word in ("--margin", name)]
    assert invoke(*words, *allowed).exit_code == 1, "ten times is beyond 95 % too"
    assert invoke(*words, "--margin", "cache=5%").exit_code == 2


def test_equals_are_the_same_or_untold_and_nobody_is_told_a_speed_is_worse(session):
    comparison = compare(session("old"), session("new", days=1))
    assert not comparison.is_worse
    assert verdicts_of(comparison)["peak memory"] is SpeedVerdict.SAME


def test_a_margin_is_the_kinds_own_and_leaves_speeds_alone(session):
    base, new = session("old"), session("new", memory=1.4 * 166e6, days=1)
    assert verdicts_of(compare(base, new))["peak memory"] is SpeedVerdict.WORSE
    assert verdicts_of(compare(base, new, margin={"memory": 0.5}))["peak memory"] is SpeedVerdict.SAME
    assert compare(base, new, margin={"memory": 0.5}).margin == 0.05


def test_memory_that_fell_is_better_and_no_regression(session):
    comparison = compare(session("old"), session("new", memory=80e6, days=1))
    assert verdicts_of(comparison)["peak memory"] is SpeedVerdict.BETTER
    assert not comparison.is_worse


def test_a_run_that_searched_a_batch_or_exported_graphs_is_no_witness_of_either(session):
    base, new = session("old"), session("new", days=1)
    searched = {"kind": "batch", "batch": 32, "samples": 3200, "sweep_samples_per_s": {"32": 5000.0}}
    first = session("first", memory=300e6, times=10, days=1, engine=searched)[0]
    stages = first.stages_ns | {"export": 15_000_000_000}
    first = first.model_copy(update={"stages_ns": stages})
    comparison = compare(base, [first, *new])
    by_name = {each.measure: each for each in comparison.cells[0].resources}
    assert [len(by_name[name].new) for name in NAMES] == [5, 6, 5, 5]
    assert not comparison.is_worse
    alone = compare(base, [first])
    assert [each.measure for each in alone.cells[0].resources] == ["time to load"]


def test_sides_that_chose_other_batches_are_not_compared_in_memory(session):
    other = {"kind": "batch", "batch": 128, "samples": 3200}
    base, new = session("old"), session("new", memory=600e6, days=1, engine=other)
    (cell,) = compare(base, new).cells
    assert cell.resources == ()
    (note,) = (each for each in cell.beside if each.startswith("memory and start-up are not compared"))
    assert "the base had batch 32, instances 1" in note
    assert "the new side batch 128" in note
    across = compare(base, session("new", memory=600e6, days=1, engine=other, backend="pytorch"), across=["backend"])
    assert verdicts_of(across)["peak memory"] is SpeedVerdict.WORSE, "each backend has its own batch"


def test_start_up_that_grew_where_all_speeds_fell_is_only_suspected(session, a_run):
    slow = a_run().result.model_dump() | {"value": 500.0}
    base = [run for n in range(5) for run in session(f"{n} old", backend=f"backend{n}")]
    new = [run for n in range(5) for run in session(f"{n} new", backend=f"backend{n}", times=10, days=1, result=slow)]
    comparison = compare(base, new)
    assert verdicts_of(comparison)["time to compile"] is SpeedVerdict.SUSPECTED
    assert any("changed in speed" in each for each in comparison.suspected)


def test_counts_of_work_are_compared_exactly_and_only_where_they_repeat(session):
    def work(*calls):
        return [
            {"graphs": [graph(each)], "operations_per_sample": 4e9, "bytes_per_sample": 1.0}
            | {"samples_per_s": None, "useful_share": None}
            for each in calls
        ]

    def graph(calls):
        return {"graph": "resnet50", "calls": calls, "shapes": 1, "operations": 1, "bytes": 1}

    def with_work(name, days, *calls):
        runs = session(name, days=days)
        return [
            type(run).model_validate(run.model_dump() | {"work": each})
            for run, each in zip(runs, work(*calls), strict=True)
        ]

    base = with_work("old", 0, 100, 100, 100, 100, 100)
    judged = verdicts_of(compare(base, with_work("new", 1, 102, 102, 102, 102, 102)))
    assert judged["graph calls per sample"] is SpeedVerdict.WORSE  # by 2 %, of which 1 may be the last batch's
    assert judged["operations per sample"] is SpeedVerdict.SAME
    judged = compare(base, with_work("new", 1, 100, 104, 110, 120, 130)).cells[0].resources[-2]
    assert (judged.measure, judged.verdict) == ("graph calls per sample", SpeedVerdict.CANNOT_TELL)
    assert judged.reason == "repeats differ by 30.0%, so it is no exact number"


def test_the_headline_says_what_the_first_day_guards(session):
    text = comparison_markdown(compare(session("old"), session("new", days=1, accuracy=None)), title="t")
    # by a table of t: the error is the root of 2 times the assumed spread
    # speed, one number: (t(0.995; 8) + t(0.9; 8)) * 0.0707 = (3.36 + 1.40) * 0.0707 = 0.336, exp(-0.336) = 0.71
    # start-up, three: (t(1 - 0.01 / 6; 30) + t(0.9; 30)) * 0.424 = (3.19 + 1.31) * 0.424 = 1.91, exp(1.91) = 6.7
    assert "today: speed, losses of 29% or more; memory, growth of 7% or more; start-up, growth to x 6.7 or" in text


def test_each_number_of_each_kind_is_a_case(session):
    text = comparison_junit(compare(session("old"), session("new", days=1)))
    assert all(f'name="{name}"' in text for name in NAMES)


def test_kinds_are_named_as_people_write_them():
    assert kind_named("startup") is kind_named("Start-Up") is KINDS["start-up"]
    with pytest.raises(UsageError, match="unknown kind"):
        kind_named("disk")
    with pytest.raises(UsageError, match="margin of memory is 1"):
        margins_of({"memory": 1.0})
    assert margins_of(0.1) == {name: 0.1 if name == "speed" else kind.margin for name, kind in KINDS.items()}


def interleaved(runs, *, offset):
    """Return runs that take turns with those of the other offset, minutes apart."""
    begin, made = runs[0].created + timedelta(days=9), []
    for number, run in enumerate(runs):
        changes = {"run_id": f"{run.run_id}-turn", "created": begin + timedelta(minutes=2 * number + offset)}
        made.append(run.model_copy(update=changes))
    return made


def test_memory_that_grew_is_measured_again_in_turns_and_these_decide(session):
    base, new = session("old"), session("new", memory=1.4 * 166e6)
    comparison = compare(base, [run.model_copy(update={"created": run.created + timedelta(days=1)}) for run in new])
    (cell,) = cells_to_confirm(comparison)
    assert [each.measure for each in cell.unsettled] == ["throughput", "peak memory"]
    for side, verdict in ((session("equal"), SpeedVerdict.SAME), (new, SpeedVerdict.WORSE)):
        again, turns = interleaved(base, offset=0), interleaved(side, offset=1)
        confirmed = confirm(comparison, compare(base, turns, again=again))
        assert verdicts_of(confirmed)["peak memory"] is verdict
        assert confirmed.is_worse is (verdict is SpeedVerdict.WORSE)
        assert ("peak memory", SpeedVerdict.WORSE, verdict) in [
            (each.measure, each.before, each.after) for each in confirmed.confirmed
        ]


# processor time


def with_processor_time(runs, factor=1.0, **changes):
    """Return runs with a processor time that repeats within half a percent."""
    chance, made = random.Random(runs[0].run_id), []
    for run in runs:
        time_ns = 4e6 * factor * chance.uniform(0.995, 1.005)
        fields = {"ns": time_ns, "unit": "sample", "covers": "all", "reference_ns": 1e6, "relative_ns": time_ns}
        fields |= {"samples": 4, "rounds": 20, "reference": "scrypt"} | changes
        made.append(type(run).model_validate(run.model_dump() | {"processor_time": fields}))
    return made


def busy(runs, a_run):
    """Return runs whose throughput a crowded machine made worthless, and that had no accuracy test."""
    results = [a_run().result.model_dump() | {"value": value} for value in (200.0, 1000.0, 300.0, 900.0, 400.0)]
    return [
        type(run).model_validate(run.model_dump() | {"result": result, "accuracy": None})
        for run, result in zip(runs, results, strict=True)
    ]


def test_a_tenth_more_processor_time_is_worse_on_the_first_day_of_a_crowded_machine(session, a_run):
    base, new = (busy(session(name, days=days), a_run) for days, name in enumerate(("old", "new")))
    worse = compare(with_processor_time(base), with_processor_time(new, 1.1))
    judged = processor_time_in(worse)
    assert (judged.verdict, judged.measure) == (SpeedVerdict.WORSE, "processor time per sample")
    assert judged.effect.ratio == pytest.approx(1.1, rel=0.01)
    equal = compare(with_processor_time(base), with_processor_time(new))
    assert equal.is_blind_to_speed
    assert not (equal.is_worse or equal.is_blind)
    begins = "no regression, but no speed could be judged: 0 judged, 1 not judged; detectable today: processor time, "
    assert begins in comparison_markdown(equal, title="t")
    assert compare(base, new).is_blind


def test_processor_time_does_not_depend_on_the_batch_and_its_row_is_always_there(session):
    other = {"kind": "batch", "batch": 128, "samples": 3200}
    comparison = compare(with_processor_time(session("old")), with_processor_time(session("new", days=1, engine=other)))
    assert [each.measure for each in comparison.cells[0].resources] == ["processor time per sample"]
    assert "| processor time per sample, 5 and 5 runs | 4" in comparison_markdown(comparison, title="t")


@pytest.mark.parametrize(("share", "verdict"), [(0.2, SpeedVerdict.WORSE), (0.6, SpeedVerdict.CANNOT_TELL)])
def test_processor_time_beside_much_more_other_load_has_no_verdict(session, share, verdict):
    quiet, beside = ({"processes": each, "stolen": 0.0} for each in (0.02, share))
    base = with_processor_time(session("old", other_work=quiet))
    new = with_processor_time(session("new", days=1, other_work=beside), 1.15)
    judged = processor_time_in(compare(base, new))
    assert judged.verdict is verdict
    if verdict is SpeedVerdict.CANNOT_TELL:
        assert judged.reason.startswith("other load took 2% of the processors in the base and 60% on the new side")


def test_earlier_sessions_beside_much_more_other_load_do_not_widen_the_spread(session):
    quiet, beside = ({"processes": each, "stolen": 0.0} for each in (0.02, 0.8))
    base, new = (with_processor_time(session(name, days=9 + days, other_work=quiet)) for days, name in enumerate("ab"))

    def detectable(other_work):
        times = [(day, 1 + 0.6 * (day % 2)) for day in range(8)]
        some = [with_processor_time(session(f"{day}", days=day, other_work=other_work), by) for day, by in times]
        return processor_time_in(compare(base, new, history=[run for one in some for run in one])).detectable

    assert detectable(quiet) > 0.5
    assert detectable(beside) == processor_time_in(compare(base, new)).detectable


def test_the_hosts_share_and_a_token_are_numbers_of_their_own(session):
    (base, new), token = (session("old"), session("new", days=1)), {"covers": "host", "unit": "token"}
    comparison = compare(with_processor_time(base, **token), with_processor_time(new, **token))
    assert comparison.cells[0].resources[0].measure == "host's processor time per token"
    apart = compare(with_processor_time(base, **token), with_processor_time(new))
    assert not [each for each in apart.cells[0].resources if each.kind == "processor time"]


def test_few_samples_of_a_slow_model_are_compared_with_nothing_but_as_few(session):
    base, new = with_processor_time(session("old"), samples=2), session("new", days=1)
    comparison = compare(base, with_processor_time(new, samples=2))
    assert comparison.cells[0].resources[0].measure == "processor time per sample of 2"
    apart = compare(base, with_processor_time(new))
    assert not [each for each in apart.cells[0].resources if each.kind == "processor time"]


def test_processor_times_against_two_kinds_of_reference_work_are_two_numbers(session):
    base, new = with_processor_time(session("old"), reference="checksums"), with_processor_time(session("new", days=1))
    assert not [each for each in compare(base, new).cells[0].resources if each.kind == "processor time"]


def test_processor_time_that_grew_in_half_of_the_other_cells_too_is_only_suspected(session):
    cells = [f"backend{number}" for number in range(5)]
    base = [run for name in cells for run in with_processor_time(session(f"{name} old", backend=name))]
    new = [run for name in cells for run in with_processor_time(session(f"{name} new", backend=name, days=1), 1.3)]
    verdicts = verdicts_of(compare(base, new))
    assert verdicts["processor time per sample"] is SpeedVerdict.SUSPECTED


def test_the_help_of_the_option_names_every_kind_with_its_margin():
    text = " ".join(invoke("regress", "--help").stdout.split())
    default = text.partition("[default: (")[2].partition(");")[0]
    named = re.findall(r"(0\.\d+) of ([a-z, -]+)", default)
    margins = [(name, float(share)) for share, several in named for name in re.split(r", | and ", several) if name]
    assert {kind_named(name).name: share for name, share in margins} == {name: k.margin for name, k in KINDS.items()}
