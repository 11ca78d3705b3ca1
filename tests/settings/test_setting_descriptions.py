"""What is said of settings: read from the fields' docstrings and types, for each that there is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt

from mlbench.discovery import Plugins
from mlbench.settings.descriptions import describe_all, describe_group


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Options that several backends have."""

    threads: Annotated[int, Ge(0), Le(64)] = 0
    """Threads per operator. 0: one
    per core."""
    verbose: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Own(Shared):
    """Options of one backend."""

    speed: Annotated[float, Gt(0), Lt(float("inf"))] = 1.0
    """How fast."""
    share: Annotated[float, Ge(0), Lt(1)] = 0.5
    count: Annotated[int, Ge(0), Lt(2**63)] = 3
    batch: Annotated[int, Ge(1)] | Literal["auto"] = "auto"
    mode: Literal["fast", "exact", "none"] = "fast"
    colour: Colour | None = None
    data: Path | None = None
    caps: Mapping[str, int] = field(default_factory=dict)
    anything: Any = None
    name: str = "a b"


@pytest.fixture(scope="module")
def settings():
    return {each.key: each for each in describe_group("backend", Own(), "backend own").settings}


def test_the_docstring_below_a_field_is_its_text_also_where_it_is_inherited(settings):
    assert settings["backend.speed"].text == "How fast."
    assert settings["backend.threads"].text == "Threads per operator. 0: one per core."
    assert settings["backend.threads"].summary == "Threads per operator."
    assert settings["backend.verbose"].text == settings["backend.verbose"].summary == ""


@pytest.mark.parametrize(
    ("name", "values", "default"),
    [
        ("threads", "integer, 0 to 64", "0"),
        ("speed", "number, above 0", "1.0"),
        ("share", "number, 0 or more, below 1", "0.5"),
        ("count", "integer, 0 or more", "3"),
        ("batch", "auto or integer, 1 or more", "auto"),
        ("mode", "one of fast, exact, none", "fast"),
        ("colour", "red or blue", "none"),
        ("verbose", "true or false", "false"),
        ("data", "path", "none"),
        ("caps", "NAME=integer,...", "none"),
        ("anything", "any value", "none"),
        ("name", "text", "a b"),
    ],
)
def test_a_type_is_told_in_words(settings, name, values, default):
    assert (settings[f"backend.{name}"].values, settings[f"backend.{name}"].default) == (values, default)


def test_words_that_can_be_listed_are_choices(settings):
    assert settings["backend.mode"].choices == ("fast", "exact", "none")
    assert settings["backend.verbose"].choices == ("true", "false")
    assert settings["backend.batch"].choices == ("auto",)
    assert settings["backend.threads"].choices == ()


def test_a_class_without_source_and_a_type_without_schema_are_described_as_far_as_they_go():
    names: dict[str, Any] = {"dataclass": dataclass}
    exec("@dataclass(frozen=True)\nclass Made:\n    f: type(lambda: 0) | None = None\n    '''Said nowhere.'''", names)
    (described,) = describe_group("backend", names["Made"](), "backend made").settings
    assert (described.text, described.default) == ("", "none")
    assert "function" in described.values


def test_every_setting_of_the_core_and_of_built_in_plugins_is_described():
    plugins = Plugins.discover()
    groups = describe_all(plugins.backends, plugins.workloads)
    assert {"backend pytorch", "workload bert"} < {group.reader for group in groups}
    assert [(group.reader, each.key) for group in groups for each in group.settings if not each.text] == []
