from datetime import timedelta

import pytest

from mlbench import IncomparableRunsError
from mlbench.comparison.compare import compare
from mlbench.comparison.measures import measures_of
from mlbench.comparison.verdicts import SpeedVerdict

STEADY = [100, 101, 99, 100, 100]


def only_verdict(comparison):
    (cell,) = comparison.cells
    (judged,) = cell.speeds
    return judged.verdict


def test_a_ten_percent_loss_is_a_regression_and_one_percent_is_noise(runs, compare_after_quiet_nights):
    slower = compare_after_quiet_nights(runs(STEADY), runs([90, 91, 89, 90, 90]))
    assert only_verdict(slower) is SpeedVerdict.SLOWER
    assert slower.is_worse
    same = compare_after_quiet_nights(runs(STEADY), runs([99, 100, 98, 101, 99]))
    assert only_verdict(same) is SpeedVerdict.SAME
    assert not same.is_worse


def energies(runs, values, **changes):
    """Make runs of equal speed, each with its joules for a thousand samples."""
    made = runs([100] * len(values))
    meter = {"seconds": 10.0, "source": "RAPL", "covers": "package-0"} | changes
    energies = ({"joules": 1000 * value, "joules_per_sample": value} | meter for value in values)
    return [
        type(run).model_validate(run.model_dump() | {"energy": energy})
        for run, energy in zip(made, energies, strict=True)
    ]


def test_ten_percent_more_energy_for_a_sample_is_worse(runs, compare_after_quiet_nights):
    base, new = energies(runs, [2.0, 2.01, 1.99, 2.0]), energies(runs, [2.2, 2.21, 2.19, 2.2])
    comparison = compare_after_quiet_nights(base, new)
    (cell,) = comparison.cells
    assert [(each.measure, each.unit, each.verdict) for each in cell.speeds] == [
        ("throughput", "samples/s", SpeedVerdict.SAME),
        ("energy per sample (RAPL: package-0)", "J", SpeedVerdict.SLOWER),
    ]
    assert comparison.is_worse


def test_energy_of_other_parts_of_a_machine_is_not_compared(runs):
    base = energies(runs, [2.0, 2.01, 1.99, 2.0])
    for new in (energies(runs, [1.0, 1.01, 0.99, 1.0], covers="package-0, package-1"), runs([100] * 4)):
        (cell,) = compare(base, new).cells
        assert [each.measure for each in cell.speeds] == ["throughput"]


def test_ten_percent_more_is_faster_and_no_regression(runs, compare_after_quiet_nights):
    comparison = compare_after_quiet_nights(runs(STEADY), runs([110, 111, 109, 110, 110]))
    assert only_verdict(comparison) is SpeedVerdict.FASTER
    assert not comparison.is_worse


def test_more_latency_is_slower(runs, compare_after_quiet_nights):
    base, new = (
        runs(values, unit="ns", higher_is_better=False, scenario="SingleStream")
        for values in ([5e6, 5.01e6, 4.99e6], [5.5e6, 5.51e6, 5.49e6])
    )
    assert only_verdict(compare_after_quiet_nights(base, new)) is SpeedVerdict.SLOWER


def test_a_sure_change_within_the_margin_is_the_same(runs, compare_after_quiet_nights):
    comparison = compare_after_quiet_nights(runs(STEADY), runs([97, 97.1, 96.9, 97, 97]), margin=0.05)
    assert only_verdict(comparison) is SpeedVerdict.SAME
    assert (
        only_verdict(compare_after_quiet_nights(runs(STEADY), runs([97, 97.1, 96.9, 97, 97]), margin=0.01))
        is SpeedVerdict.SLOWER
    )


