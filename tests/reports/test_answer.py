"""The answer to a query, as a terminal shows it."""

import pytest
from rich.console import Console

from mlbench.records.store.query import QueryResult
from mlbench.reports.answer import answer_table


def shown(columns, *rows):
    console = Console(width=120)
    with console.capture() as capture:
        console.print(answer_table(QueryResult(columns=columns, rows=rows)))
    lines = [line for line in capture.get().splitlines() if line.startswith(("┃", "│"))]
    return [[cell.strip() for cell in line.strip("┃│").replace("┃", "│").split("│")] for line in lines]


@pytest.mark.parametrize("columns", [("workload", "value", "unit"), ("unit", "workload", "value")])
def test_a_result_stands_with_its_unit_wherever_the_unit_is_asked_for(columns):
    facts = [
        {"workload": "bert", "value": 15_366_200.0, "unit": "ns"},
        {"workload": "gptj", "value": 84.26, "unit": "x/s"},
    ]
    rows = [tuple(each[column] for column in columns) for each in facts]
    assert shown(columns, *rows) == [["workload", "value"], ["bert", "15.4 ms"], ["gptj", "84.3 x/s"]]


def test_a_value_without_a_unit_is_printed_as_it_is():
    assert shown(("value",), (15_366_200.0,)) == [["value"], ["1.53662e+07"]]
    assert shown(("unit",), ("ns",)) == [["unit"], ["ns"]]


def test_times_and_sizes_have_the_unit_that_suits_them():
    columns = ("duration_ns", "overhead_ns_per_sample", "peak_memory_bytes", "ns")
    assert shown(columns, (23_000_000_000, 410_401, 3 * 2**29, None))[1] == ["23.0 s", "410 us", "1.50 GiB", ""]


def test_what_is_no_number_stays_text():
    assert shown(("value", "unit"), (float("nan"), "ns"), ("many", "ns"), (None, None))[1:] == [["nan"], ["many"], [""]]
