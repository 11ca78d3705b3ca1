"""Manifests in YAML: what an alias makes of a few lines is counted before it is made."""

import pytest
import yaml

from mlbench.system.documents import Budget, BudgetSpentError, Meter
from mlbench.system.documents.manifests import parse_manifest


def parsed(text, **budget):
    return parse_manifest(text.encode(), Meter(Budget(**budget)))


def test_json_and_yaml_say_the_same():
    value = {"manifest": {"0/model": {"type": "Tensor", "shape": [1, 2], "byte_range": None}}}
    assert parsed(yaml.safe_dump(value)) == value
    assert parsed('{"manifest": [1]}') == {"manifest": [1]}


def test_an_alias_is_read_as_often_as_it_stands_there():
    shape = [1, 2]
    text = yaml.dump({"a": shape, "b": shape})
    assert "&id001" in text
    assert parsed(text) == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize("text", ["a: &x [1, *x]", "&x {a: *x}", "a: &x {b: [*x]}", "a: *nothing"])
def test_a_value_that_holds_itself_is_refused(text):
    with pytest.raises(ValueError, match="contains itself, or is not there"):
        parsed(text)


def doubled(times, merge=False):
    lines = ["a0: &a0 {x: 1}" if merge else "a0: &a0 [1, 2]"]
    for number in range(1, times):
        both = f"[*a{number - 1}, *a{number - 1}]"
        lines.append(f"a{number}: &a{number} " + (f"{{<<: {both}}}" if merge else both))
    return "\n".join(lines)


@pytest.mark.parametrize("merge", [False, True], ids=["lists", "merged tables"])
def test_aliases_of_aliases_are_counted_before_they_are_made(merge):
    assert len(parsed(doubled(10, merge))) == 10
    with pytest.raises(BudgetSpentError, match="more than 5000000 nodes"):
        parsed(doubled(40, merge))


def test_nesting_is_counted_through_aliases_too():
    assert parsed("[" * 100 + "]" * 100)
    for text in ("[" * 101 + "]" * 101, "a: &x " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 50 + "*x" + "]" * 50):
        with pytest.raises(BudgetSpentError, match="nests deeper than 100 levels"):
            parsed(text)