def test_noisy_nights_cannot_tell_and_say_why_and_what_would_have_been_seen(runs, earlier):
    base, new = runs([100] * 5), runs([92] * 5)
    history = earlier(base[0], nights=[1, 1.06, 0.95, 1.04, 0.96, 1.05, 0.94, 0.99, 1.03, 0.98] * 2)
    (judged,) = compare(base, new, history=history).cells[0].speeds
    assert judged.verdict is SpeedVerdict.CANNOT_TELL
    assert "sessions differ by 4." in judged.reason
    assert "repeat more often" in judged.reason
    assert 0.15 < judged.detectable < 0.25  # 2.9 x 4 % x sqrt(2) is 16 %, and a power of nine in ten takes 7 % more


def test_one_run_against_one_cannot_tell_but_shows_the_ratio(runs):
    (judged,) = compare(runs([100]), runs([50])).cells[0].speeds
    assert judged.verdict is SpeedVerdict.CANNOT_TELL
    assert judged.effect.ratio == pytest.approx(0.5)
    assert "--repeat 5" in judged.reason


def test_bimodal_repeats_are_inconclusive(runs, compare_after_quiet_nights):
    two_heaps = [100, 100.1, 99.9, 100.05, 104, 104.1, 103.9, 104.05]
    (judged,) = compare_after_quiet_nights(runs([102] * 8), runs(two_heaps)).cells[0].speeds
    assert judged.verdict is SpeedVerdict.CANNOT_TELL
    assert "are bimodal" in judged.reason


def test_one_run_against_one_has_no_verdict_although_latencies_show_a_spread_within_it(
    a_run, compare_after_quiet_nights
):
    def stream(factor):
        latencies = {"min": 4.0, "50.00_percentile": 4.9, "90.00_percentile": 5.0, "95.00_percentile": 5.1, "max": 5.2}
        result = {
            "value": 5e6 * factor,
            "unit": "ns",
            "higher_is_better": False,
            "latency_ns": {f"{name}_latency": round(ms * 1e6 * factor) for name, ms in latencies.items()},
            "counts": {"queries": 1000},
        }
        return [a_run(run_id=f"stream-{factor}", scenario="SingleStream", result=result, accuracy=None)]

    comparison = compare(stream(1), stream(1.5))
    assert only_verdict(comparison) is SpeedVerdict.CANNOT_TELL
    assert comparison.is_blind
    assert only_verdict(compare_after_quiet_nights(stream(1), stream(1.5))) is SpeedVerdict.SLOWER


def test_a_comparison_that_would_not_have_seen_the_speed_halved_judges_no_speed(runs):
    base, new = [100, 200, 400, 50], [110, 190, 420, 45]
    comparison = compare(runs(base, accuracy=None), runs(new, accuracy=None))
    (judged,) = comparison.cells[0].speeds
    assert judged.verdict is SpeedVerdict.CANNOT_TELL
    assert judged.detectable is None, "nine tenths would not have been seen either"
    assert judged.reason.endswith(
        "no slowdown would be detected; measure on more days, or interleave runs of both sides"
    )
    assert comparison.is_blind and comparison.is_blind_to_speed
    finer = compare(runs([108, 100, 92], accuracy=None), runs([100, 108, 92], accuracy=None))
    assert 0.5 < finer.cells[0].speeds[0].detectable < 0.9 and finer.is_blind_to_speed


def test_a_comparison_that_would_have_seen_it_is_not_blind(runs):
    comparison = compare(runs([100, 101, 99], accuracy=None), runs([101, 99, 100], accuracy=None))
    (judged,) = comparison.cells[0].speeds
    assert judged.verdict is SpeedVerdict.CANNOT_TELL
    assert judged.detectable < 0.5
    assert not comparison.is_blind
    assert not comparison.is_blind_to_speed


