"""Texts from outside in everything that a report writes: they are shown as they are, and do nothing."""

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from mlbench.comparison.compare import compare
from mlbench.comparison.cost import Yield, Yields
from mlbench.reports.comparison import comparison_json, comparison_junit, comparison_markdown
from mlbench.reports.cost import cost_table
from mlbench.reports.html.page import html_page
from mlbench.reports.matrix import matrix
from mlbench.reports.summary import Content, summarise
from mlbench.reports.summary_markdown import summary_markdown

TAG = "<img src=x onerror=alert(1)>"
ACTING = f'"{TAG}|`[a](http://b)`\x1b[31m\u202e\x00'
SHOWN = f'"{TAG}|`[a](http://b)`\\x1b[31m\\u202e\\x00'
"""The same where nothing but control characters acts."""


@pytest.fixture
def odd(stored_run):
    """Return an Offline run with an acting text wherever a person or a plugin may have written one."""
    run = stored_run("resnet50-pytorch-Offline", backend=ACTING, tag=ACTING, workload=ACTING)
    environment = run.environment.model_copy(update={"os": ACTING, "libraries": {ACTING: ACTING}, "machine": ACTING})
    return run.model_copy(update={"environment": environment, "not_measured": {"energy": ACTING}})


@pytest.fixture
def failed(odd):
    failure = {"kind": "crash", "message": ACTING, "stage": ACTING, "log_tail": f"{ACTING}\n</pre>{TAG}"}
    fields = odd.model_dump() | {"status": "failed", "failure": failure, "result": None, "verdict": None}
    return type(odd).model_validate(fields | {"run_id": "failed", "accuracy": None})


@pytest.fixture
def cost():
    row = Yield(
        name=ACTING,
        instance=ACTING,
        per_hour=3.6,
        currency=ACTING,
        unit="samples",
        runs=1,
        per_second=100.0,
        bought=100_000.0,
        low=None,
        high=None,
    )
    return Yields(rows=(row,), left_out=(ACTING,), source=ACTING)


class Elements(HTMLParser):
    """Collects a page's elements with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def test_a_page_shows_texts_of_failures_costs_comparisons_and_machines_and_runs_none(odd, failed, cost):
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    sides = {"": [failed]}
    comparison = compare([odd], [failed])
    page = html_page(Content(title=ACTING, summary=summarise(sides), comparison=comparison, cost=cost))
    read = Elements(page)
    assert TAG not in page
    assert not [attributes for tag, attributes in read.elements if tag == "img"]
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert not set("\x1b\u202e\x00") & set(page)
    text = "".join(read.text)
    assert text.count(SHOWN) >= 12, "title, findings, log, comparison, prices, machine"
    assert f"{SHOWN}\n</pre>{TAG}" in text, "a log ends where its element does"


def links_and_tags(markdown):
    """Return what a CommonMark parser makes of a text besides text: links, pictures, code, tags."""
    tokens = [
        child
        for token in MarkdownIt("commonmark").enable("table").parse(markdown)
        for child in [token, *(token.children or ())]
    ]
    return [
        token for token in tokens if token.type in ("link_open", "image", "code_inline", "html_inline", "html_block")
    ]


def widths(markdown):
    """Return how many cells each row of the tables of a text has, table by table."""
    tables = []
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append(0)
        elif token.type in ("td_open", "th_open"):
            tables[-1][-1] += 1
    return tables


def test_markdown_of_runs_costs_and_a_comparison_has_neither_tag_nor_link_and_whole_rows(odd, failed, cost):
    content = Content(
        title=ACTING, summary=summarise({"": [odd, failed]}), comparison=compare([odd], [failed]), cost=cost
    )
    for text in (
        summary_markdown(content),
        comparison_markdown(content.comparison, title=ACTING),
        matrix([odd, failed]),
    ):
        assert links_and_tags(text) == []
        assert not set("\x1b\u202e\x00") & set(text)
        assert widths(text)
        assert all(len(set(rows)) == 1 and len(rows) > 1 for rows in widths(text)), "each row has a cell per column"


def test_a_summary_in_markdown_has_the_comparison_its_cost_and_the_notes_of_both(stored_run):
    base, new = stored_run("resnet50-pytorch-Offline"), stored_run("resnet50-pytorch-Offline", 1, 342.296)
    price = Yield(
        name="resnet50 Offline",
        instance="g6",
        per_hour=3.6,
        currency="USD",
        unit="samples",
        runs=5,
        per_second=100.0,
        bought=100_000.0,
        low=98_000.0,
        high=102_000.0,
    )
    cost = Yields(rows=(price,), left_out=("run 3f2a: a latency",), source="the list of November")
    content = Content(
        title="t", summary=summarise({"base": [base], "new": [new]}), comparison=compare([base], [new]), cost=cost
    )
    lines = summary_markdown(content).splitlines()
    assert "## Comparison" in lines
    row = next(line for line in lines if "throughput" in line)
    assert "| 685 samples/s | 342 samples/s | x 0.500 | unknown |" in row
    assert "| resnet50 Offline (5) | g6 | 3.6 | 100 samples/s | 100,000 samples | 98,000 to 102,000 | 10.0 |" in lines
    assert "Prices: the list of November." in lines
    assert "Left out run 3f2a: a latency." in lines
    rule = lines[lines.index("| runs | instance | USD/h | throughput | per USD | interval | USD per million |") + 1]
    assert rule == "| --- | --- | ---: | ---: | ---: | ---: | ---: |"


def test_junit_of_acting_texts_is_xml_that_says_them(odd, failed):
    suite = ElementTree.fromstring(comparison_junit(compare([odd], [failed])))
    (case,) = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    message = case.find("failure").get("message")
    assert message.startswith("the new side has none: ")
    assert SHOWN in message
    assert "\\x1b[31m" in case.get("classname")


def test_json_of_acting_texts_is_read_back_as_they_were(odd, failed):
    (cell,) = json.loads(comparison_json(compare([odd], [failed])))["cells"]
    assert ACTING in cell["name"]
    assert cell["lost"] is True


def test_a_table_of_costs_takes_brackets_and_control_characters_as_text(cost):
    table = cost_table(cost)
    assert str(table.columns[1]._cells[0]) == SHOWN
    assert str(table.columns[2].header) == f"{SHOWN}/h"
