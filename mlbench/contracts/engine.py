"""An engine: answers samples of a workload on a backend. It never sees LoadGen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from mlbench.contracts.statistics import EngineStatistics

if TYPE_CHECKING:
    import numpy as np

    from mlbench.contracts.dataset import Dataset


@dataclass(slots=True)  # not frozen: one is made for each query, and freezing doubles what that costs
class Samples:
    """Some samples of a query, stored by column: 400,000 of them are three references, not 400,000 objects.

    An engine is given tuples. It leaves what it was given as it is, and makes `Samples` of its own for parts.
    """

    ids: Sequence[int]
    """Unique within a run; an engine only hands them back."""
    indices: Sequence[int]
    """The dataset index of each sample; an index may come more than once, also with other content. A sample's content
    is what `data` returns; nothing may be assumed from its index."""
    dataset: Dataset

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice) -> Samples:
        return Samples(self.ids[part], self.indices[part], self.dataset)

    def at(self, positions: Sequence[int]) -> Samples:
        """Return the samples at these positions, in that order."""
        ids, indices = self.ids, self.indices
        return Samples([ids[p] for p in positions], [indices[p] for p in positions], self.dataset)

    def data(self) -> list[Any]:
        """Return the samples themselves, as the workload's program takes them."""
        return [self.dataset.sample(index) for index in self.indices]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCalls:
    """How often a graph was called with these shapes."""

    graph: str
    """Its name in the model."""
    shapes: Mapping[str, Sequence[int]]
    """Shape of each input by name."""
    state_sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the state's varying dimensions, as `StatefulExecutable.new_state` takes them."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many samples an engine takes at a time."""

    batch: int
    """Samples that it runs as one batch."""
    in_flight: int
    """Samples that keep it busy; more would only queue."""

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= self.in_flight:
            raise ValueError(f"a batch of {self.batch} samples, and {self.in_flight} in flight")


class Reply(ABC):
    """Receives an engine's answers; may be called from any thread, including short-lived ones.

    Each sample must be completed or failed exactly once. A sample failed, answered twice, answered with the wrong shape
    or dtype, with a NaN, or never answered makes the run INVALID and is named in the verdict. So do answers that were
    not computed from the sample: after the measurement the engine is sent samples it has never seen.
    """

    @abstractmethod
    def complete(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None = None
    ) -> None:
        """Answer samples: ``outputs[i]`` answers ``samples.ids[i]``. The engine gives up ownership of the arrays.

        One array whose first axis is the samples is the fast form; a sequence of arrays serves replies of unequal size.
        ``token_counts`` is needed by workloads judged by tokens: how many tokens each output holds, as integers. Where
        outputs are tokens the two are compared, and a wrong count makes the run INVALID. Nothing is raised here:
        invalid answers are faults of the run, and close these samples.
        """

    @abstractmethod
    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Report the first token of each sample, (n, 1) integers, as soon as it was computed; `complete` follows later.

        Where outputs are tokens it must be the one that the output begins with.
        """

    @abstractmethod
    def fail(self, samples: Samples, reason: str) -> None:
        """Mark these samples as failed; the run continues, and is INVALID."""

    @abstractmethod
    def invalidate(self, reason: str) -> None:
        """Make the run INVALID for a reason unrelated to any sample: an idle worker has died."""


class Engine(ABC):
    """Answers samples between ``__enter__`` and ``__exit__``; its threads end there."""

    @abstractmethod
    def submit(self, samples: Samples, reply: Reply) -> None:
        """Take samples to answer through ``reply``, now or later.

        Called by the thread that keeps LoadGen's clock. SingleStream and MultiStream send the next query when this one
        is answered, so answering before returning saves a thread hop; in Server a slow submit delays the next arrival.
        An exception fails the samples that are still unanswered.
        """

    def flush(self) -> None:
        """No more samples are coming: stop waiting for fuller batches."""

    def warm_up(self, samples: Samples) -> None:
        """Do everything that would slow the first calls (compile, allocate, choose a batch), given typical samples."""

    def capacity(self) -> Capacity | None:
        """Return how many samples it takes at a time, once warm; None: as the plan suggests.

        Engines that share a queue (`EnginePlan.instances`) are given no more, so that none holds samples another could
        start.
        """
        return None

    def statistics(self) -> EngineStatistics:
        """Return statistics since the last call: batch sizes, padding, waiting."""
        return EngineStatistics()

    def calls(self) -> Sequence[GraphCalls]:
        """Return which graphs were called, with which shapes, since the last call; empty if not counted."""
        return ()

    def replay_graphs(self) -> str:
        """Make graph calls free from now on, by returning earlier outputs.

        Return why that is impossible; "" if it worked.

        What remains is mlbench's overhead: batching, the program, handling replies. A run measures it with its own
        engine after its tests. Calls that have to be computed all the same, such as the first of their shapes, are
        counted as `EngineStatistics.computed_calls`. Engines that are not made of graphs leave this as it is.
        """
        return "the engine has no graphs whose calls could be skipped"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop threads and free the device; unanswered samples stay unanswered, or fail now."""