def test_server_runs_are_compared_by_latency_at_the_same_rate_only(a_run, compare_after_quiet_nights):
    def server(p99_ms, qps):
        result = {
            "value": qps,
            "unit": "samples/s",
            "higher_is_better": True,
            "latency_ns": {"99.00_percentile_latency": round(p99_ms * 1e6)},
            "counts": {"queries": 1000},
        }
        return a_run(scenario="Server", result=result, load={"target_qps": qps})

    base = [server(ms, 500) for ms in (10, 10.1, 9.9)]
    assert (
        only_verdict(compare_after_quiet_nights(base, [server(ms, 500) for ms in (12, 12.1, 11.9)]))
        is SpeedVerdict.SLOWER
    )
    (judged,) = compare_after_quiet_nights(base, [server(ms, 400) for ms in (8, 8.1, 7.9)]).cells[0].speeds
    assert judged.verdict is SpeedVerdict.CANNOT_TELL
    assert "set load.target_qps" in judged.reason


SPIKES = {"loadgen": "Server", "arrivals": "at a rate", "percentile": 0.95, "has_estimate": False}
"""A plugin's scenario, as records keep it."""


@pytest.fixture
def spikes(a_run):
    """Make runs in a scenario that is not installed, at 500 queries/s, by their 95th percentile latencies."""

    def spikes(*p95_ms, **facts):
        made = []
        for number, ms in enumerate(p95_ms):
            result = {
                "value": 500.0,
                "unit": "samples/s",
                "higher_is_better": True,
                "latency_ns": {"95.00_percentile_latency": round(ms * 1e6), "99.00_percentile_latency": 10**9},
                "counts": {"queries": 1000},
            }
            scenario = {"scenario": "Spikes", "scenario_facts": {**SPIKES, "compared_by": "latency", **facts}}
            made.append(a_run(run_id=f"run-{number}", result=result, load={"target_qps": 500}, **scenario))
        return made

    return spikes


def test_a_scenario_that_is_not_installed_is_compared_by_what_its_records_say(spikes, compare_after_quiet_nights):
    (judged,) = compare_after_quiet_nights(spikes(10, 10.1, 9.9), spikes(12, 12.1, 11.9)).cells[0].speeds
    assert (judged.measure, judged.verdict) == ("95th percentile latency", SpeedVerdict.SLOWER)
    by_result = {"compared_by": "result"}
    (judged,) = compare(spikes(10, 10.1, **by_result), spikes(12, 12.1, **by_result)).cells[0].speeds
    assert (judged.measure, judged.base) == ("throughput", (500.0, 500.0))


def test_runs_before_and_after_a_change_of_their_scenario_are_not_compared(spikes):
    base, new = spikes(10, 10.1), spikes(10, 10.1, percentile=0.99)
    with pytest.raises(IncomparableRunsError, match=r"traffic differs: .*p95.*p99.*--across traffic"):
        compare(base, new)


@pytest.mark.parametrize(
    ("percentile", "name"), [(0.5, "50th"), (0.91, "91st"), (0.92, "92nd"), (0.12, "12th"), (0.999, "99.9th")]
)
def test_a_latency_is_called_by_its_percentile(a_run, percentile, name):
    result = a_run().result.model_dump() | {"latency_ns": {f"{100 * percentile:.2f}_percentile_latency": 10**6}}
    run = a_run(result=result, scenario_facts={**SPIKES, "percentile": percentile, "compared_by": "latency"})
    assert [each.name for each in measures_of(run)] == [f"{name} percentile latency"]


def test_a_newly_missed_target_is_worse_whatever_the_speed(runs, a_run):
    accuracy = a_run().accuracy.model_dump()
    missed = accuracy | {"is_met": False, "scores": {"acc": 50.0}}
    comparison = compare(runs(STEADY), runs([200, 201, 199, 200, 200], accuracy=missed))
    assert comparison.cells[0].is_less_accurate
    assert comparison.is_worse
    (score,) = comparison.cells[0].scores
    assert (score.base, score.new) == (98.99396378269617, 50.0)


def test_invalid_runs_are_named_and_never_averaged(runs, a_run):
    broken = a_run().verdict.model_dump() | {"is_valid": False}
    comparison = compare(runs(STEADY), [*runs(STEADY), *runs([1], verdict=broken)])
    (cell,) = comparison.cells
    assert cell.speeds[0].new == tuple(STEADY)
    assert [line.split(":")[0] for line in cell.set_aside] == ["run-0"]


