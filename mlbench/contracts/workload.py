"""A workload: dataset, model, metric and the name of its rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.contracts.precision import Precision

if TYPE_CHECKING:
    from mlbench.contracts.dataset import Dataset
    from mlbench.contracts.metric import Metric
    from mlbench.contracts.model import Model
    from mlbench.contracts.rules import Rules


class Profile(StrEnum):
    """The size of a workload: a small trained model with small data, most of it generated, or the official ones."""

    MINI = "mini"
    FULL = "full"


class Weights(StrEnum):
    """Trained (mini: included; full: the user's checkpoint), or random: seeded, for speed only."""

    TRAINED = "trained"
    RANDOM = "random"


class Memory(StrEnum):
    """The memory that a backend computes in: the processors', which programs share, or a device's, behind a link."""

    HOST = "host"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The variant of a workload that a run uses."""

    profile: Profile
    weights: Weights
    options: Any
    """The workload's own `Workload.options` dataclass, filled in from the settings."""
    precision: Precision = Precision.FP32
    """The run's, for a metric whose targets depend on it."""
    memory: Memory = Memory.HOST
    """The backend's. Dataset and model may choose their form by it, so that little travels to a device and back."""
    round: str = ""
    """Name of the round whose targets hold; empty: the default one, or the first that has the workload."""


@dataclass(frozen=True, slots=True)
class NoOptions:
    """For a plugin without options."""


class Workload(ABC):
    """One benchmark. Methods may be slow and heavy; the class and its module import nothing heavy."""

    name: str
    """As typed on the command line: ``resnet50``."""
    title: str
    """One line for `mlbench list`."""
    rules: str | Rules
    """Its own `Rules`, or LoadGen's name of the workload whose rules it has: ``bert``, ``3d-unet``."""
    options: Any = NoOptions()
    """A frozen dataclass with defaults, mostly paths of official files. Settings ``workload.<field>`` fill it."""
    tuning: Path | None = None
    """A TOML file of suggested settings (see `mlbench.settings.layers`)."""
    sources: Path | None = None
    """A TOML file of official files: their addresses and checksums (see `mlbench.fetching.sources`)."""
    preload: Sequence[str] = ()
    """Modules besides `Backend.preload` that building its networks imports, under the same conditions: first those that
    other workloads begin with, and so share. They are not preloaded for a backend without `preload`."""
    preload_always: Sequence[str] = ()
    """Modules that its dataset, model or metric imports on every backend, under the same conditions. If they import
    torch, name it first, and add the modules of its networks: then runs on all backends share their imports."""
    is_default: bool = True
    """Whether it runs when the user names no workload."""
    preload_of_reference: Sequence[str] = ("torch",)
    """Modules that the computation of `Model.reference` imports, under the same conditions."""
    default_scenarios: Sequence[str] = ()
    """Scenarios that run when the user names none; empty: all that its rules define."""
    only_profile: Profile | None = None
    """The one profile that it has; None: both."""
    full_weights: int = 0
    """Number of weights of the full-size network, which decides the devices that have room for it; 0: unknown."""
    mini_server_latency_ms: int | None = None
    """Server latency limit of the mini profile, if the official one only suits the official model."""

    @abstractmethod
    def dataset(self, variant: Variant) -> Dataset:
        """Open the data. With random weights and no files given: seeded samples of the official shape."""

    @abstractmethod
    def model(self, variant: Variant) -> Model:
        """Describe the graphs and the program; weights load when a backend first asks a graph for its module."""

    @abstractmethod
    def metric(self, variant: Variant, dataset: Any) -> Metric | None:
        """Return the official metric; None where no accuracy can be claimed (random weights).

        Args:
            variant: the form of the workload.
            dataset: the result of `dataset` for this variant; annotate it with your own class.
        """
