import pytest

from mlbench import IncomparableRunsError, UsageError
from mlbench.comparison.compare import Verdict, compare

STEADY = [100, 101, 99, 100, 100]


@pytest.fixture
def runs(a_run):
    """Make a run per value."""

    def runs(values, *, unit="samples/s", higher_is_better=True, **changes):
        made = []
        for number, value in enumerate(values):
            result = {
                "value": value,
                "unit": unit,
                "higher_is_better": higher_is_better,
                "latency_ns": {},
                "counts": {"queries": 1},
            }
            made.append(a_run(run_id=f"run-{number}", result=result, **changes))
        return made

    return runs


def only_verdict(comparison):
    (cell,) = comparison.cells
    (judged,) = cell.speeds
    return judged.verdict


def test_a_ten_percent_loss_is_a_regression_and_one_percent_is_noise(runs):
    slower = compare(runs(STEADY), runs([90, 91, 89, 90, 90]))
    assert only_verdict(slower) is Verdict.SLOWER
    assert slower.is_worse
    same = compare(runs(STEADY), runs([99, 100, 98, 101, 99]))
    assert only_verdict(same) is Verdict.SAME
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


def test_ten_percent_more_energy_for_a_sample_is_worse(runs):
    base, new = energies(runs, [2.0, 2.01, 1.99, 2.0]), energies(runs, [2.2, 2.21, 2.19, 2.2])
    comparison = compare(base, new)
    (cell,) = comparison.cells
    assert [(each.measure, each.unit, each.verdict) for each in cell.speeds] == [
        ("throughput", "samples/s", Verdict.SAME),
        ("energy per sample (RAPL: package-0)", "J", Verdict.SLOWER),
    ]
    assert comparison.is_worse


def test_energy_of_other_parts_of_a_machine_is_not_compared(runs):
    base = energies(runs, [2.0, 2.01, 1.99, 2.0])
    for new in (energies(runs, [1.0, 1.01, 0.99, 1.0], covers="package-0, package-1"), runs([100] * 4)):
        (cell,) = compare(base, new).cells
        assert [each.measure for each in cell.speeds] == ["throughput"]


def test_ten_percent_more_is_faster_and_no_regression(runs):
    comparison = compare(runs(STEADY), runs([110, 111, 109, 110, 110]))
    assert only_verdict(comparison) is Verdict.FASTER
    assert not comparison.is_worse


def test_more_latency_is_slower(runs):
    base, new = (
        runs(values, unit="ns", higher_is_better=False, scenario="SingleStream")
        for values in ([5e6, 5.01e6, 4.99e6], [5.5e6, 5.51e6, 5.49e6])
    )
    assert only_verdict(compare(base, new)) is Verdict.SLOWER


def test_a_sure_change_within_the_margin_is_the_same(runs):
    comparison = compare(runs(STEADY), runs([97, 97.1, 96.9, 97, 97]), margin=0.05)
    assert only_verdict(comparison) is Verdict.SAME
    assert only_verdict(compare(runs(STEADY), runs([97, 97.1, 96.9, 97, 97]), margin=0.01)) is Verdict.SLOWER


def test_noisy_repeats_cannot_tell_and_say_why(runs):
    comparison = compare(runs([100, 140, 70, 110, 90]), runs([90, 130, 60, 100, 80]))
    (judged,) = comparison.cells[0].speeds
    assert judged.verdict is Verdict.CANNOT_TELL
    assert "repeat more often" in judged.reason


def test_one_run_against_one_cannot_tell_but_shows_the_ratio(runs):
    (judged,) = compare(runs([100]), runs([50])).cells[0].speeds
    assert judged.verdict is Verdict.CANNOT_TELL
    assert judged.effect.ratio == pytest.approx(0.5)
    assert "--repeat 5" in judged.reason


def test_repeats_in_two_heaps_cannot_tell(runs):
    two_heaps = [100, 101, 99, 100.5, 140, 141, 139, 140.5]
    (judged,) = compare(runs([50 + n / 10 for n in range(8)]), runs(two_heaps)).cells[0].speeds
    assert judged.verdict is Verdict.CANNOT_TELL
    assert "two heaps" in judged.reason


