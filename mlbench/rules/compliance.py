"""The compliance tests TEST01, TEST04 and TEST05: what they demand of a second run, from ``compliance.toml``.

A test runs the benchmark again under other settings. Its result must be close to that of the run it belongs to, the
reference. TEST06, which checks tokens, is in `mlbench.rules.token_compliance`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from mlbench.contracts.scenario import Scenario

REPEATING = "TEST04"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditComparison:
    """The result of a test compared with that of its reference run."""

    reference: float
    """In the scenario's unit: samples/s, or ns."""
    measured: float
    change: float
    """How much better the test was, as a share of the reference: 0.02 is 2 % faster, whatever the unit."""
    margin: float
    """How much the change may be, in the directions that the test looks at."""
    passed: bool
    official_margin: float
    """The margin of the official script."""
    official_passed: bool
    """The official script's verdict on the same two results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Margin:
    """The margins of a test."""

    share: float
    both_sides: bool = False
    better: bool = False
    worse: bool = False

    def allows(
        self, reference: float, measured: float, margin: float, *, higher_is_better: bool, is_inclusive: bool
    ) -> bool:
        """Return whether a result is close enough; limits are strict unless a test of both sides includes them."""
        low, high = reference * (1 - margin), reference * (1 + margin)
        if self.both_sides:
            return low <= measured <= high if is_inclusive else low < measured < high
        below, above = measured > low, measured < high
        wants_upper = self.better is higher_is_better
        return above if wants_upper else below


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComplianceRules:
    """All of the file."""

    margins: Mapping[str, _Margin]
    short: float
    short_ns: Mapping[str, float]
    settings: Mapping[str, Mapping[str, bool | int]]
    score_percent: Mapping[str, float]
    score_percent_of_variant: Mapping[str, float]


def compare_performance(
    test: str, scenario: Scenario, reference: float, measured: float, *, is_inclusive: bool = False
) -> AuditComparison:
    """Return whether the result of a test is close enough to that of its reference run.

    Args:
        test: TEST01, TEST04 or TEST05.
        scenario: of both runs.
        reference: the scenario's result, in its unit: completed samples/s, samples/s, or the estimated latency in ns.
        measured: that of the test.
        is_inclusive: whether a result at a limit passes TEST01; the round says it.

    Raises:
        ValueError: a result is not positive.

    Source: compliance/nvidia, verify_performance.py of each test, v4.1. TEST04 compares the rates of the streams,
    1e9 / latency, and takes a rate below 200,000 for a latency in ns: it allows 20 % to both streams. Here only those
    get it that are as short as the other tests want, and none gets more than from the official script.
    """
    if reference <= 0 or measured <= 0:
        raise ValueError(f"a result is not positive: {reference}, {measured}")
    rules = _tests()
    margin, short_ns = rules.margins[test], rules.short_ns.get(scenario.loadgen)
    own = rules.short if short_ns is not None and reference <= short_ns else margin.share
    official = own
    one, other, higher = reference, measured, scenario.higher_is_better
    if test == REPEATING and not higher:
        one, other, higher = 1e9 / reference, 1e9 / measured, True
        official = rules.short if short_ns is not None and one <= short_ns else margin.share
        own = min(own, official)
    return AuditComparison(
        reference=reference,
        measured=measured,
        change=measured / reference - 1 if scenario.higher_is_better else reference / measured - 1,
        margin=own,
        passed=margin.allows(one, other, own, higher_is_better=higher, is_inclusive=is_inclusive),
        official_margin=official,
        official_passed=margin.allows(one, other, official, higher_is_better=higher, is_inclusive=is_inclusive),
    )


def audit_settings(test: str) -> Mapping[str, bool | int]:
    """Return what the configuration of a test leaves in LoadGen's detail log, by its keys."""
    return _tests().settings.get(test, {})


def score_difference_percent(score: str, variant: str) -> float:
    """Return by how many percent two scores of TEST01 may differ, by the rules' name of the score and the variant."""
    rules = _tests()
    return rules.score_percent.get(score, rules.score_percent_of_variant.get(variant, 1.0))


@cache
def _tests() -> _ComplianceRules:
    table = tomllib.loads(resources.files("mlbench.rules").joinpath("compliance.toml").read_text(encoding="utf-8"))
    settings = {
        test: {key: value for key, value in row.items() if key != "source"} for test, row in table["settings"].items()
    }
    return _ComplianceRules(
        margins={test: _Margin(**row) for test, row in table["margins"]["of"].items()},
        short=table["margins"]["short"],
        short_ns={name: value for name, value in table["short_ns"].items() if name != "source"},
        settings=settings,
        score_percent={name: value for name, value in table["score_percent"].items() if name != "source"},
        score_percent_of_variant={
            name: value for name, value in table["score_percent_of_variant"].items() if name != "source"
        },
    )
