"""The place of a run among published results, in lines."""

import pytest

from mlbench.records.published import Rank, load_published, select_published
from mlbench.reports.published import build_published_table, place_lines, rows_table


def published(**wanted):
    """Return published results that have these values, the fastest first."""
    found = [each for each in load_published() if all(getattr(each, name) == value for name, value in wanted.items())]
    return sorted(found, key=lambda each: each.per_accelerator, reverse=True)


@pytest.fixture(scope="module")
def neighbours():
    """Return six closed Offline results of Llama 2, the fastest first."""
    wanted = {"benchmark": "llama2-70b", "scenario": "Offline", "division": "closed", "variant": "99"}
    return [each for each in published(**wanted) if each.accelerators][:6]


def rank(better, worse, **changes):
    fields = {"variant": "99", "rank": 4, "of": 30, "accelerators": 8, "per_accelerator": 3000.0, "unit": "tokens/s"}
    return Rank(**fields | {"better": tuple(better), "worse": tuple(worse)} | changes)


def test_a_run_stands_between_those_that_are_better_and_those_that_are_worse(neighbours):
    lines = list(place_lines(rank(neighbours[:3], neighbours[3:])))
    named = [line.split()[0] for line in lines[:7]]
    assert named == [each.result_id for each in neighbours[:3]] + ["this"] + [each.result_id for each in neighbours[3:]]
    assert "this run, rank 4 of 30 (accuracy 99)" in lines[3]
    assert lines[3].endswith("3,000 tokens/s")


def test_a_neighbour_is_named_with_its_accelerators_and_its_value_for_each(neighbours):
    first = neighbours[0]
    (line, *_) = place_lines(rank([first], []))
    assert f"{first.submitter}, {first.accelerators} x " in line
    value, unit = line.split()[-2:]
    assert float(value.replace(",", "")) == pytest.approx(first.value / first.accelerators, rel=0.005)
    assert unit == "tokens/s"


def test_a_system_that_could_not_be_bought_is_marked():
    previews = published(availability="preview", division="closed")
    sold = published(availability="available", division="closed")
    assert "(preview)" in next(place_lines(rank(previews[:1], [])))
    assert "(available)" not in next(place_lines(rank(sold[:1], [])))
    assert "(preview)" not in next(place_lines(rank(sold[:1], [])))


def test_the_mark_is_kept_however_long_the_name_of_a_system_is():
    for each in published(availability="preview"):
        assert "(preview)" in next(place_lines(rank([each], [])))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Per accelerator; this run used 8;"),
        ({"accelerators": 0}, "Per system;"),
        ({"unit": "ms"}, "Latency;"),
    ],
)
def test_what_is_compared_is_said(changes, text):
    lines = list(place_lines(rank([], [], **changes)))
    assert any(line.startswith(text) for line in lines)
    assert any("not MLPerf results" in line for line in lines)


def cells(table):
    headings = [str(column.header) for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    return [dict(zip(headings, map(str, row), strict=True)) for row in rows]


def test_a_value_per_accelerator_is_given_of_rates_and_not_of_latencies():
    """NVIDIA's 4.1-0074: 11,264.4 tokens/s on one B200."""
    (b200,) = [
        each
        for each in select_published(workload="llama2-70b", scenario="Offline", accelerator="B200")
        if each.variant == "99" and each.accelerators == 1
    ]
    latency = published(unit="ms", division="closed")[0]
    first, second = cells(build_published_table([b200, latency], 400))
    assert (first["id"], first["value"], first["per accelerator"]) == ("4.1-0074", "11,264.4", "11,264")
    assert (second["per accelerator"], second["unit"]) == ("-", "ms")


def test_one_run_for_two_accuracies_is_a_row_with_both():
    both = [each for each in published(benchmark="llama2-70b", scenario="Offline", division="closed")]
    rows = cells(build_published_table(both, 400))
    assert len(rows) < len(both)
    assert any(row["benchmark"] == "llama2-70b 99, 99.9" for row in rows)


def test_columns_that_are_empty_throughout_are_left_out():
    table = rows_table([{"a": "1", "b": "", "c": ""}, {"a": "2", "b": "", "c": "x"}])
    assert [str(column.header) for column in table.columns] == ["a", "c"]
