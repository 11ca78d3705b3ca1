"""What is said of errors that are not ours: one line to print, whatever they do."""

import pytest

from mlbench.errors import describe_error, one_line, printable


class Unreadable(Exception):
    def __str__(self):
        raise SystemExit("no text today")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("too long"), "ValueError: too long"),
        (ValueError("\n  \nsecond line\nthird"), "ValueError: second line"),
        (ValueError(""), "ValueError"),
        (ValueError("caf\udce9"), r"ValueError: caf\udce9"),
        (ValueError("\x1b[31mred\x07"), r"ValueError: \x1b[31mred\x07"),
        (SystemExit(0), "SystemExit: 0"),
        (Unreadable(), "Unreadable: (a Unreadable whose text cannot be read: SystemExit)"),
    ],
)
def test_an_error_is_described_in_one_printable_line(error, said):
    assert describe_error(error) == said


def test_a_text_of_megabytes_is_cut():
    assert one_line("x" * 2**20) == "x" * 300


def test_what_is_no_text_is_spelled_out():
    assert one_line(5) == "5"
    assert one_line(None) == "None"


def test_line_ends_become_blanks_and_letters_of_all_languages_stay():
    assert printable("Grüße\n日本語\t\x00") == "Grüße 日本語 \\x00"
