"""Base class for a workload with two profiles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from mlbench.contracts.workload import Memory, Profile, Variant, Weights, Workload
from mlbench.errors import UsageError

if TYPE_CHECKING:
    from mlbench.contracts.dataset import Dataset
    from mlbench.contracts.generation import GenerationProgram
    from mlbench.contracts.graph import Graph
    from mlbench.contracts.metric import Metric, Target
    from mlbench.contracts.model import BatchProgram, Model
    from mlbench.rules.official import WorkloadRules
    from mlbench.toolkit.profiles import ProfileParts, ShippedProfile, UserFilesProfile


class ProfiledWorkload(Workload):
    """A workload whose package defines its profiles.

    Beside the module of the subclass stand ``mini_profile``, with a `ShippedProfile` named ``MiniProfile``, and
    ``full_profile``, with a `UserFilesProfile` named ``FullProfile``. Both are imported when a run asks for them, so
    they may import what is heavy. A package without ``full_profile`` has the mini profile alone.
    """

    mini_options: ClassVar[tuple[str, ...]] = ()
    """Options that the mini profile reads too; it refuses the others."""
    full_profile: ClassVar[str] = "FullProfile"
    """Name of the class in ``full_profile``, which has another for each workload of the package."""

    def dataset(self, variant: Variant) -> Dataset:
        """Open the data of the variant's profile."""
        return self.profile(variant).dataset()

    def model(self, variant: Variant) -> Model:
        """Return the graphs and the program of the variant's profile."""
        from mlbench.contracts.model import Model

        usual = self._usual_profile(variant)
        profile = _form_for(variant, usual)
        graphs = profile.graphs(variant.weights)
        program = self.build_program(variant, profile, graphs)
        hashed = graphs if profile is usual else usual.graphs(variant.weights)  # both forms have the same weights
        return Model(
            name=self.name,
            graphs=graphs,
            program=program,
            weights_fingerprint=self.weights_fingerprint(hashed, program),
            files=profile.folder if variant.weights is Weights.TRAINED else None,
            deviations=usual.deviations,
            stores=profile.stores,
        )

    def metric(self, variant: Variant, dataset: Any) -> Metric | None:
        """Return the metric with its targets; None with random weights, which claim no accuracy."""
        if variant.weights is Weights.RANDOM:
            return None
        rules = self.rules_in(variant)
        if variant.profile is Profile.FULL:
            full = self._full(variant)
            return self.build_metric(variant, full, dataset, full.targets(rules.targets))
        mini = self._mini(variant)
        targets = mini.targets(rules) if isinstance(self.rules, str) else mini.own_targets(self.rules)
        metric = self.build_metric(variant, mini, dataset, targets)
        metric.output_reference = mini.output_reference()
        return metric

    def rules_in(self, variant: Variant) -> WorkloadRules:
        """Return the rules of the variant's round."""
        from mlbench.rules.official import round_named
        from mlbench.rules.own import rules_of, usual_round

        return rules_of(self, round_named(variant.round) if variant.round else usual_round(self))

    @abstractmethod
    def build_metric(self, variant: Variant, profile: Any, dataset: Any, targets: tuple[Target, ...]) -> Metric:
        """Return the official metric.

        Args:
            variant: with trained weights.
            profile: the variant's: a ``MiniProfile`` or a ``FullProfile``.
            dataset: what the profile opened.
            targets: the official ones, or the mini profile's own.
        """

    def build_program(
        self, variant: Variant, profile: Any, graphs: Mapping[str, Graph]
    ) -> BatchProgram | GenerationProgram:
        """Return the program that calls the graphs: the profile's ``program``, unless options decide it."""
        program: BatchProgram | GenerationProgram = profile.program
        return program

    def weights_fingerprint(self, graphs: Mapping[str, Graph], program: BatchProgram | GenerationProgram) -> str:
        """Return a hash of what all outputs depend on: the fingerprint of the graphs, which share their weights."""
        return next(iter(graphs.values())).fingerprint

    def profile(self, variant: Variant) -> ProfileParts:
        """Return the profile of the variant.

        Raises:
            UsageError: options are missing or not used, or there is no such profile.
        """
        return _form_for(variant, self._usual_profile(variant))

    def _usual_profile(self, variant: Variant) -> ProfileParts:
        return self._full(variant) if variant.profile is Profile.FULL else self._mini(variant)

    def _full(self, variant: Variant) -> UserFilesProfile[object]:
        if find_spec(self._module("full_profile")) is None:
            raise UsageError(f"{self.name} has no full profile.", hint="Use --profile mini.")
        kind = getattr(import_module(self._module("full_profile")), self.full_profile)
        full: UserFilesProfile[object] = kind(variant.options, variant.weights)
        full.check()
        return full

    def _mini(self, variant: Variant) -> ShippedProfile:
        for field in fields(variant.options):
            is_given = getattr(variant.options, field.name) != getattr(self.options, field.name)
            if is_given and field.name not in self.mini_options:
                raise UsageError(
                    f"the mini profile of {self.name} includes its files and does not use workload.{field.name}.",
                    hint="Leave it out, or use --profile full.",
                )
        mini: ShippedProfile = import_module(self._module("mini_profile")).MiniProfile.shipped()
        return mini

    def _module(self, name: str) -> str:
        return f"{type(self).__module__.rpartition('.')[0]}.{name}"


def _form_for(variant: Variant, usual: ProfileParts) -> ProfileParts:
    """Return the form of a profile for the memory that the variant's backend computes in."""
    return usual.on_device() if variant.memory is Memory.DEVICE else usual
