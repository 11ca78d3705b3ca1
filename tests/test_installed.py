"""Which distributions are installed, told beside damaged ones."""

from importlib import metadata

import pytest

from mlbench.errors import describe_error, first_line
from mlbench.installed import find_installed, version_of


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Lay down a distribution's files."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def distribution(name, metadata_=b"", entry_points=b""):
        info = tmp_path / f"{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_bytes(metadata_)
        (info / "entry_points.txt").write_bytes(entry_points)

    return distribution


def test_a_damaged_one_is_named_beside_the_others(distribution):
    distribution("whole", b"Metadata-Version: 2.1\nName: whole\nVersion: 1.5\n", b"[birds]\nwren = wren\n")
    distribution("bad", b"\xff", b"[birds]\nowl = \xff\n")
    found = {each.name: each for each in find_installed("birds")}
    assert [entry.name for entry in found["whole"].entry_points] == ["wren"]
    assert "UnicodeDecodeError" in found["bad"].fault
    assert set(found) == {"whole", "bad"}


def test_a_version_that_cannot_be_read_is_unknown(distribution):
    distribution("bad", b"Name: \xff\n")
    with pytest.raises(UnicodeDecodeError):
        metadata.version("bad")
    assert version_of("bad") == "unknown"
    assert version_of("no-such-distribution") is None


class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")


MUTE = "(a Mute whose text cannot be read: ValueError)"


@pytest.mark.parametrize(
    ("error", "message", "described"),
    [
        (OSError("two.\nlines"), "two", "OSError: two."),
        (OSError(), "OSError", "OSError"),
        (Mute(), MUTE, f"Mute: {MUTE}"),
        (SystemExit(0), "0", "SystemExit: 0"),
        (OSError("x" * 1000), "x" * 300, "OSError: " + "x" * 300),
    ],
)
def test_an_error_is_one_short_line(error, message, described):
    assert first_line(error) == message
    assert describe_error(error) == described