def test_runs_beside_other_work_are_counted_for_each_side(runs):
    busy = {"processes": 0.3, "stolen": 0.1}
    (cell,) = compare(runs(STEADY), [*runs(STEADY), *runs([100.0], other_work=busy)]).cells
    assert cell.beside == (
        "on the new side 1 of 6 runs were made under other load, which took up to 40% of the processors",
    )
    (cell,) = compare(runs(STEADY, other_work=busy), runs(STEADY)).cells
    assert cell.beside == (
        "in the base 5 of 5 runs were made under other load, which took up to 40% of the processors",
    )


def test_a_result_of_zero_is_named_and_never_compared(runs):
    comparison = compare(runs(STEADY), [*runs(STEADY), *runs([0.0])])
    (cell,) = comparison.cells
    assert cell.speeds[0].new == tuple(STEADY)
    assert cell.set_aside == ("run-0: its result is 0 samples/s",)


def test_a_side_without_a_valid_run_is_worse(runs, a_failure):
    comparison = compare(runs(STEADY), [a_failure])
    assert comparison.cells[0].lost
    assert comparison.is_worse


def test_a_missing_cell_is_worse_and_an_added_one_is_not(runs):
    both = runs(STEADY) + runs(STEADY, workload="bert")
    assert compare(both, runs(STEADY)).missing == ("bert pytorch Offline fp32",)
    assert compare(both, runs(STEADY)).is_worse
    assert compare(runs(STEADY), both).added == ("bert pytorch Offline fp32",)
    assert not compare(runs(STEADY), both).is_worse


@pytest.mark.thorough("statistics")
def test_many_comparisons_of_equals_hardly_ever_alarm(runs):
    import numpy as np

    rng, alarms = np.random.default_rng(7), 0
    for _ in range(25):
        base, new = (
            [run for name in "abcdefgh" for run in runs(100 * np.exp(rng.normal(0, 0.08, 5)), workload=name)]
            for _ in range(2)
        )
        alarms += compare(base, new).is_worse
    assert alarms <= 4  # five percent of 25 comparisons of eight cells each; uncorrected it is every second


# sessions


def two_sessions(runs, base, new):
    """Return two sets of repeats, the second a day later."""
    later = [run.model_copy(update={"run_id": f"new-{run.run_id}", "created": run.created + DAY}) for run in runs(new)]
    return runs(base), later


DAY = timedelta(days=1)


def test_two_sessions_of_close_repeats_cannot_tell_a_tenth_since_the_spread_of_sessions_is_unknown(runs):
    base, new = two_sessions(runs, STEADY, [90, 91, 89, 90, 90])
    comparison = compare(base, new)
    (judged,) = comparison.cells[0].speeds
    assert judged.verdict is SpeedVerdict.CANNOT_TELL
    assert "1 of 10 sessions are known, so sessions are assumed to differ by 5%" in judged.reason
    assert "measure on more days, or interleave runs of both sides" in judged.reason
    assert not comparison.is_worse


def test_without_earlier_sessions_a_loss_of_half_is_still_seen(runs):
    assert only_verdict(compare(*two_sessions(runs, STEADY, [50, 51, 49, 50, 50]))) is SpeedVerdict.SLOWER


def test_five_against_one_uses_all_five(runs):
    base, new = two_sessions(runs, STEADY, [50])
    (judged,) = compare(base, new).cells[0].speeds
    assert judged.base == tuple(STEADY)
    assert (
        judged.verdict is SpeedVerdict.SLOWER
    )  # by the base's spread between runs; 100 -> 50 is far beyond what is assumed
    (judged,) = compare(new, base).cells[0].speeds  # one base run has no spread between runs
    assert (judged.verdict, judged.effect.p_value) == (SpeedVerdict.CANNOT_TELL, None)
    assert "repeat the base with --repeat 5" in judged.reason


