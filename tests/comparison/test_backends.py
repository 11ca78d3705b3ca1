"""Runs of several backends, held against the first of them."""

import pytest

from mlbench.comparison.backends import compare_backends, faster_backends, judge_single_runs
from mlbench.reports.sides import backend_lines


@pytest.fixture
def ran(a_run):
    """Return a run of a backend at a speed, the n-th of all."""
    count = iter(range(1000))

    def ran(backend, value, **changes):
        number = next(count)
        created = a_run().created.replace(minute=number)
        result = a_run().result.model_dump() | {"value": value}
        return a_run(run_id=f"{number}", created=created, backend=backend, result=result, **changes)

    return ran


def verdict(a_run, **changes):
    return {**a_run().verdict.model_dump(), **changes}


def lines(records):
    return list(backend_lines(list(compare_backends(records)), 80))


def test_two_backends_that_ran_once_get_a_line_that_says_what_it_rests_on(ran):
    *_, second, _, answer, hint = lines([ran("pytorch", 100), ran("acme", 105)])
    assert second.endswith("x 1.050, one run each")
    assert answer.startswith("acme was 1.05 times as fast as pytorch in Offline, one run each, which may be chance (")
    assert "--until-sure" in hint


def test_single_runs_far_apart_say_how_much_sessions_may_differ_before_the_order_is_uncertain(ran):
    """The logarithm of 2.6 is 0.9555; t of 8 degrees of freedom is 3.355 at 1 %, and the root of 2 is 1.4142."""
    found = judge_single_runs(2.6, 1)
    assert found.holds_up_to == pytest.approx(0.9555 / 3.3554 / 1.41421, rel=1e-4)
    assert (found.assumed.low, found.assumed.high) == pytest.approx((2.6 / 1.17711, 2.6 * 1.17711), rel=1e-4)
    *_, answer, _ = lines([ran("pytorch", 100), ran("acme", 260)])
    assert answer.startswith("acme was 2.60 times as fast as pytorch in Offline, one run each (2.21 to 3.06 if ")
    assert answer.endswith("the order holds unless they differ by more than 20%).")


def test_runs_beside_other_load_say_that_they_differ_by_more(ran, a_run):
    load = {"processes": 0.9, "stolen": 0.0}
    runs = [ran("pytorch", 100, other_work=load), ran("acme", 260)]
    assert runs[0].other_work
    *_, answer, _ = lines(runs)
    assert answer.endswith("these runs were made under other load, which makes them differ by more).")


def test_the_answer_says_also_what_processor_time_says(ran, a_run):
    """Half of the time is twice as good; sessions of it differ by 1.5 %: t is 2.306, so 0.0489 on the logarithm."""

    def with_time(run, relative_ns):
        fields = {"ns": relative_ns, "unit": "sample", "covers": "all", "reference_ns": 1e6, "relative_ns": relative_ns}
        fields |= {"samples": 4, "rounds": 20, "reference": "scrypt"}
        return type(run).model_validate(run.model_dump() | {"processor_time": fields})

    runs = [with_time(ran("pytorch", 260), 10e6), with_time(ran("acme", 100), 5e6)]
    *_, answer, _ = lines(runs)
    assert answer.startswith("pytorch was 2.60 times as fast as acme in Offline")
    assert answer.endswith("; by processor time per sample 0.500 times, 0.476 to 0.525).")


def test_more_kinds_of_runs_than_four_are_one_sentence(ran):
    kinds = ("resnet50", "bert", "gptj", "retinanet", "3d-unet")
    runs = [
        ran(backend, value, workload=kind) for kind in kinds for backend, value in (("pytorch", 100), ("acme", 260))
    ]
    runs[-1] = ran("acme", 101, workload="3d-unet")
    *_, answer, _ = lines(runs)
    assert answer == "acme and pytorch, 5 kinds of runs: acme is 2.60 times as fast in 4; not known in 1."


def test_two_backends_that_ran_in_turns_get_a_verdict(ran):
    runs = [ran(backend, value + number) for number in range(5) for backend, value in (("pytorch", 100), ("acme", 150))]
    *_, second, _, answer = lines(runs)
    assert second.endswith(" faster")
    assert answer.startswith("acme is 1.49 times as fast as pytorch in Offline (")
    assert answer.endswith(", by 5 pairs of interleaved runs).")


