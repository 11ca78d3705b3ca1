"""The frame of a workload, on a package of two modules that a test writes."""

import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from mlbench import DataError, Profile, UsageError, Variant, Weights

MINI = """
    from dataclasses import dataclass
    from mlbench.toolkit import OneGraph, ShippedProfile

    class Nothing:
        name, fingerprint = "nothing", "1234"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class MiniProfile(ShippedProfile, OneGraph):
        colour: str
        program = "a program"

        def dataset(self):
            return f"{self.colour} data"

        def graph(self, weights):
            return Nothing()
"""
WORKLOAD = """
    from dataclasses import dataclass
    from types import SimpleNamespace
    from mlbench.toolkit import ProfiledWorkload

    @dataclass(frozen=True)
    class Options:
        data: str = ""
        passes: int = 1

    class Toy(ProfiledWorkload):
        name, title, rules, options = "toy", "toy", "bert", Options()
        mini_options = ("passes",)

        def build_metric(self, variant, profile, dataset, targets):
            return SimpleNamespace(targets=targets, dataset=dataset, output_reference="unset")
"""
FULL = """
    from mlbench import UsageError
    from mlbench.toolkit import OneGraph, UserFilesProfile, check_files

    class FullProfile(UserFilesProfile, OneGraph):
        def __init__(self, options, weights):
            self.options, self.weights = options, weights

        def check(self):
            if not self.options.data:
                raise UsageError("toy needs data.")

        def dataset(self):
            return self.options.data

        def graph(self, weights):
            raise AssertionError("nobody asked")
"""
TOML = """
    colour = "blue"

    [reference]
    F1 = 90.0

    [sha256]
"""


@dataclass
class Toy:
    """The package on disk, and its workload."""

    folder: Path
    workload: object

    def variant(self, profile=Profile.MINI, weights=Weights.TRAINED, **options):
        return Variant(profile=profile, weights=weights, options=type(self.workload.options)(**options))


@pytest.fixture
def toy(tmp_path, monkeypatch):
    package = tmp_path / "toy_package"
    (package / "mini").mkdir(parents=True)
    files = {"__init__.py": "", "workload.py": WORKLOAD, "mini_profile.py": MINI, "mini/mini.toml": TOML}
    for name, content in files.items():
        (package / name).write_text(dedent(content))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Toy(package, __import__("toy_package.workload", fromlist=["Toy"]).Toy())
    for name in [name for name in sys.modules if name.startswith("toy_package")]:
        del sys.modules[name]


def test_the_mini_profile_is_made_of_the_packages_files(toy):
    assert toy.workload.dataset(toy.variant()) == "blue data"
    model = toy.workload.model(toy.variant())
    assert (model.name, list(model.graphs), model.program) == ("toy", ["nothing"], "a program")
    assert model.weights_fingerprint == "1234"


def test_mini_targets_are_the_official_shares_of_its_own_reference(toy):
    metric = toy.workload.metric(toy.variant(), "data")
    assert [(target.score, target.name, target.required) for target in metric.targets] == [
        ("F1", "99", True),
        ("F1", "99.9", False),
    ]
    assert [target.lower for target in metric.targets] == [pytest.approx(89.1), pytest.approx(89.91)]
    assert (metric.dataset, metric.output_reference) == ("data", None)


def test_random_weights_claim_no_accuracy(toy):
    assert toy.workload.metric(toy.variant(weights=Weights.RANDOM), "data") is None


def test_the_mini_profile_takes_the_options_that_it_reads_and_names_the_first_other(toy):
    assert toy.workload.dataset(toy.variant(passes=3)) == "blue data"
    with pytest.raises(UsageError, match=r"profile of toy includes its files and does not use workload\.data\."):
        toy.workload.dataset(toy.variant(passes=3, data="here"))


def test_a_package_without_a_full_profile_says_so(toy):
    with pytest.raises(UsageError, match=r"toy has no full profile\. Use --profile mini\."):
        toy.workload.dataset(toy.variant(Profile.FULL))


class TestFull:
    @pytest.fixture(autouse=True)
    def full_profile(self, toy):
        (toy.folder / "full_profile.py").write_text(dedent(FULL))

    def test_options_are_checked_before_anything_is_opened(self, toy):
        with pytest.raises(UsageError, match="toy needs data"):
            toy.workload.model(toy.variant(Profile.FULL))

    def test_targets_are_the_official_ones_and_no_outputs_are_compared(self, toy):
        variant = toy.variant(Profile.FULL, data="official")
        metric = toy.workload.metric(variant, toy.workload.dataset(variant))
        assert {target.reference for target in metric.targets} == {90.874}  # submission_checker.py v4.1
        assert (metric.dataset, metric.output_reference) == ("official", "unset")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("colour = 'blue'\n[reference]\n[sha256]\n", "has no reference F1"),
        ("[reference]\nF1 = 90.0\n[sha256]\n", "colour"),
        ("colour = 'blue'\n[reference]\nF1 = 'high'\n[sha256]\n", "F1"),
    ],
)
def test_a_description_that_says_too_little_is_refused_in_one_line(toy, content, complaint):
    (toy.folder / "mini" / "mini.toml").write_text(content)
    with pytest.raises(DataError, match=complaint) as caught:
        toy.workload.metric(toy.variant(), "data")
    assert "\n" not in str(caught.value)