def test_one_run_is_less_certain_than_five(runs):
    base, new = two_sessions(runs, [100, 103, 97, 102, 98], [100, 103, 97, 102, 98])
    history = [
        run.model_copy(update={"run_id": f"{run.run_id}-{days}", "created": run.created - days * DAY})
        for run in base
        for days in range(1, 12)
    ]
    five, one = (compare(base, side, history=history).cells[0].speeds[0].effect for side in (new, new[:1]))
    # nights do not differ at all, repeats by 2.5 %: of one run there is 2.5 % (1 - 1/5) more variance
    assert five.error == pytest.approx(0, abs=1e-9)
    assert one.error == pytest.approx(0.0255 * (1 - 1 / 5) ** 0.5, rel=0.01)


def test_other_machines_settings_and_later_runs_say_nothing_about_the_spread(runs, environment, earlier):
    base, new = two_sessions(runs, STEADY, [90, 91, 89, 90, 90])
    elsewhere = environment.model_copy(update={"machine": "another"})
    strangers = [
        *(run.model_copy(update={"environment": elsewhere}) for run in earlier(base[0])),
        *earlier(runs([100], tier="dev")[0]),
        *earlier(runs([100], settings={})[0]),
        *(run.model_copy(update={"created": run.created + 30 * DAY}) for run in earlier(base[0])),
    ]
    assert only_verdict(compare(base, new, history=strangers)) is SpeedVerdict.CANNOT_TELL
    assert only_verdict(compare(base, new, history=earlier(base[0]))) is SpeedVerdict.SLOWER


def test_a_loss_that_lasts_for_nights_is_not_taken_for_noise(runs, earlier):
    base, new = two_sessions(runs, STEADY, [90, 91, 89, 90, 90])
    slow_nights = [run.model_copy(update={"created": run.created + 8 * DAY}) for run in earlier(new[0])[-7:]]
    tonight = [run.model_copy(update={"created": run.created + 9 * DAY}) for run in new]
    history = [*earlier(base[0]), *slow_nights]
    (judged,) = compare(base, tonight, history=history).cells[0].speeds
    assert (judged.verdict, judged.spread.count) == (SpeedVerdict.SLOWER, 21)  # twenty nights and the base


def test_a_machine_that_alternates_between_speeds_is_no_regression(runs, earlier):
    base, new = two_sessions(runs, STEADY, [90, 91, 89, 90, 90])
    history = earlier(base[0], nights=[1, 0.9, 1, 1, 0.9, 0.9, 1, 0.9, 1, 1, 0.9, 1])
    assert only_verdict(compare(base, new, history=history)) is SpeedVerdict.CANNOT_TELL


def in_turns(runs, base, new, order="ABBA"):
    """Return two sets of repeats, made within the hour, A B B A A B B A, or another way."""
    first, second = runs(base), [run.model_copy(update={"run_id": f"new-{run.run_id}"}) for run in runs(new)]
    pairs = zip(first, second, strict=True)
    orders = {
        "ABBA": [run for n, pair in enumerate(pairs) for run in (pair if n % 2 == 0 else pair[::-1])],
        "AABB": [*first, *second],
    }
    minutes = {run.run_id: minute for minute, run in enumerate(orders[order])}
    timed = [
        [run.model_copy(update={"created": run.created + timedelta(minutes=minutes[run.run_id])}) for run in side]
        for side in (first, second)
    ]
    return timed[0], timed[1]


def test_runs_made_in_turns_tell_a_tenth_though_the_machine_drifts_by_more(runs):
    drift = [100, 97, 94, 90, 87, 84, 80, 77]  # of the machine
    base, new = in_turns(runs, drift, [0.9 * value for value in drift])
    (judged,) = compare(base, [run for run in new]).cells[0].speeds
    assert (judged.verdict, judged.spread.source, judged.spread.count) == (SpeedVerdict.SLOWER, "turns", 8)
    assert judged.effect.ratio == pytest.approx(0.9)
    assert only_verdict(compare(*in_turns(runs, drift, drift))) is SpeedVerdict.SAME
    (judged,) = compare(*in_turns(runs, drift, drift, order="AABB")).cells[0].speeds
    assert judged.spread.source == "assumed"


