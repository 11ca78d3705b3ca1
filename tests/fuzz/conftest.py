"""The harness of the fuzz suite: damaged files and odd values for every reader, and what a reader may do with them.

A reader returns, or raises `MlbenchError` with a message of one line and no control characters. Any other exception is
a traceback for a user, and fails the test. ``nox -s fuzz`` tries some thousands of inputs, the ordinary tests a few of
the same kinds.
"""

import codecs
import contextlib
import copy
import json
import os
import re
import resource
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from invoking import invoke

from mlbench.errors import MlbenchError

FEW = 2
"""Inputs of each kind for each reader in the ordinary tests."""
MORE = {"thorough": 30, "fuzz": 300}
"""The same by profile: the first has the same inputs each time, the second others."""

COMMON = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
for profile in MORE:
    settings.register_profile(profile, **COMMON)

ALARM_S = 120
"""A reader that takes longer hangs; on a crowded machine the slowest takes some seconds."""

DEEP = 10_000

ODD_JSON = [
    *("null", "true", "0", "-1", "1.5", "1e308", "1e-320", "1e400", "-1e400", "NaN", "Infinity", "-Infinity"),
    *(
        "1" * 5000,
        "-" + "9" * 40,
        "9223372036854775808",
        "18446744073709551616",
        "170141183460469231731687303715884105728",
    ),
    *('""', '"x"', '"nan"', '"1e400"', f'"{"x" * 100_000}"', '"\\u0000"', '"\\u001b[31mred\\u001b[0m"', '"\\ud800"'),
    *('"a\\nb"', '"\\u202ex"', '"=1+1"', '"[/x]"', '"../../../etc/passwd"', f'"{"d/" * 3000}"', '"\U0001f600"'),
    *('"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"', '"2026-11-21T00:45:01"'),
    *("[]", "{}", "[null]", "[[[[1]]]]", '{"": 0}', '{"a": {"b": []}}', "[1, 2, 3]", '["x"]'),
    "[" * DEEP + "]" * DEEP,
    '{"a":' * DEEP + "1" + "}" * DEEP,
    "[" * 90 + "]" * 90,
]
"""Values in place of another, as JSON spells them."""

ODD_TOML = [
    *("true", "0", "-1", "1.5", "1e308", "1e400", "nan", "inf", "-inf", "1" * 5000, "0x" + "f" * 5000, "10" + "0" * 14),
    *(
        '""',
        '"x"',
        "'[/x]'",
        f'"{"x" * 100_000}"',
        '"\\u0000"',
        '"\\u001b[31mred"',
        '"\\u202ex"',
        '"a\\nb"',
        '"../../x"',
    ),
    *("[]", "{}", "[[[1]]]", "[{}]", "{ a = { b = 1 } }", "2026-11-21T00:45:01Z", "0001-01-01", "07:32:00"),
    "[" * DEEP + "]" * DEEP,
    "{ a = " * 300 + "1" + " }" * 300,
    "[" * 90 + "]" * 90,
]

ODD_TEXT = [
    *(
        "",
        "0",
        "-1",
        "1e400",
        "nan",
        "inf",
        "-inf",
        "1" * 5000,
        str(10**15),
        "9223372036854775808",
        "0x10",
        "1_000",
        "٣",
    ),
    *("x" * 300, "x" * 100_000, "\u202ex", "é", "\U0001f600", "\x1b[31mred\x1b[0m", "a\nb", "\r", "\x7f", "\udcff"),
    *("..", "../../x", "/", "/x" * 3000, "[/x]", "=1+1", "a=b", "=", ",", "a,b=", "{}", "%s", "\\", "'\""),
]
"""Words of a command line, which holds no NUL."""

TOKENS = [
    *(
        b"\0",
        codecs.BOM_UTF8,
        codecs.BOM_UTF16_LE,
        b"\r\n",
        b"\r",
        b"\n\n",
        b"\t",
        b"\xff",
        b"\xed\xa0\x80",
        b"\x1b[2J",
    ),
    *(b"-", b".", b",", b":", b"=", b'"', b"'", b"#", b"[", b"]", b"{", b"}", b"[[", b"null", b"NaN", b"1e400", b"-1"),
    *(b"[" * DEEP, b'{"a":' * DEEP, b"a." * DEEP + b"a = 1\n", b"1" * 5000, b"9" * 25, b" " * 5000, b"x" * 200_000),
]
"""Bytes to put into a file."""


class Hung(BaseException):
    """A reader took too long; no ``except Exception`` swallows it."""


def assert_one_line(text):
    """Assert that a message is one line that controls no terminal."""
    assert text.strip(), "the message is empty"
    assert text.isprintable(), f"control characters in {text[:300]!r}"


