"""Runs that were made for an entry of a submission, in tables, sentences and on pages."""

import io

import pytest
from rich.console import Console

from mlbench.reports.console import one_line, table
from mlbench.reports.explanation import next_step, sentence
from mlbench.reports.html.results import results_table
from mlbench.reports.summary import headline, summarise

CLOSED = {"model": "bert-99.9", "variant": "99.9", "category": "", "division": "closed"}
OPEN = {"model": "bert-99", "variant": "99", "category": "", "division": "open"}


@pytest.fixture
def bert(stored_run):
    """Return a run of BERT for an entry; one for the open division requires no accuracy."""

    def made(number=0, entry=None):
        run = stored_run("bert-onnxruntime-Server", number, entry=entry)
        if entry is not OPEN:
            return run
        targets = [each.model_copy(update={"required": False}) for each in run.accuracy.targets]
        return run.model_copy(
            update={
                "accuracy": run.accuracy.model_copy(update={"targets": targets}),
                "verdict": run.verdict.model_copy(update={"is_accurate": None}),
            }
        )

    return made


def text_of(shown):
    file = io.StringIO()
    Console(width=200, file=file).print(shown)
    return file.getvalue()


def test_a_line_and_a_row_name_the_model_of_the_entry(bert):
    assert one_line(bert(entry=CLOSED)).startswith("bert-99.9 onnxruntime Server fp32: ")
    rows = text_of(table([bert(1), bert(2, CLOSED)], 200))
    assert " bert " in rows
    assert " bert-99.9 " in rows


def test_each_accuracy_has_a_row_of_its_own_in_a_report(bert):
    summary = summarise({"": [bert(1), bert(2, CLOSED), bert(3, CLOSED)]})
    assert {each.series: len(each.runs) for each in summary.combinations} == {
        "onnxruntime fp32": 1,
        "onnxruntime fp32 accuracy 99.9": 2,
    }
    assert len({each.name for each in summary.combinations}) == 2
    assert len(results_table(summary).rows) == 2


def test_an_open_run_says_its_scores_and_that_none_was_required(bert):
    run = bert(entry=OPEN)
    assert sentence(run).startswith("bert-99 on onnxruntime (fp32, Server): ")
    assert "; valid for tier smoke, no accuracy required: " in sentence(run)
    assert "MISSES" not in sentence(run)


def test_the_command_for_a_comparison_asks_for_the_same_entry(bert):
    assert "--precision fp32 --variant 99.9 --repeat 5" in next_step(bert(entry=CLOSED))
    assert "--variant 99 --division open --repeat 5" in next_step(bert(entry=OPEN))


def test_a_headline_tells_what_was_not_measured_from_what_was_not_required(bert):
    opened, closed = bert(1, OPEN), bert(2)
    unscored = bert(3, OPEN).model_copy(update={"accuracy": None})
    assert headline(summarise({"": [opened]})) == "The run is valid; accuracy was not required."
    assert headline(summarise({"": [opened, closed]})) == "All 2 runs are valid; accuracy was not required in 1."
    every = headline(summarise({"": [opened, unscored, closed]}))
    assert every == "All 3 runs are valid; accuracy was not measured in 1 and not required in 1."


def test_the_report_shows_the_scores_of_an_open_run_and_calls_them_neither_good_nor_bad(bert):
    ((_, _, cell, *_),) = results_table(summarise({"": [bert(entry=OPEN)]})).rows
    assert (cell.text.split()[0], cell.tone) == ("F1", "")
    assert cell.detail.splitlines()[0] == "none required"
