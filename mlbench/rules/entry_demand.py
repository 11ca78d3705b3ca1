"""Requirements of a submission's entry for its run: accuracy variant, category, division.

Sources: MLPerf Inference v4.1 rules, "Divisions" and "Categories"; submission checker v4.1, ``get_required`` and
``check_accuracy_dir``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mlbench.contracts.metric import Target
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.errors import UsageError
from mlbench.rules.official import WorkloadRules
from mlbench.rules.round_files import rounds_with
from mlbench.rules.round_parts import Category


class Division(StrEnum):
    """Division of a submission: the given models at a given accuracy, any models, or over a network."""

    CLOSED = "closed"
    OPEN = "open"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDemand:
    """The entry that a run is made for; by default the least strict accuracy of the closed division."""

    variant: str = ""
    """The accuracy: ``99.9``; empty: the least strict that the category takes."""
    category: Category | None = None
    """Selects scenarios and accuracies; None: those of all categories."""
    division: Division = Division.CLOSED
    """In the open division scores and the order across passes are only reported."""

    @property
    def is_default(self) -> bool:
        """Return whether nothing was asked for."""
        return self == ANY_ENTRY

    def settle(self, workload: str, rules: WorkloadRules) -> EntryDemand:
        """Return the demand with the variant that it comes to for a workload.

        Raises:
            UsageError: the workload has no such entry.
        """
        if self.is_default:
            return self
        if not rules.variants:
            raise UsageError(
                f"{workload} has its own rules, so there is no entry of a submission to make.",
                hint="Leave out --variant, --category and --division.",
            )
        known = self.variants(rules)
        if not known:
            others = ", ".join(rules.category_scenarios)
            rounds = ", ".join(rounds_with(rules.name, category=self.category or ""))
            where = "" if rules.round.name == DEFAULT_ROUND else f" in {rules.round}"
            elsewhere = f" In {rounds} it is." if rounds else ""
            raise UsageError(
                f"{workload} is not a workload of {self.category} systems{where}.",
                hint=f"It is of: {others}.{elsewhere}",
            )
        if self.variant and self.variant not in known:
            where = f" in {self.category}" if self.category else ""
            raise UsageError(
                f"{workload} has no accuracy variant {self.variant}{where}.", hint=f"It has: {', '.join(known)}."
            )
        return replace(self, variant=self.variant or known[0])

    def variants(self, rules: WorkloadRules) -> list[str]:
        """Return the accuracies that the category takes, the least strict first."""
        return [name for name, of in rules.variants.items() if self.category is None or self.category in of]

    def scenarios(self, rules: WorkloadRules) -> tuple[str, ...]:
        """Return the scenarios that the category requires or takes, or all that the rules define."""
        if self.category is None:
            return rules.scenarios
        required, any_of = (each.get(self.category, ()) for each in (rules.category_scenarios, rules.any_of))
        return tuple(each for each in rules.scenarios if each in (*required, *any_of))

    def model(self, rules: WorkloadRules) -> str:
        """Return the name of the model in a submission, of a settled demand: ``bert-99.9``, ``resnet50``."""
        return rules.model_of(self.variant)


ANY_ENTRY = EntryDemand()
"""The default, for a run that is made for no particular entry."""


def demanded_targets(targets: Sequence[Target], variant: str, division: Division) -> tuple[Target, ...]:
    """Return a metric's targets, of which those of a variant are required; in the open division none is.

    Args:
        targets: of all variants.
        variant: whose targets are required; empty: those that the metric requires.
        division: that the run is made for.
    """
    if division is Division.OPEN:
        return tuple(replace(each, required=False) for each in targets)
    return tuple(replace(each, required=each.name == variant) for each in targets) if variant else tuple(targets)
