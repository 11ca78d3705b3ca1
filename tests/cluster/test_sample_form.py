"""Samples there and back."""

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from mlbench import Prompt
from mlbench.cluster.sample_form import SampleReader, samples_from_wire, samples_to_wire
from mlbench.execution.instances.messages import NoMessageError


@dataclass(frozen=True)
class Labelled:
    pixels: np.ndarray
    label: int


class Pair(NamedTuple):
    tokens: np.ndarray
    mask: np.ndarray


READER = SampleReader(["mlbench.contracts", __name__.partition(".")[0]])


def there_and_back(samples, reader=READER):
    forms, arrays = samples_to_wire(samples)
    return samples_from_wire(json.loads(json.dumps(forms)), arrays, reader)


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_same(one[name], other[name])
    elif isinstance(one, tuple | list):
        assert len(one) == len(other)
        for each, there in zip(one, other, strict=True):
            assert_same(each, there)
    elif hasattr(one, "__dataclass_fields__"):
        assert_same(vars_of(one), vars_of(other))
    else:
        assert one == other


def vars_of(value):
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


@pytest.mark.parametrize(
    "sample",
    [
        np.arange(6, dtype=np.float16).reshape(2, 3),
        Labelled(np.zeros((3, 2), np.uint8), 7),
        Pair(np.arange(4), np.ones(4, np.int8)),
        Prompt(tokens=np.array([1, 2, 3]), stop=(4, 5)),
        {"dense": np.ones(13, np.float32), "hot": [np.array([1]), np.array([], np.int32)]},
        ("text", 1, 2.5, None, True, b"\x00\xff"),
        np.float32(1.5),
    ],
    ids=lambda sample: type(sample).__name__,
)
def test_a_sample_arrives_as_it_was(sample):
    [found] = there_and_back([sample])
    assert_same(found, sample)


def test_alike_samples_share_one_form_and_others_have_their_own():
    alike, _ = samples_to_wire([np.zeros(2), np.ones(2)])
    assert alike == {"count": 2, "form": "a"}
    samples = [Labelled(np.zeros(2), 1), Labelled(np.ones(2), 2)]
    for one, other in zip(there_and_back(samples), samples, strict=True):
        assert_same(one, other)


def test_the_samples_of_every_workload_travel():
    from mlbench.contracts.workload import Profile, Variant, Weights
    from mlbench.discovery import Plugins

    plugins = Plugins.discover()
    for name in ("resnet50", "bert", "dlrm-v2", "gptj"):
        workload = plugins.workload(name)
        dataset = workload.dataset(Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options))
        dataset.load([0, 1, 2])
        samples = [dataset.sample(index) for index in (0, 1, 2)]
        reader = SampleReader(["mlbench.contracts", type(dataset).__module__.partition(".")[0]])
        for one, other in zip(there_and_back(samples, reader), samples, strict=True):
            assert_same(one, other)


def test_what_does_not_travel_is_named():
    with pytest.raises(TypeError, match="a sample contains a set, which does not travel"):
        samples_to_wire([{"a": {1, 2}}])
    with pytest.raises(TypeError, match="does not travel"):
        samples_to_wire([np.array([object()])])


def nested(depth):
    return ["l", nested(depth - 1)] if depth else "a"


@pytest.mark.parametrize(
    ("facts", "count"),
    [
        ({"forms": ["a", "a"]}, 1),
        ({"forms": ["a"]}, 2),
        ({"forms": None}, 0),
        ({}, 0),
        ({"count": 10**9, "form": "a"}, 1),
        ({"count": True, "form": "a"}, 0),
        ({"forms": [["o", "os:system", ["command", "a"]]]}, 1),
        ({"forms": [["o", "mlbench.errors:UsageError", ["message", "a"]]]}, 1),
        ({"forms": [["o", "mlbench.contracts.generation:Prompt", ["wrong", "a"]]]}, 1),
        ({"forms": [["o", "mlbench.none:None"]]}, 0),
        ({"forms": [["o", "mlbench.records.job_spec:ModelSpec"]]}, 0),
        ({"forms": [["o", "mlbench.contracts.__main__:Prompt"]]}, 0),
        ({"forms": [["m", ["name"]]]}, 1),
        ({"forms": [["v", [1]]]}, 0),
        ({"forms": [nested(40)]}, 1),
        ({"forms": [{"x": 1}]}, 0),
    ],
)
def test_malformed_forms_are_no_samples(facts, count):
    with pytest.raises(NoMessageError):
        samples_from_wire(facts, [np.zeros(1)] * count, READER)
