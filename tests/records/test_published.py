"""Published results: rows counted and spot values read in the official tables."""

import pytest

from mlbench import IncomparableRunsError
from mlbench.records.published import CLAIMS, NVIDIA_TABLES, place_of, published_results, selected, table


def test_all_rows_are_there():
    assert len(published_results()) == 937
    assert len(table(NVIDIA_TABLES)) == 70
    assert len(table(CLAIMS)) == 187


def test_a_result_is_as_it_was_published():
    (found,) = [
        each
        for each in selected(workload="llama2-70b", scenario="Offline", accelerator="B200")
        if each.variant == "99" and each.accelerators == 1
    ]
    assert (found.result_id, found.submitter, found.value, found.unit) == ("4.1-0074", "NVIDIA", 11264.4, "tokens/s")


def test_a_value_per_accelerator_is_the_eighth_part_of_eight():
    found = next(each for each in selected(workload="resnet50", scenario="Offline") if each.accelerators == 8)
    assert found.per_accelerator == found.value / 8


def test_systems_without_accelerators_have_none():
    assert {each.accelerators for each in published_results() if not each.accelerator} == {0}


@pytest.fixture
def official(a_run, environment):
    """Return a run of the official model, data, durations and accuracy, with one accelerator."""

    def official(value=20_000.0, **changes):
        from mlbench.records.accelerators import Accelerator

        device = Accelerator(
            name="A", memory_bytes=1, driver="1", power_limit_w=None, max_clock_mhz=None, ecc=None, mig=None
        )
        fields = {
            "profile": "full",
            "tier": "valid",
            "environment": environment.model_copy(update={"accelerators": [device]}),
            "result": a_run().result.model_dump() | {"value": value},
        }
        return a_run(**fields | changes)

    return official


def test_a_run_faster_than_all_is_first_and_one_slower_than_all_is_last(official):
    closed = [
        each
        for each in selected(workload="resnet50", scenario="Offline")
        if each.division == "closed" and each.accelerators
    ]
    first, last = place_of(official(value=1e9)), place_of(official(value=0.001))
    assert (first.rank, first.of) == (1, len(closed) + 1)
    assert (last.rank, last.of) == (len(closed) + 1, len(closed) + 1)
    assert first.worse[0].per_accelerator == max(each.per_accelerator for each in closed)
    assert last.better[-1].per_accelerator == min(each.per_accelerator for each in closed)


def test_a_lower_latency_is_a_better_place(official, a_run):
    result = a_run().result.model_dump() | {"unit": "ns", "higher_is_better": False}
    fast, slow = (
        place_of(official(scenario="SingleStream", result=result | {"value": value})) for value in (1.0, 1e12)
    )
    assert fast.rank == 1
    assert slow.rank == slow.of


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"profile": "mini"}, "mini profile"),
        ({"weights": "random"}, "its weights are random"),
        ({"tier": "smoke"}, "it is of tier smoke"),
        ({"workload": "digits"}, "nothing was published for digits Offline"),
    ],
)
def test_a_run_that_is_not_like_the_official_ones_has_no_place_and_is_told_why(official, change, reason):
    with pytest.raises(IncomparableRunsError, match=reason):
        place_of(official(**change))


def test_an_invalid_or_inaccurate_run_has_no_place(official, a_run):
    verdict = a_run().verdict.model_dump()
    with pytest.raises(IncomparableRunsError, match="it is INVALID"):
        place_of(official(verdict=verdict | {"is_valid": False}))
    with pytest.raises(IncomparableRunsError, match="it misses its accuracy target"):
        place_of(official(verdict=verdict | {"is_accurate": False}))
