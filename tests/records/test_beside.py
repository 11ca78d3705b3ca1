"""What a record, and reports of it, say of runs that were measured side by side."""

import json

import pytest
from invoking import invoke

from mlbench import IncomparableRunsError
from mlbench.comparison.compare import compare
from mlbench.records.beside import BesideRecord, count_neighboured, describe_lane
from mlbench.reports.console import one_line
from mlbench.reports.explanation import next_step
from mlbench.reports.html.conditions import _load
from mlbench.reports.page import page

NEIGHBOUR = {
    "lane": 1,
    "run_id": "20261125T144941Z-bert-null-Server-mini-fp32-smoke-7cde",
    "workload": "bert",
    "backend": "null",
    "scenario": "Server",
}
BESIDE = {
    "lane": 2,
    "lanes": 2,
    "processors": [4, 5, 6, 7, 12],
    "device": "",
    "runs": [NEIGHBOUR],
    "shared": ["memory of NUMA node 0", "last-level cache"],
}
ALONE = {**BESIDE, "runs": [], "shared": []}


def text_of(record):
    return page(record)


def test_the_line_of_a_run_says_how_many_others_went_on(a_run):
    assert "valid beside 1 other run of its command, acc" in one_line(a_run(beside=BESIDE))
    two = a_run(beside={**BESIDE, "runs": [NEIGHBOUR] * 2}, other_work={"processes": 0.3, "stolen": 0.0})
    assert "valid under other load (30% of the processors) and beside 2 other runs of its command, acc" in one_line(two)
    assert "beside" not in one_line(a_run(beside=ALONE))


def test_the_page_of_a_run_names_its_lane_its_neighbours_and_what_they_shared(a_run):
    said = text_of(a_run(beside={**BESIDE, "device": "1", "strayed": [0]}))
    assert "2 of 2: processors 4-7,12, device 1" in said
    assert "bert null Server [7cde]; shared: memory of NUMA node 0, last-level cache" in said
    assert "it could also use processors 0" in said
    assert "no other run of its command during the test" in text_of(a_run(beside=ALONE))
    assert "beside it" not in text_of(a_run())


def test_the_next_step_measures_it_as_it_was(a_run):
    assert "--parallel 2 --repeat 5" in next_step(a_run(beside=BESIDE))
    assert "--parallel" not in next_step(a_run())


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        (None, "the whole machine"),
        (ALONE, "one of 2 lanes, 5 processors"),
        ({**ALONE, "device": "0", "lanes": 8, "processors": [3]}, "one of 8 lanes, 1 processor, a GPU"),
        ({**ALONE, "device": "MIG-63feeb45"}, "one of 2 lanes, 5 processors, a slice of a GPU"),
    ],
)
def test_a_lane_is_told_by_how_much_of_the_machine_it_is(beside, said):
    assert describe_lane(BesideRecord(**beside) if beside else None) == said


def test_runs_are_counted_that_had_others_beside_them():
    besides = [BesideRecord(**each) for each in (BESIDE, ALONE)]
    assert count_neighboured([*besides, None]) == "1 of 3 runs were measured beside another of their command"
    assert count_neighboured([besides[1], None]) == ""


def test_runs_on_lanes_are_not_compared_with_those_of_the_whole_machine_unasked(a_run):
    base, new = [a_run()], [a_run(beside=BESIDE)]
    with pytest.raises(IncomparableRunsError, match="lanes differs: the whole machine, then one of 2 lanes"):
        compare(base, new)
    (cell,) = compare(base, new, across=("lanes",)).cells
    assert cell.beside == ("on the new side 1 of 1 runs were measured beside another of their command",)


def test_a_report_says_it_where_it_tells_of_the_machine(a_run):
    assert "1 of 1 runs were measured beside another of their command" in _load([a_run(beside=BESIDE)])


def test_queries_have_lanes(a_run, tmp_path):
    record = a_run(beside=BESIDE)
    for each in (record, a_run(run_id="20261125T144941Z-x-y-z-mini-fp32-smoke-0000")):
        (tmp_path / each.run_id).mkdir()
        (tmp_path / each.run_id / "record.json").write_text(each.text())
    done = invoke("query", "SELECT lane, lanes, runs_beside FROM runs ORDER BY lanes", "--json", "--results", tmp_path)
    assert json.loads(done.stdout) == [
        {"lane": 2, "lanes": 2, "runs_beside": 1},
        {"lane": None, "lanes": None, "runs_beside": None},
    ]
