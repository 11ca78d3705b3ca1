"""LoadGen's settings for a compliance test: the official ``audit.config``, and the limits of a run under it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from mlbench.rules.official import Round
from mlbench.rules.round_parts import RoundSeeds, without_source
from mlbench.rules.tiers import RunLimits

OF_OUTPUTS, OF_REPEATS, OF_SEEDS, OF_TOKENS = "TEST01", "TEST04", "TEST05", "TEST06"
TESTS = (OF_OUTPUTS, OF_REPEATS, OF_SEEDS, OF_TOKENS)

_LOGGED = "accuracy_log_sampling_target"
_USUAL_TARGET = 4096
"""How many replies TEST01 logs of a workload that has no official number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig:
    """The configuration of one test."""

    test: str
    values: Mapping[str, int]
    """LoadGen's keys."""
    round: Round

    @property
    def text(self) -> str:
        """Return the file."""
        return "".join(f"*.*.{key} = {value}\n" for key, value in self.values.items())

    @property
    def sampling_target(self) -> int:
        """Return how many replies LoadGen logs, about; 0: the test is not about replies."""
        return self.values.get(_LOGGED, 0)

    def limits(self, limits: RunLimits) -> RunLimits:
        """Return the limits that hold in the test instead of a run's: other seeds or counts."""
        if self.test == OF_SEEDS:
            return replace(limits, seeds=seeds_of_test(self.test, self.round))
        if self.test != OF_TOKENS:
            return limits
        count = self.values["min_query_count"]
        return replace(
            limits,
            min_duration_ms=self.values["min_duration"],
            min_query_count=count if limits.offline_min_samples is None else limits.min_query_count,
            offline_min_samples=None if limits.offline_min_samples is None else count,
            equal_issue=bool(self.values["sample_concatenate_permutation"]),
        )


def audit_config(test: str, workload: str, of: Round) -> AuditConfig:
    """Return the configuration of a test for a workload, by LoadGen's name of it, in a round.

    Raises:
        KeyError: there is no such test.
    """
    values = dict(_configurations()[test])
    if test == OF_OUTPUTS:
        values[_LOGGED] = of.compliance.sampling_target.get(workload, _USUAL_TARGET)
    return AuditConfig(test=test, values=values, round=of)


def seeds_of_test(test: str, of: Round) -> RoundSeeds:
    """Return the seeds that a test of a round runs with: TEST05's own, where the round still has them."""
    return of.seeds.test05 or of.seeds.normal if test == OF_SEEDS else of.seeds.normal


@cache
def _configurations() -> Mapping[str, Mapping[str, int]]:
    """Return LoadGen's values by test."""
    text = resources.files("mlbench.rules").joinpath("compliance.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    return {test: without_source(row) for test, row in table["config"].items()}