def test_the_newest_run_of_each_backend_is_the_one_to_repeat(ran):
    runs = [ran(backend, 100 + number) for number in range(3) for backend in ("pytorch", "acme")]
    (found,) = compare_backends(runs)
    assert {name: run.run_id for name, run in found.newest.items()} == {"pytorch": "4", "acme": "5"}
    assert found.across == ("backend", "precision")


def faster(records, earlier):
    return [(each.run.run_id, each.other.backend, round(each.ratio, 3)) for each in faster_backends(records, earlier)]


def test_an_earlier_run_on_a_faster_backend_is_named_the_newest_of_each(ran):
    earlier = [ran("acme", 400), ran("acme", 150), ran("other", 120)]
    assert faster([ran("pytorch", 100)], earlier) == [("3", "acme", 1.5)]


def test_what_is_not_faster_by_more_than_the_margin_or_does_not_count_is_not_named(ran, a_run):
    slower = [ran("acme", 104), ran("null", 1e6, verdict=verdict(a_run, is_accurate=False))]
    assert faster([ran("pytorch", 100)], slower) == []
    assert faster([ran("pytorch", 100)], []) == []


def test_a_run_whose_answers_nobody_tested_is_not_named(ran, a_run):
    """The null backend without an accuracy test is valid, and the fastest of all."""
    untested = ran("null", 1e6, accuracy=None, verdict=verdict(a_run, is_accurate=None))
    assert untested.is_good
    assert faster([ran("pytorch", 100)], [untested, ran("acme", 150)]) == [("1", "acme", 1.5)]


def test_a_faster_run_of_another_machine_precision_or_kind_is_not_named(ran, a_run, environment):
    other_machine = ran("acme", 500, environment=environment.model_copy(update={"machine": "ffffffffffff"}))
    assert faster([ran("pytorch", 100)], [other_machine, ran("acme", 500, precision="bf16")]) == []
    assert faster([ran("pytorch", 100)], [ran("acme", 500, scenario="SingleStream")]) == []
    assert faster([ran("pytorch", 100, scenario="Server")], [ran("acme", 500, scenario="Server")]) == []


def test_a_shorter_latency_is_faster(ran, a_run):
    def streamed(backend, value):
        run = ran(backend, value, scenario="SingleStream")
        return run.model_copy(update={"result": run.result.model_copy(update={"higher_is_better": False})})

    assert faster([streamed("pytorch", 100)], [streamed("acme", 500)]) == []
    assert faster([streamed("pytorch", 100)], [streamed("acme", 50)]) == [("2", "acme", 2.0)]


def test_three_backends_are_one_picture_whose_bars_are_as_long_as_their_numbers(ran):
    heading, *rows = lines([ran("pytorch", 100), ran("acme", 50), ran("other", 200)])[:4]
    assert heading == "resnet50 Offline fp32, throughput; higher is better"
    assert [row.split()[0] for row in rows] == ["pytorch", "acme", "other"]
    base, half, double = (row.count("#") for row in rows)
    assert (base, half) == (double / 2, double / 4)
    assert "x 0.500" in rows[1] and "x 2.000" in rows[2]


def test_wrong_answers_and_invalid_runs_are_compared_with_nothing(ran, a_run):
    inaccurate = ran("null", 1e6, verdict=verdict(a_run, is_accurate=False))
    invalid = ran("acme", 1e6, verdict=verdict(a_run, is_valid=False))
    assert lines([ran("pytorch", 100), inaccurate, invalid]) == []


def test_each_precision_is_compared_by_itself_where_a_backend_ran_in_several(ran):
    runs = [ran(backend, 100, precision=precision) for backend in ("pytorch", "acme") for precision in ("fp32", "bf16")]
    found = list(compare_backends(runs))
    assert [cell.name for each in found for _, comparison in each.others for cell in comparison.cells] == [
        "resnet50 acme Offline fp32",
        "resnet50 acme Offline bf16",
    ]


def test_backends_that_prefer_different_precisions_are_compared_in_these(ran):
    first = lines([ran("pytorch", 100), ran("acme", 150, precision="bf16")])[0]
    assert first == "resnet50 Offline, throughput; higher is better"


def test_runs_that_differ_in_what_must_be_equal_are_not_compared(ran):
    assert lines([ran("pytorch", 100), ran("acme", 150, fingerprints={"data": "another"})]) == []


def test_one_backend_is_compared_with_nothing(ran):
    assert lines([ran("pytorch", 100), ran("pytorch", 150)]) == []