@contextlib.contextmanager
def alarm():
    def ring(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(ALARM_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Tally:
    """How many inputs of this session were tried, by test, and how many ended in a traceback."""

    inputs: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    tracebacks: Counter = field(default_factory=Counter)


TALLY = pytest.StashKey[Tally]()


def pytest_configure(config):
    config.stash[TALLY] = Tally()


def pytest_terminal_summary(terminalreporter, config):
    tally = config.stash[TALLY]
    if not tally.inputs:
        return
    terminalreporter.section("fuzz")
    inputs, refused, tracebacks = (sum(each.values()) for each in (tally.inputs, tally.refused, tally.tracebacks))
    terminalreporter.write_line(f"{inputs} inputs to {len(tally.inputs)} readers: {refused} refused in one line,")
    terminalreporter.write_line(f"{inputs - refused - tracebacks} read, {tracebacks} tracebacks")


@pytest.fixture(scope="session", autouse=True)
def no_constants_of_ours():
    """Let inputs not depend on what happens to be imported: hypothesis tries constants that it finds in the source."""
    with pytest.MonkeyPatch.context() as patch:
        place = "hypothesis.internal.conjecture.providers.is_local_module_file"
        patch.setattr(place, lambda path: False, raising=False)
        yield


@dataclass
class Fuzz:
    """Tries inputs on a reader."""

    name: str
    folder: object
    tally: Tally
    examples: int
    is_derandomized: bool

    def judge(self, read, *arguments):
        """Call a reader, and return what it returns; it may refuse in one line."""
        self.tally.inputs[self.name] += 1
        try:
            with alarm():
                return read(*arguments)
        except MlbenchError as error:
            self.tally.refused[self.name] += 1
            assert_one_line(str(error))
            return None
        except (Exception, Hung, SystemExit):
            self.tally.tracebacks[self.name] += 1
            raise

    def draw(self, strategy, use, *, share=1.0):
        """Call ``use`` with examples of a strategy."""
        chosen = settings(**COMMON, max_examples=max(2, int(self.examples * share)), derandomize=self.is_derandomized)
        chosen(given(strategy)(use))()

    def contents(self, read, strategy, name, share):
        file = self.folder / name

        def use(content):
            file.write_bytes(content)
            self.judge(read, file)

        self.draw(strategy, use, share=share)

    def bytes(self, read, valid, name="file", *, share=1.0):
        """Try damaged copies of a valid file; the reader gets its path."""
        self.valid(read, valid, name)
        self.contents(read, damaged(valid), name, share)

    def json(self, read, valid, name="file.json", *, share=1.0):
        """Try a valid JSON value with parts replaced, left out, or there twice; then damaged copies of its text."""
        text = json.dumps(valid)
        self.valid(read, text.encode(), name)
        self.contents(read, odd_json(valid), name, share)
        self.contents(read, damaged(text.encode()), name, share / 2)

    def toml(self, read, valid, name="file.toml", *, share=1.0):
        """Try a valid TOML document with values replaced, then damaged copies of its text."""
        self.valid(read, valid.encode(), name)
        self.contents(read, odd_toml(valid), name, share)
        self.contents(read, damaged(valid.encode()), name, share / 2)

    def valid(self, read, content, name):
        """Read what is whole: a reader that refuses everything would pass all else."""
        (self.folder / name).write_bytes(content)
        read(self.folder / name)

    def paths(self, read, *, are_typed=False):
        """Try paths at which there is no file to read; none may be waited for. One that is typed holds no NUL."""
        folder = self.folder / "odd"
        folder.mkdir(exist_ok=True)
        for name, make in {"pipe": os.mkfifo, "loop": lambda path: path.symlink_to(path), "empty": os.mkdir}.items():
            if not os.path.lexists(folder / name):
                make(folder / name)
        odd = [*folder.iterdir(), folder / "nothing", folder / ("n" * 300), folder / ("n/" * 3000)]
        odd += [folder / "\udcff", folder / "line\nend\x1b[31m"]
        for path in odd if are_typed else [*odd, folder / "a\0b", folder / "\ud800"]:
            self.judge(read, path)
            self.judge(read, path / "inside")


@pytest.fixture
def fuzz(request, tmp_path):
    """Return what tries inputs on a reader."""
    profile = request.config.getoption("--hypothesis-profile", None)
    return Fuzz(
        name=request.node.nodeid.rpartition("::")[2],
        folder=tmp_path,
        tally=request.config.stash[TALLY],
        examples=MORE.get(profile, FEW),
        is_derandomized=profile != "fuzz",
    )


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_system():
    """No settings file but those that a test writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_SETTINGS", "/nowhere/settings.toml")
        yield


@st.composite
def damaged(draw, valid):
    """Draw what is left of a file after one to three accidents."""
    content = valid
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 40)))
        inside = content[start:end]
        accident = draw(
            st.sampled_from(["cut", "flip", "put", "drop", "repeat", "digits", "replace", "encode", "random"])
        )
        if accident == "cut":
            content = content[:start]
        elif accident == "flip" and inside:
            content = content[:start] + bytes([inside[0] ^ 1 << draw(st.integers(0, 7))]) + content[start + 1 :]
        elif accident == "put":
            content = content[:start] + draw(st.sampled_from(TOKENS)) + content[start:]
        elif accident == "drop":
            content = content[:start] + content[end:]
        elif accident == "repeat":
            content = content[:end] + inside * draw(st.integers(1, 50)) + content[end:]
        elif accident == "digits":
            content = with_other_number(content, start, draw(st.sampled_from(ODD_TEXT[:13])).encode())
        elif accident == "replace":
            content = content[:start] + draw(st.sampled_from(TOKENS)) + content[end:]
        elif accident == "encode":
            content = draw(
                st.sampled_from([content.replace(b"\n", b"\r\n"), codecs.BOM_UTF8 + content, b"", content * 2])
            )
        else:
            content = content[:start] + draw(st.binary(max_size=40)) + content[end:]
    return content


def with_other_number(content, start, number):
    """Return content with the first number from a place on replaced."""
    found = re.compile(rb"\d+").search(content, start)
    return content[: found.start()] + number + content[found.end() :] if found else content


def places_of(value, path=()):
    """Yield the path of each part of a JSON value, itself included."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places_of(entry, (*path, key))


@st.composite
def odd_json(draw, valid):
    """Draw the text of a JSON value of which one or two parts are odd."""
    document = {"": copy.deepcopy(valid)}
    placeholders = {}
    for number in range(draw(st.integers(1, 2))):
        *above, last = draw(st.sampled_from(list(places_of(document))[1:]))
        parent = document
        for key in above:
            parent = parent[key]
        change = draw(st.sampled_from(["replace"] * 6 + ["drop", "twice", "more"]))
        mark = f"placeholder {number}"
        if change == "drop" and above:
            del parent[last]
        elif change == "twice" and isinstance(parent, list):
            parent.append(parent[last])
        elif change == "more" and isinstance(parent, dict):
            parent[draw(st.sampled_from(["", "x", "\x1b[31m", "format", "k" * 1000]))] = mark
        else:
            parent[last] = mark
        placeholders[json.dumps(mark)] = draw(st.sampled_from(ODD_JSON))
    text = json.dumps(document.get("", "placeholder 0"))
    for mark, odd in placeholders.items():
        text = text.replace(mark, odd)
    return text.encode()


@st.composite
def odd_toml(draw, valid):
    """Draw a TOML document of which one or two lines are odd."""
    lines = valid.splitlines()
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[place].partition("=")
        change = draw(st.sampled_from(["value"] * 5 + ["drop", "twice", "key"]))
        if change == "value" and equals:
            lines[place] = f"{key}= {draw(st.sampled_from(ODD_TOML))}"
        elif change == "key" and equals:
            odd = draw(st.sampled_from(['""', '"\\u001b"', "x", "a." * 500 + "a", f'"{"k" * 1000}"']))
            lines[place] = lines[place].replace(key, f"{odd} ", 1)
        elif change == "twice":
            lines.insert(place, lines[place])
        elif len(lines) > 1:
            del lines[place]
    return "\n".join(lines).encode()


@pytest.fixture
def words():
    """Return the odd words of a command line, as a strategy."""
    return st.one_of(
        st.sampled_from(ODD_TEXT), st.text(st.characters(exclude_characters="\0"), max_size=20), st.integers().map(str)
    )


@pytest.fixture
def values():
    """Return the odd values, as JSON spells them, as a strategy."""
    return st.sampled_from(ODD_JSON)


@pytest.fixture
def little_memory():
    """Let this process have four more gigabytes of addresses: a pickle can ask for any number of places."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture
def mlbench():
    """Return a function that runs a command: it ends with 0 or 1, or with 2 and one line on what is wrong."""

    def run(*arguments):
        done = invoke(*arguments)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code in (0, 1, 2), done.output
        if done.exit_code == 2:
            (line,) = done.stderr.split("\n")[:-1]
            assert_one_line(line)
        return done

    return run


@pytest.fixture
def stored_run(tmp_path, a_run, monkeypatch):
    """Return a results folder with one run, ``one``, and the fields of its record."""
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    (tmp_path / "results" / "one").mkdir(parents=True)
    text = a_run(run_id="one").text()
    (tmp_path / "results" / "one" / "record.json").write_text(text)
    return tmp_path / "results", json.loads(text)
