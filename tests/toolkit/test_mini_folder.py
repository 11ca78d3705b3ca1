from dataclasses import dataclass

import pytest

from mlbench import DataError
from mlbench.toolkit import MiniFolder, read_mini, write_mini

SHA256_OF_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-4, example of "abc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    layers: int
    widths: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    files: MiniFolder
    reference: float
    title: str
    sizes: Sizes


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"abc")
    return tmp_path


def a_profile(folder):
    files = MiniFolder.of(folder, ["weights.bin"])
    return Profile(files=files, reference=98.5, title='say "ten"', sizes=Sizes(layers=3, widths=(8, 16)))


def test_a_profile_comes_back_as_it_was_written(folder):
    write_mini(a_profile(folder), recipe="some.recipe")
    assert read_mini(Profile, folder) == a_profile(folder)


def test_the_description_says_who_wrote_it_and_which_files_belong_to_it(folder):
    write_mini(a_profile(folder), recipe="some.recipe")
    text = (folder / "mini.toml").read_text()
    assert text.startswith("# Written by some.recipe.\n")
    assert f'"weights.bin" = "{SHA256_OF_ABC}"' in text


def test_a_file_that_changed_since_is_refused_and_an_unchanged_one_is_not(folder):
    files = a_profile(folder).files
    assert files.file("weights.bin") == folder / "weights.bin"
    (folder / "weights.bin").write_bytes(b"abd")
    with pytest.raises(DataError, match=r"corrupt or another version: .*weights\.bin"):
        files.file("weights.bin")


def test_a_missing_file_is_named(folder):
    files = a_profile(folder).files
    (folder / "weights.bin").unlink()
    with pytest.raises(DataError, match=r"not found: .*weights\.bin.* Install mlbench again"):
        files.file("weights.bin")
