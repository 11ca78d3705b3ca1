"""The scores that a workload of a round must reach, as its file has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mlbench.contracts.metric import Target
from mlbench.rules.targets import share_targets


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """A score that a workload must reach, by accuracy variant."""

    score: str
    reference: float
    factors: Mapping[str, float] = field(default_factory=dict)
    """Shares of the reference; empty where the bounds are given instead."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Lower and upper bounds; empty where the factors are given instead."""
    upper_factor: float | None = None
    """Share of the upper reference that must not be exceeded; None: no upper bound."""
    upper_reference: float | None = None
    """What the upper bound is a share of; None: the reference."""
    references_of: Mapping[str, float] = field(default_factory=dict)
    """References of single scenarios, by name."""
    lower_is_better: bool = False

    def targets(self, variants: Iterable[str], scenario: str = "") -> tuple[Target, ...]:
        """Return one target per accuracy variant, in a scenario that may have a reference of its own."""
        if self.ranges:
            return tuple(self._range(name, position == 0) for position, name in enumerate(variants))
        factors = {name: self.factors[name] for name in variants}
        found = share_targets(self.score, self.references_of.get(scenario, self.reference), factors, self.upper_factor)
        if self.upper_factor is not None and self.upper_reference is not None:
            upper = self.upper_reference * self.upper_factor
            found = tuple(replace(each, upper=upper) for each in found)
        return tuple(replace(each, lower_is_better=True) for each in found) if self.lower_is_better else found

    def rescaled(
        self,
        variants: Iterable[str],
        reference: Callable[[str], float],
        factors: Mapping[str, float],
        upper_factors: Mapping[str, float],
    ) -> tuple[Target, ...]:
        """Return the targets around another reference; arguments as of `mlbench.rules.official.rescaled_targets`."""
        own = {variant: factors.get(self.score, self.factors[variant]) for variant in variants}
        upper = upper_factors.get(self.score, self.upper_factor)
        return share_targets(self.score, reference(self.score), own, upper)

    def _range(self, name: str, is_first: bool) -> Target:
        lower, upper = self.ranges[name]
        return Target(
            score=self.score,
            reference=self.reference,
            lower=lower,
            upper=upper,
            name=name,
            required=is_first,
            lower_is_better=self.lower_is_better,
        )


def upper_limits(limits: Mapping[str, float], variants: Iterable[str]) -> tuple[Target, ...]:
    """Return targets with an upper bound alone, by score: the checker applies them where a result has the score."""
    return tuple(
        Target(score=score, reference=limit, lower=None, upper=limit, name=name, required=False)
        for score, limit in limits.items()
        for name in variants
    )
