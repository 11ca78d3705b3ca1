"""The request to a run's process: the counterpart of `run_outcome`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from mlbench.contracts.power import NONE
from mlbench.contracts.rules import DEFAULT_ROUND


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """The nodes that answer a run's samples, and how they are reached."""

    nodes: tuple[str, ...]
    """Their addresses, ``HOST:PORT``."""
    token_file: str
    """An absolute path."""
    certificate: str = ""
    """File with the certificate that the nodes' own are signed by, an absolute path; empty: no TLS."""
    connections: int = 2
    """To each node, for samples."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))  # a list, where it came as JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model of a workload, by names and values."""

    workload: str
    profile: str
    weights: str
    settings: Mapping[str, Any]
    """JSON values of the workload's own settings, by key."""
    transform: str = ""
    """As `JobSpec.transform`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A run, resolved: plugins by name, every setting with its value. It travels between processes as JSON."""

    workload: str
    backend: str
    scenario: str
    profile: str
    tier: str
    weights: str
    precision: str
    settings: Mapping[str, Any]
    """JSON values by key, as `Settings.plain` gives them."""
    folder: str
    """The run folder, an absolute path."""
    wants_accuracy: bool = True
    power: str = NONE
    """A power meter's name, or ``auto`` or ``none``."""
    transform: str = ""
    """Transforms of the model, in the order in which they apply, with a space between them."""
    is_probe: bool = False
    """Whether the overhead test, which takes a second, is left out."""
    uncounted: str = ""
    """Reason why the work of graph calls is not counted, which takes a process and some seconds; empty: count it."""
    machine: str = ""
    """A key of the machine, and of what a run may use of it; empty: unknown, and nothing is kept that depends on it."""
    accuracy_of: str = ""
    """The folder of a run whose accuracy test stands for this run's, an absolute path; empty: it makes its own."""
    variant: str = ""
    """The accuracy variant that it must reach; empty: the least strict."""
    division: str = "closed"
    """That it is made for."""
    round: str = DEFAULT_ROUND
    """Name of the round whose rules hold."""
    audit: str = ""
    """The compliance test that the run is; empty: a run for a result."""
    network: NetworkSpec | None = None
    """None: the run answers its samples itself."""
    later_models: Sequence[ModelSpec] = ()
    """Models of later runs of the command on this backend: where this run must export, it may export theirs too."""

    def __post_init__(self) -> None:
        if isinstance(self.network, Mapping):  # where it came as JSON
            object.__setattr__(self, "network", NetworkSpec(**self.network))
        later = [ModelSpec(**each) if isinstance(each, Mapping) else each for each in self.later_models]
        object.__setattr__(self, "later_models", later)

    def with_setting(self, key: str, value: Any) -> Self:
        """Return the same with another value for a setting."""
        return replace(self, settings={**self.settings, key: value})


def transform_options(chain: str) -> list[str]:
    """Return the options of `mlbench run` that ask for transforms."""
    return [word for each in chain.split() for word in ("--transform", each)]
