"""Base classes for the two profiles of a workload: included files, and files that the user names."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from mlbench.contracts.metric import OutputReference, Target
from mlbench.contracts.precision import Precision
from mlbench.contracts.workload import Weights
from mlbench.errors import DataError, UsageError
from mlbench.rules.official import WorkloadRules, rescaled_targets
from mlbench.toolkit.mini_folder import DESCRIPTION, MiniFolder, read_mini
from mlbench.toolkit.official_form import FileForm, read_form
from mlbench.toolkit.output_references import read_output_reference

if TYPE_CHECKING:
    from mlbench.contracts.dataset import Dataset
    from mlbench.contracts.graph import Graph
    from mlbench.contracts.rules import Rules


F_co = TypeVar("F_co", covariant=True)
"""The description of the official files."""


class ProfileParts(ABC):
    """The parts of a run with one profile.

    Most have a property ``program`` too, which calls the graphs. Where options decide it, the workload builds it.
    """

    @property
    def folder(self) -> Path | None:
        """Folder for a native engine (a Hugging Face folder), if there is one."""
        return None

    @abstractmethod
    def dataset(self) -> Dataset:
        """Open the data; with random weights and no files given, seeded samples of the official shape."""

    @abstractmethod
    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return the graphs by name, with the profile's weights or random ones."""

    @property
    def deviations(self) -> tuple[str, ...]:
        """Differences of its files from the official ones: ``planes 8, not 64``."""
        return ()

    @property
    def stores(self) -> str:
        """Format of the weights in its files, where these are quantised: ``int4-gptq``."""
        return ""

    def on_device(self) -> ProfileParts:
        """Return the parts for a backend with memory of its own (`Memory.DEVICE`).

        Replies are the same, and so are files: these parts say where they deviate.
        """
        return self


class OneGraph(ProfileParts):
    """A profile whose model is one graph."""

    @abstractmethod
    def graph(self, weights: Weights) -> Graph:
        """Return the graph, with the profile's weights or random ones."""

    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return the graph by its name."""
        graph = self.graph(weights)
        return {graph.name: graph}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedProfile(ProfileParts):
    """The mini profile: the files in the package's folder `mini`, described by its `mini.toml`.

    A subclass is a frozen dataclass, whose further fields are further entries of `mini.toml`.
    """

    files: MiniFolder
    reference: Mapping[str, float]
    """Scores that the recipe measured (fp32, torch, the included weights), by name."""

    output_bounds: ClassVar[Mapping[Precision, float]] = {}
    """Bounds of the outputs' difference from the fp32 model's, by precision."""
    output_unit: ClassVar[str] = ""
    """Unit of that difference, as in `OutputReference`."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the profile in a folder that a recipe wrote.

        Raises:
            DataError: its `mini.toml` is missing, no TOML, or says something else.
        """
        return read_mini(cls, folder)

    @classmethod
    def shipped(cls) -> Self:
        """Return the profile that comes with the package; read once."""
        found: Self = _read_shipped(cls)
        return found

    def targets(self, rules: WorkloadRules) -> tuple[Target, ...]:
        """Return the targets: the official shares of this profile's own reference.

        Args:
            rules: the workload's in the run's round.

        Raises:
            DataError: `mini.toml` has no reference for an official score.
        """
        return self.rescaled_targets(rules)

    def own_targets(self, rules: Rules) -> tuple[Target, ...]:
        """Return the targets by a workload's own rules: the same shares of this profile's reference.

        Raises:
            DataError: `mini.toml` has no reference for a score that has a target.
        """
        return tuple(each.scaled_to(self.reference_score(each.score)) for each in rules.targets)

    def rescaled_targets(self, rules: WorkloadRules, **factors: Mapping[str, float]) -> tuple[Target, ...]:
        """Return the official targets around this profile's reference; ``factors`` are those of `rescaled_targets`."""
        return rescaled_targets(rules, self.reference_score, **factors)

    def reference_score(self, name: str) -> float:
        """Return the recipe's value of a score.

        Raises:
            DataError: `mini.toml` does not have it.
        """
        if name not in self.reference:
            raise DataError(
                f"shipped file {self.files.path / DESCRIPTION} has no reference {name}.", hint="Install mlbench again."
            )
        return self.reference[name]

    def output_reference(self) -> OutputReference | None:
        """Return the fp32 model's outputs, and how far honest runs are from them; None where none are shipped."""
        return read_output_reference(self.files, bounds=self.output_bounds, unit=self.output_unit)


class UserFilesProfile(ProfileParts, Generic[F_co]):
    """The full profile: the official model over the files that the options name.

    A subclass is constructed with the workload's options and the kind of weights. Its parameter is the type of
    ``official``.
    """

    official: ClassVar[Any] = None
    """Sizes and checksums of the official files: a frozen dataclass. None: there are no smaller sets of their form."""
    options: Any
    """With ``smaller``, where ``official`` is set."""

    @property
    def form(self) -> FileForm[Any]:
        """The form of the files; raises `DataError` for a wrong description of a smaller set."""
        return read_form(self.official, getattr(self.options, "smaller", None))

    @property
    def files(self) -> F_co:
        """The description of the files: the official ones, or a smaller set."""
        found: F_co = self.form.files
        return found

    @property
    def deviations(self) -> tuple[str, ...]:
        """Differences of the files from the official ones; empty for random weights, which have no files."""
        return self.form.deviations

    def targets(self, official: Sequence[Target]) -> tuple[Target, ...]:
        """Return the targets of the scores."""
        return self.form.targets(official)

    @abstractmethod
    def check(self) -> None:
        """Raise `UsageError` for options that are missing, would not be read, or do not fit together."""


def check_files(workload: str, weights: Weights, options: Any, needs: Mapping[str, str]) -> None:
    """Check which files of a full profile are given.

    Args:
        workload: its name.
        weights: which weights the run uses; random ones come from no file.
        options: the workload's own, among them ``weights``.
        needs: the options that trained weights need, each with its content.

    Raises:
        UsageError: a file is missing or not used.
    """
    if weights is Weights.RANDOM:
        if given := next((name for name in ("weights", "smaller") if getattr(options, name, None)), ""):
            raise UsageError("random weights do not come from a file.", hint=f"Leave out workload.{given}.")
        return
    for name, what in needs.items():
        if not getattr(options, name):
            raise UsageError(
                f"the full profile of {workload} needs {what}.",
                hint=f"Give it with --set workload.{name}=PATH, or use `mlbench fetch {workload}`.",
            )


P = TypeVar("P", bound=ShippedProfile)


@cache
def _read_shipped(kind: type[P]) -> P:
    return kind.read(Path(inspect.getfile(kind)).parent / "mini")
