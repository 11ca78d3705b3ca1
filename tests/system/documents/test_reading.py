"""Files that somebody else wrote: what is read, and what is refused in which words."""

import os

import pytest

from mlbench.errors import DataError, first_line, printable
from mlbench.system.documents import (
    DEPTH,
    copy_file,
    copy_folder,
    first_problem,
    inside,
    open_regular,
    parse_json,
    parse_toml,
    read_bytes,
    read_json,
    read_json_object,
    read_text,
    read_toml,
    refuse_odd_values,
)


@pytest.fixture
def tree(tmp_path):
    """Return a folder with a file, beside one with a secret."""
    for folder in ("tree/a", "home"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tree/a/log").write_text("a log")
    (tmp_path / "home/log").write_text("a secret")
    return tmp_path / "tree"


def to_file(tree):
    (tree / "link").symlink_to(tree.parent / "home/log")
    return tree / "link"


def by_other_links(tree):
    (tree / "link").symlink_to("a/second")
    (tree / "a/second").symlink_to("../third")
    (tree / "third").symlink_to("../home/log")
    return tree / "link"


def by_a_folder(tree):
    (tree / "link").symlink_to(tree.parent / "home")
    return tree / "link/log"


def upwards(tree):
    return tree / "a/../../home/log"


def to_a_neighbour(tree):
    tree.with_name("tree-of-another").mkdir()
    (tree.with_name("tree-of-another") / "log").write_text("a secret")
    (tree / "link").symlink_to("../tree-of-another/log")
    return tree / "link"


@pytest.mark.parametrize("make", [to_file, by_other_links, by_a_folder, upwards, to_a_neighbour])
def test_no_link_leads_out_of_a_tree(tree, make):
    path = make(tree)
    with inside(tree):
        with pytest.raises(DataError, match=r"log cannot be read: .*: it leads out of its folder, to .*/log\."):
            read_text(path, what="log")
        with pytest.raises(DataError, match=r"cannot be copied: it leads out of its folder, to /.*/log\."):
            copy_file(path, tree / "copy")
        assert not (tree / "copy").exists()
    assert read_text(path, what="log") == "a secret"  # of the user's own words there is no tree


def test_a_link_in_a_tree_is_followed_wherever_the_tree_is(tree, tmp_path):
    (tree / "link").symlink_to("a/log")
    (tmp_path / "other").symlink_to(tree)
    for root in (tree, tmp_path / "other", tmp_path / "other/a/.."):
        with inside(root):
            copy_file(root / "link", tmp_path / "copy")
            assert (tmp_path / "copy").read_text() == "a log"
            assert read_text(tmp_path / "home/log", what="log") == "a secret"  # not below the tree


def test_a_pipe_a_loop_and_a_link_to_nothing_in_a_tree_are_refused_at_once(tree):
    os.mkfifo(tree / "pipe")
    (tree / "loop").symlink_to("loop")
    (tree / "nothing").symlink_to("a/nothing")
    with inside(tree):
        for name in ("pipe", "loop", "nothing"):
            with pytest.raises(DataError, match=f"{name} cannot be copied: "):
                copy_file(tree / name, tree / "copy")


def test_a_folder_is_copied_without_what_its_links_lead_to(tree, tmp_path):
    copy_folder(tree, tmp_path / "copy")
    assert (tmp_path / "copy/a/log").read_text() == "a log"
    by_a_folder(tree)
    with pytest.raises(DataError, match=r"tree/link cannot be copied: it leads out of its folder, to /.*/home\."):
        copy_folder(tree, tmp_path / "second")
    with pytest.raises(FileNotFoundError):
        copy_folder(tree / "nothing", tmp_path / "third")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, -2.5, "\\ud83d\\ude00", null, true]}', {"a": [1, -2.5, "\U0001f600", None, True]}),
        ("18446744073709551616", 2**64),
        ("1e308", 1e308),
        (f'"{"1" * 5000}"', "1" * 5000),
        ("[" * DEPTH + "]" * DEPTH, None),
    ],
)
def test_what_is_json_is_read_as_python_reads_it(text, value):
    assert value is None or parse_json(text) == value
    parse_json(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Expecting value"),
        ("[" * (DEPTH + 1) + "]" * (DEPTH + 1), "nests deeper than 100 levels"),
        ("[" * 100_000, "nests deeper than 100 levels"),
        ('{"a":' * (DEPTH + 1) + "1" + "}" * (DEPTH + 1), "nests deeper than 100 levels"),
        ("1" * 5000, "an integer that is too large"),
        (str(2**127), "an integer that is too large"),
        ("1e400", "a number that is too large"),
        ("NaN", "it has NaN"),
        ("-Infinity", "it has -Infinity"),
        ('"\\ud800"', "half of a surrogate pair"),
    ],
)
def test_unusable_values_are_refused(text, told):
    with pytest.raises(ValueError, match=told):
        parse_json(text)


