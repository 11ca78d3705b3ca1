"""What plugins say of themselves, as JSON values."""

import json
from enum import StrEnum
from pathlib import Path

import numpy as np
import pytest

from mlbench.execution.plain_values import plain_entries


class Mode(StrEnum):
    FAST = "fast"


class Deep(dict):
    pass


def endless():
    values = []
    values.append(values)
    return values


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({32: 15, 8: 1}, {"32": 15, "8": 1}),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]),
        ((1, "two", None, True), [1, "two", None, True]),
        (Mode.FAST, "fast"),
        (Deep(a=1), {"a": 1}),
        ("lone \ud800", "lone \\ud800"),
        ({"a": {"b": [{"c": 1.5}]}}, {"a": {"b": [{"c": 1.5}]}}),
    ],
)
def test_what_json_can_hold_is_kept_in_its_form(value, kept):
    assert plain_entries({"x": value}) == ({"x": kept}, "")
    assert json.loads(json.dumps(kept, allow_nan=False)) == kept


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "x is nan"),
        (np.float32("inf"), "x is inf"),
        ({"rates": [1.0, float("nan")]}, "x.rates[1] is nan"),
        (-(2**64), "x is an integer beyond 64 bits"),
        (1 << 20_000, "x is an integer beyond 64 bits"),
        (b"bytes", "x is a bytes"),
        (object(), "x is a object"),
        ({1, 2}, "x is a set"),
        (Path("a"), "x is a PosixPath"),
        (np.array([object()]), "x[0] is a object"),
        ({("a", "b"): 1}, "a key of x is a tuple, not text"),
        (endless(), "x[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0] is nested or long without end"),
        ("y" * 200_000, "x is a text of 200000 characters"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_it_cannot_hold_is_left_out_by_name_and_the_rest_stays(value, reason):
    assert plain_entries({"before": 1, "x": value, "after": 2}) == ({"before": 1, "after": 2}, reason)


@pytest.mark.parametrize("values", [None, 7, [("a", 1)], "text"])
def test_what_is_no_mapping_is_nothing_with_a_reason(values):
    assert plain_entries(values) == ({}, f"it is a {type(values).__name__}, not a mapping")


def test_a_mapping_that_raises_costs_no_more_than_itself():
    class Broken(dict):
        def items(self):
            raise RuntimeError("no items")

    assert plain_entries(Broken(a=1)) == ({}, "RuntimeError: no items")
