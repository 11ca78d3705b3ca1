"""External text, escaped."""

import io
import json

import pytest
from rich.console import Console

from mlbench.reports.plain_text import json_text, markdown_text, single_line, terminal_text
from mlbench.reports.text_table import TextTable, print_line

ACTING = {
    "\0": r"\x00",
    "\b": r"\x08",
    "\r": r"\x0d",
    "\x1b": r"\x1b",
    "\x7f": r"\x7f",
    "\x9b": r"\x9b",
    "\u2028": r"\u2028",
    "\u202e": r"\u202e",
    "\u2066": r"\u2066",
    "\udcff": r"\udcff",
}


@pytest.mark.parametrize(("sign", "shown"), ACTING.items(), ids=ascii)
def test_what_acts_on_a_terminal_can_be_read_instead(sign, shown):
    assert terminal_text(f"a{sign}b") == f"a{shown}b"


def test_lines_and_words_of_any_language_stay():
    text = "a\tb\nMünchen 東京 ✓ 👩‍🔬"
    assert terminal_text(text) == text
    assert single_line(text) == "a b München 東京 ✓ 👩‍🔬"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028"], ids=ascii)
def test_a_line_ends_in_no_other_way(end):
    assert single_line(f"one{end}two") == "one two"


def test_json_means_the_same():
    document = {"text": "\x1b[31m\x9b\u202e\x7f", "lines": "a\nb"}
    shown = json_text(json.dumps(document, ensure_ascii=False, indent=1))
    assert json.loads(shown) == document
    assert "\x9b" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>", "&lt;b>"),
        ("a | b", r"a \| b"),
        ("&lt;", "&amp;lt;"),
        ("[a](b)", r"\[a\](b)"),
        ("`a` **b**", r"\`a\` \*\*b\*\*"),
        ("a\n# b", "a # b"),
        ("accuracy.F1 replies_agree 23.01 .. 23.95", "accuracy.F1 replies_agree 23.01 .. 23.95"),
    ],
)
def test_markdown_takes_it_as_it_stands(text, shown):
    assert markdown_text(text) == shown


def test_a_table_takes_brackets_and_control_characters_for_text():
    console = Console(width=80, file=io.StringIO())
    table = TextTable()
    table.add_column("[/x]")
    table.add_row("[bold]a[/nothing]\x1b[31m :warning:")
    console.print(table)
    print_line(console, "[/y] \x1b[0m")
    printed = console.file.getvalue()
    for text in ("[/x]", r"[bold]a[/nothing]\x1b[31m :warning:", r"[/y] \x1b[0m"):
        assert text in printed
    assert "\x1b" not in printed