def test_one_stream_run_each_is_told_by_order_statistics(a_run):
    def stream(factor):
        latencies = {"min": 4.0, "50.00_percentile": 4.9, "90.00_percentile": 5.0, "95.00_percentile": 5.1, "max": 5.2}
        result = {
            "value": 5e6 * factor,
            "unit": "ns",
            "higher_is_better": False,
            "latency_ns": {f"{name}_latency": round(ms * 1e6 * factor) for name, ms in latencies.items()},
            "counts": {"queries": 1000},
        }
        return [a_run(scenario="SingleStream", result=result)]

    assert only_verdict(compare(stream(1), stream(1.5))) is Verdict.SLOWER
    assert only_verdict(compare(stream(1), stream(1.02))) is Verdict.CANNOT_TELL


def test_server_runs_are_compared_by_latency_at_the_same_rate_only(a_run):
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
    assert only_verdict(compare(base, [server(ms, 500) for ms in (12, 12.1, 11.9)])) is Verdict.SLOWER
    (judged,) = compare(base, [server(ms, 400) for ms in (8, 8.1, 7.9)]).cells[0].speeds
    assert judged.verdict is Verdict.CANNOT_TELL
    assert "set load.target_qps" in judged.reason


def test_a_newly_missed_target_is_worse_whatever_the_speed(runs, a_run):
    accuracy = a_run().accuracy.model_dump()
    missed = accuracy | {"is_met": False, "scores": {"acc": 50.0}}
    comparison = compare(runs(STEADY), runs([200, 201, 199, 200, 200], accuracy=missed))
    assert comparison.cells[0].is_less_accurate
    assert comparison.is_worse
    (score,) = comparison.cells[0].scores
    assert (score.base, score.new) == (98.39, 50.0)


def test_invalid_runs_are_named_and_never_averaged(runs, a_run):
    broken = a_run().verdict.model_dump() | {"is_valid": False}
    comparison = compare(runs(STEADY), [*runs(STEADY), *runs([1], verdict=broken)])
    (cell,) = comparison.cells
    assert cell.speeds[0].new == tuple(STEADY)
    assert [line.split(":")[0] for line in cell.set_aside] == ["run-0"]


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


@pytest.mark.parametrize(
    ("fact", "change"),
    [
        ("backend", {"backend": "onnxruntime"}),
        ("tier", {"tier": "dev"}),
        ("profile", {"profile": "full"}),
        ("precision", {"precision": "int8"}),
        ("settings", {"settings": {"execution.batch": {"value": 8, "layer": "command line"}}}),
        ("data", {"fingerprints": {"data": "other"}}),
        ("model", {"fingerprints": {"weights": "other"}}),
        ("seeds", {"seeds": {"qsl": 1, "sample_index": 2, "schedule": 3}}),
        ("loadgen", {"loadgen_version": "other"}),
    ],
)
def test_a_fact_that_must_match_refuses_unless_compared_across(runs, fact, change):
    base, new = runs(STEADY), runs(STEADY, **change)
    with pytest.raises(IncomparableRunsError, match=rf"{fact} differs: .* --across {fact}"):
        compare(base, new)
    comparison = compare(base, new, across=[fact])
    assert only_verdict(comparison) is Verdict.SAME
    assert fact in {difference.fact for difference in comparison.cells[0].differences}


def test_other_hardware_refuses(runs, environment):
    cpu = environment.cpu.model_copy(update={"model": "Another"})
    other = environment.model_copy(update={"cpu": cpu})
    with pytest.raises(IncomparableRunsError, match=r"hardware differs: .*Another"):
        compare(runs(STEADY), runs(STEADY, environment=other))


def test_library_versions_may_differ_and_are_listed(runs, environment):
    older = environment.model_copy(update={"libraries": {"torch": "2.9.0"}})
    newer = environment.model_copy(update={"libraries": {"torch": "2.15.0"}})
    (cell,) = compare(runs(STEADY, environment=older), runs(STEADY, environment=newer)).cells
    assert "torch differs: 2.9.0, then 2.15.0" in map(str, cell.differences)


def test_a_side_that_mixes_hardware_refuses(runs, environment):
    other = environment.model_copy(update={"machine": "another"})
    with pytest.raises(IncomparableRunsError, match="the new side mixes runs of different hardware"):
        compare(runs(STEADY), [*runs(STEADY), *runs(STEADY, environment=other)])


def test_an_unknown_fact_is_refused(runs):
    with pytest.raises(UsageError, match="unknown fact 'colour'"):
        compare(runs(STEADY), runs(STEADY), across=["colour"])


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