def test_nan_is_read_where_it_is_asked_for():
    assert parse_json("[NaN, Infinity]", allows_nan=True)[1] == float("inf")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a =", "Invalid value"),
        (f"a = {'[' * 10_000}", "nests deeper than 100 levels"),
        (f"a = {'[' * 150}{']' * 150}", "nests deeper than 100 levels"),
        ("a." * 100_000 + "a = 1", "nests deeper than 100 levels"),
        ('"a" . ' * 100_000 + "a = 1", "nests deeper than 100 levels"),
        (f"a = {'1' * 5000}", "an integer that is too large"),
        (f"a = 0x{'f' * 5000}", "an integer that is too large"),
        ("a = 1\na = 2", "Cannot overwrite a value"),
    ],
)
def test_unusable_toml_is_refused(text, told):
    with pytest.raises(ValueError, match=told):
        parse_toml(text)


def test_what_is_toml_is_read():
    assert parse_toml('[[a.b]]\nc = 0.5\n"d.e" = [1, 2]\n') == {"a": {"b": [{"c": 0.5, "d.e": [1, 2]}]}}


def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path):
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2\rc = 3\n")
    assert read_text(tmp_path / "file", what="file") == "a = 1\nb = 2\nc = 3\n"
    assert read_toml(tmp_path / "file", what="file") == {"a": 1, "b": 2, "c": 3}


def test_a_file_that_is_too_large_is_refused_and_one_of_the_size_read(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert read_bytes(tmp_path / "file", what="file", limit_bytes=5) == b"12345"
    with pytest.raises(DataError, match=r"file is larger than 4 bytes: .*file"):
        read_bytes(tmp_path / "file", what="file", limit_bytes=4)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, told in {
        tmp_path / "pipe": "no regular file",
        tmp_path: "Is a directory",
        tmp_path / "none": "No such file",
        tmp_path / ("n" * 300): "File name too long",
        tmp_path / "a\0b": "no path",
    }.items():
        with pytest.raises(OSError, match=told):
            open_regular(path)
        with pytest.raises(DataError, match=f"price file cannot be read: .*: {told}"):
            read_text(path, what="price file")
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="no regular file"):
            open_regular(tmp_path / "pipe")
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_refusal_names_what_the_file_should_be_its_path_and_the_reason(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"ab\xff")
    with pytest.raises(DataError, match=r"price file is not text: .*file: byte 2 is not UTF-8\."):
        read_text(file, what="price file")
    assert read_text(file, what="price file", replaces_errors=True) == "ab\ufffd"
    file.write_text("[1")
    with pytest.raises(DataError, match=r"price file .*file is not JSON: .*line 1"):
        read_json(file, what="price file")
    file.write_text("[1]")
    with pytest.raises(DataError, match=r"price file .*file is not a JSON object\. Try again\."):
        read_json_object(file, what="price file", hint="Try again.")
    with pytest.raises(DataError, match=r"price file not found: .*none\. Buy it\."):
        read_json(tmp_path / "none", what="price file", missing_hint="Buy it.")


def test_code_that_stumbles_over_a_value_says_so_in_one_line():
    for stumble in (lambda: int("x"), lambda: {}["x"], lambda: 1 / 0, lambda: None.x, lambda: int(float("inf"))):
        with (
            pytest.raises(DataError, match="the log: a value is of the wrong kind: ") as caught,
            refuse_odd_values("the log"),
        ):
            stumble()
        assert str(caught.value).isprintable()


def test_a_refusal_from_within_stays_what_it_is():
    with pytest.raises(DataError, match=r"^mine$"), refuse_odd_values("the log"):
        raise DataError("mine")


def test_the_first_problem_is_named_with_its_place():
    from pydantic import BaseModel, ValidationError

    class Part(BaseModel):
        count: int

    class Whole(BaseModel):
        parts: list[Part]

    with pytest.raises(ValidationError) as caught:
        Whole.model_validate({"parts": [{"count": 1}, {"count": "x"}]})
    assert first_problem(caught.value).startswith("parts.1.count: Input should be a valid integer")
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(None)
    assert first_problem(caught.value, whole="the record").startswith("the record: ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, é and 漢", "plain, é and 漢"),
        ("a\nb\tc", "a b c"),
        ("\x1b[31m\x07\x9b\u202e\ud800", r"\x1b[31m\x07\x9b\u202e\ud800"),
    ],
)
def test_messages_are_one_line_that_controls_no_terminal(text, shown):
    assert printable(text) == shown
    assert str(DataError(text, hint=text)) == f"{shown} {shown}"


def test_a_message_has_an_end():
    assert len(str(DataError("x" * 10_000))) < 5000


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("\n  first.\nsecond"), "first"),
        (ValueError(), "ValueError"),
        (ValueError(" \n"), "ValueError"),
        (KeyError("x"), "'x'"),
    ],
)
def test_of_an_error_the_first_line_is_reported_or_its_type(error, line):
    assert first_line(error) == line
