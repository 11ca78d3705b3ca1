"""Turns until each cell has a verdict: which are made, when they end, and what an interruption leaves."""

import time
from dataclasses import replace

import pytest

from mlbench.errors import MlbenchError
from mlbench.records.expected_cost import Basis, ExpectedTime
from mlbench.running.turns import Maker, request_like
from mlbench.running.until_sure import CellId, CellInTurns, measure_until_sure


def far():
    """Return a time that no test here waits for."""
    return time.monotonic() + 10


@pytest.fixture
def cell(a_run, tmp_path):
    """Return a cell whose runs are stored at once; those that ``fails`` names by side and number of the turn fail."""

    def cell(name="a", fails=(), error_at=None, turn_s=0.0):
        def run(request):
            _, side, number = request.tag.split("-")
            if error_at == f"{side}{number}":
                raise MlbenchError("the disk is full.")
            stored = len(list(tmp_path.glob(".in-turns/*")))
            record = a_run(run_id=f"2026T{stored:04}", tag=request.tag)
            if f"{side}{number}" in fails:
                failure = {"kind": "crash", "message": "it ended", "stage": "performance", "log_tail": ""}
                record = a_run(run_id=record.run_id, tag=request.tag, status="failed", failure=failure, result=None)
            (request.results / record.run_id).mkdir(parents=True)
            (request.results / record.run_id / "record.json").write_text(record.text())
            return record

        makers = [
            Maker(request=replace(request_like(a_run(), tmp_path), tag=f"{name}-{side}"), run=run)
            for side in ("base", "new")
        ]
        turn = ExpectedTime(seconds=turn_s, basis=Basis.SAME)
        return CellInTurns(id=CellId(0, (name,)), name=name, base=makers[0], new=makers[1], across=(), turn=turn)

    return cell


def open_below(turns):
    """Return what is open: each cell with fewer pairs than it needs."""
    return lambda: {cell.id for cell, needed in turns if len(cell.pairs) < needed}


def numbers_of(cell):
    return [[run.tag for run in pair] for pair in cell.pairs]


def test_a_cell_with_a_verdict_is_measured_no_more_and_the_others_go_on(cell):
    quick, slow = cell("a"), cell("b")
    assert measure_until_sure([quick, slow], open_below([(quick, 3), (slow, 5)]), far())
    assert (quick.made, slow.made) == (3, 5)
    assert numbers_of(quick)[0] == ["a-base-1", "a-new-1"]


def test_no_turn_begins_that_would_end_after_the_budget(cell):
    long, short = cell("a", turn_s=1e9), cell("b")
    assert not measure_until_sure([long, short], open_below([(long, 2), (short, 2)]), 1e8)
    assert (long.made, short.made) == (0, 2)


def test_a_side_that_always_fails_ends_its_cell_and_not_the_others(cell):
    broken, fine = cell("a", fails={f"new{number}" for number in range(100)}), cell("b")
    assert measure_until_sure([broken, fine], lambda: {broken.id, *open_below([(fine, 5)])()}, far())
    assert (broken.made, fine.made) == (3, 5)
    assert broken.why_lost.startswith("3 turns in a row gave no pair that counts (2026T")
    assert "failed (crash during performance)" in broken.why_lost
    assert not fine.why_lost


def test_failures_now_and_then_end_nothing(cell):
    flaky = cell(fails={"new1", "base3", "new4"})
    assert measure_until_sure([flaky], open_below([(flaky, 8)]), far())
    assert flaky.made == 8


def test_a_run_that_cannot_be_made_ends_its_cell_with_the_reason_and_keeps_its_pairs(cell):
    stopped, fine = cell("a", error_at="new3"), cell("b")
    assert measure_until_sure([stopped, fine], open_below([(stopped, 5), (fine, 5)]), far())
    assert (len(stopped.pairs), stopped.why_lost, len(fine.pairs)) == (2, "the disk is full.", 5)


def test_another_try_begins_with_all_pairs_that_are_stored_also_after_one_that_failed(cell):
    first = cell(fails={"new2"})
    measure_until_sure([first], open_below([(first, 4)]), far())
    second = cell()
    assert sorted(second.by_number) == [1, 3, 4]
    assert measure_until_sure([second], open_below([(second, 5)]), far())
    assert second.made == 2
    assert sorted(second.by_number) == [1, 2, 3, 4, 5]
