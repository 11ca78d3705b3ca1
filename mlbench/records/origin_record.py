"""The purpose of a run, in a record: an entry of a submission, a compliance test, a replay."""

from __future__ import annotations

from typing import Literal

from mlbench.records.stored import Stored


class EntryRecord(Stored):
    """The entry of a submission that a run was asked to reach."""

    model: str
    """The model's name in a submission: ``bert-99.9``, ``resnet50``."""
    variant: str
    """The accuracy whose targets were required: ``99``, ``99.9``, ``range``."""
    category: Literal["", "datacenter", "edge"]
    """Category that selected scenarios and accuracies; empty: both."""
    division: Literal["closed", "open", "network"]
    """In ``open`` no target is required; in ``network`` the samples were sent to the system."""

    @property
    def options(self) -> list[str]:
        """Return the options of `mlbench run` that ask for it."""
        options = {"--variant": self.variant, "--category": self.category}
        options |= {"--division": self.division} if self.division != "closed" else {}
        return [word for name, value in options.items() if value for word in (name, value)]


class AuditRecord(Stored):
    """A run that is a compliance test of another run, and no result."""

    test: Literal["TEST01", "TEST04", "TEST05", "TEST06"]
    of: str
    """Id of the run that it audits."""


class ReplayRecord(Stored):
    """A run that repeats another one as its record says."""

    of: str
    """Id of the run that it repeats."""
    chosen: dict[str, int | float]
    """Values that the run chose by measuring and this one reused, by the key of the setting that left them open."""
