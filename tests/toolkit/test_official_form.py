"""A smaller set of the official form says where it differs; anything else is refused in one line."""

from dataclasses import dataclass

import pytest

from mlbench import Target
from mlbench.errors import DataError
from mlbench.toolkit.official_form import FileForm, read_form


@dataclass(frozen=True, kw_only=True)
class Sizes:
    planes: int
    tables: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Files:
    samples: int
    sizes: Sizes
    weights_md5: str


OFFICIAL = Files(samples=50_000, sizes=Sizes(planes=64, tables=(9, 9)), weights_md5="9e9c")
TARGETS = (Target.at_least("acc", 99.0, reference=100.0),)


@pytest.fixture
def described(tmp_path):
    def read(text):
        file = tmp_path / "smaller.toml"
        file.write_text(text)
        return read_form(OFFICIAL, file)

    return read


def test_official_files_deviate_in_nothing_and_have_the_official_targets():
    form = read_form(OFFICIAL, None)
    assert (form.files, form.deviations) == (OFFICIAL, ())
    assert form.targets(TARGETS) == TARGETS


def test_a_smaller_set_keeps_what_it_does_not_say_and_says_what_differs(described):
    form = described('samples = 24\nweights_md5 = "aaaa"\n[sizes]\nplanes = 8\n')
    assert form.files == Files(samples=24, sizes=Sizes(planes=8, tables=(9, 9)), weights_md5="aaaa")
    assert form.deviations == ("samples 24, not 50000", "planes 8, not 64")


def test_a_set_with_other_checksums_alone_is_not_official_either(described):
    assert described('weights_md5 = "aaaa"').deviations == ("other files",)
    assert described("").deviations == ("other files",)


def test_targets_are_the_official_shares_of_the_sets_own_reference(described):
    (target,) = described("samples = 24\n[reference]\nacc = 50.0").targets(TARGETS)
    assert (target.reference, target.lower) == (50.0, 49.5)


def test_without_a_reference_the_official_targets_hold(described):
    assert described("samples = 24").targets(TARGETS) == TARGETS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sample = 24", "has sample, which is not a size of the official files"),
        ("sizes = 24", "has sizes, which"),
        ("[samples]\na = 1", "has samples, which"),
        ("[sizes]\nwidth = 1", r"has sizes\.width, which"),
        ('samples = "many"', "samples"),
        ("samples = ", "is not a TOML file"),
        ("[reference]\nacc = 'x'", "acc"),
    ],
)
def test_a_description_that_cannot_be_right_is_refused(described, text, reason):
    with pytest.raises(DataError, match=reason):
        described(text)


def test_a_reference_without_a_score_that_has_a_target_is_refused():
    form = FileForm(files=OFFICIAL, deviations=("other files",), reference={"F1": 90.0})
    with pytest.raises(DataError, match=r"no reference for acc\. Add it below \[reference\]"):
        form.targets(TARGETS)


def test_a_description_that_is_missing_is_said(tmp_path):
    with pytest.raises(DataError, match=r"smaller\.toml.*Leave out workload\.smaller"):
        read_form(OFFICIAL, tmp_path / "smaller.toml")
