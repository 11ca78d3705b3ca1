"""Which distributions are installed, told beside damaged ones."""

import sys
import zipfile
from importlib import metadata

import pytest

from mlbench.errors import describe_error, first_line
from mlbench.system.installed import find_installed, version_of, versions_of


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


def test_what_is_found_is_what_the_standard_library_finds():
    found = {(each.name, *entry) for each in find_installed("console_scripts") for entry in each.entry_points}
    expected = metadata.entry_points(group="console_scripts")
    assert {(entry.dist.metadata["Name"], entry.name, entry.value) for entry in expected} == found
    names = {each.metadata["Name"]: each.version for each in metadata.distributions()}
    assert versions_of(names) == names


@pytest.mark.parametrize("file", ["EGG-INFO", "dist-info"])
def test_a_distribution_in_an_archive_is_found(tmp_path, monkeypatch, file):
    folder = "EGG-INFO" if file == "EGG-INFO" else "zipped-2.0.dist-info"
    archive = tmp_path / ("zipped-2.0-py3.egg" if file == "EGG-INFO" else "zipped.zip")
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr(f"{folder}/{'PKG-INFO' if file == 'EGG-INFO' else 'METADATA'}", "Name: zipped\nVersion: 2.0\n")
        made.writestr(f"{folder}/entry_points.txt", "[birds]\nwren = zipped_birds:house.wren [all]\n")
        made.writestr("zipped_birds.py", "class house:\n    wren = 7\n")
    monkeypatch.syspath_prepend(str(archive))
    (found,) = find_installed("birds")
    assert [entry.load() for entry in found.entry_points] == [7]
    assert version_of("zipped") == "2.0"


def test_another_finders_distributions_are_found(monkeypatch, tmp_path, distribution):
    distribution("hidden", b"Name: hidden\nVersion: 3.1\n", b"[birds]\nowl = owl\n")
    sys.path.remove(str(tmp_path))

    class Finder(metadata.DistributionFinder):
        @classmethod
        def find_spec(cls, *_):
            return None

        @classmethod
        def find_distributions(cls, context=None):
            yield metadata.PathDistribution(tmp_path / "hidden-1.5.dist-info")

    assert version_of("hidden") is None
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert [each.name for each in find_installed("birds")] == ["hidden"]
    assert version_of("hidden") == "3.1"


def test_of_two_of_one_name_the_first_on_the_path_counts(distribution, tmp_path):
    distribution("Twin.one", b"Name: Twin.one\nVersion: 1\n", b"[birds]\nfirst = a\n")
    second = tmp_path / "second" / "twin_one-2.egg-info"
    second.mkdir(parents=True)
    (second / "PKG-INFO").write_text("Name: twin-one\nVersion: 2\n")
    (second / "entry_points.txt").write_text("[birds]\nsecond = a\n")
    sys.path.append(str(second.parent))  # the fixture's patch takes it away
    assert [entry.name for each in find_installed("birds") for entry in each.entry_points] == ["first"]
    assert version_of("twin_ONE") == "1"
    sys.path.remove(str(tmp_path))
    assert version_of("twin-one") == "2"


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