def test_an_interval_beyond_the_margin_without_a_verdict_is_not_said_to_reach_into_it(runs):
    base, new = in_turns(runs, [136, 90.2, 83.4], [35.1, 36.6, 29.4])  # a third, on a machine with other work
    (judged,) = compare(base, new).cells[0].speeds
    assert judged.verdict is SpeedVerdict.CANNOT_TELL
    assert judged.effect.high < 0.95
    assert "3 pairs is all beyond the margin of 5%, but it is of 95%, and a verdict takes 99%" in judged.reason


def test_a_pair_that_broke_is_left_out_whole(runs, a_failure):
    base, new = in_turns(runs, [100, 90, 80, 70, 60], [100, 90, 80, 70, 60])
    new[1] = a_failure.model_copy(update={"run_id": new[1].run_id, "created": new[1].created})
    for theirs in (new, [new[0], *new[2:]]):  # it crashed, or left nothing at all
        (cell,) = compare(base, theirs).cells
        assert cell.speeds[0].spread.count == 4
        assert cell.speeds[0].verdict is SpeedVerdict.SAME


def test_a_base_made_again_in_turns_is_what_speeds_are_compared_with(runs):
    before, _ = two_sessions(runs, [150, 151, 149, 150, 150], STEADY)
    again, new = in_turns(runs, [100, 97, 94, 90], [100, 97, 94, 90])
    again = [run.model_copy(update={"run_id": f"again-{run.run_id}"}) for run in again]
    comparison = compare(before, new, again=again)
    (judged,) = comparison.cells[0].speeds
    assert (judged.verdict, judged.base) == (SpeedVerdict.SAME, (100, 97, 94, 90))
    again, new = in_turns(runs, [100, 97, 94, 90], [100, 97, 94, 90], order="AABB")
    (judged,) = compare(before, new, again=again).cells[0].speeds
    assert "not in at least 3 turns" in judged.reason


# what is not judged


def test_a_sure_gain_within_the_margin_is_not_called_faster(runs, compare_after_quiet_nights):
    assert only_verdict(compare_after_quiet_nights(runs(STEADY), runs([103] * 5))) is SpeedVerdict.SAME


def test_a_target_that_the_base_missed_too_is_not_newly_missed(runs, a_run, compare_after_quiet_nights):
    missed = a_run().accuracy.model_dump() | {"is_met": False, "scores": {"acc": 50.0}}
    comparison = compare_after_quiet_nights(runs(STEADY, accuracy=missed), runs(STEADY, accuracy=missed))
    assert not comparison.cells[0].is_less_accurate
    assert not comparison.is_worse


def test_a_cell_whose_base_has_no_valid_run_is_not_lost_and_not_judged(runs, a_failure):
    (cell,) = compare([a_failure], [a_failure]).cells
    assert not cell.lost
    assert "valid runs: the base has none" in cell.not_judged
    broken = runs([100])[0].verdict.model_dump() | {"is_valid": False}
    comparison = compare(runs(STEADY, verdict=broken, accuracy=None), runs(STEADY, accuracy=None))
    assert comparison.is_blind
    assert comparison.judged_count == 0


def test_one_crashed_repeat_is_named_and_the_others_are_compared(runs, a_failure, compare_after_quiet_nights):
    known = {"fingerprints": {"data": "one", "weights": "two"}, "loadgen_version": "5.0"}
    crashed = a_failure.model_copy(update={"run_id": "crashed"})
    for base, new in ((STEADY, [99] * 5), ([99] * 5, STEADY)):
        comparison = compare_after_quiet_nights(runs(base, **known), [crashed, *runs(new, **known)])
        assert only_verdict(comparison) is SpeedVerdict.SAME
        assert comparison.not_judged == ("resnet50 pytorch Offline fp32, valid runs: 1 of 6 failed or are INVALID",)
        assert not comparison.is_worse


# facts
