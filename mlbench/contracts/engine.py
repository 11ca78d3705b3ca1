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
    """Samples of a query, stored by column: 400,000 of them are three references, not 400,000 objects.

    An engine gets tuples. It must not change them, and makes new `Samples` for parts.
    """

    ids: Sequence[int]
    """Unique within a run; an engine returns them unchanged."""
    indices: Sequence[int]
    """The dataset index of each sample. An index may come more than once, even with other content: use the content from
    `data`, and never infer it from the index."""
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
    """Counts the calls of a graph with the same shapes."""

    graph: str
    """Its name in the model."""
    shapes: Mapping[str, Sequence[int]]
    """Shape of each input by name."""
    state_sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the state's varying dimensions, as `StatefulExecutable.new_state` takes them."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Number of samples that an engine takes at a time."""

    batch: int
    """Samples in one batch."""
    in_flight: int
    """Samples that keep the engine busy; more would only queue."""

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= self.in_flight:
            raise ValueError(f"a batch of {self.batch} samples, and {self.in_flight} in flight")


class Reply(ABC):
    """Receives an engine's answers; may be called from any thread, including short-lived ones.

    Each sample must be completed or failed exactly once. A sample that failed, or was answered twice, with the wrong
    shape or dtype, with a NaN, or never, makes the run INVALID and is named in the verdict. So do answers that were not
    computed from the sample: after the measurement the engine gets samples that it has never seen.
    """

    @abstractmethod
    def complete(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None = None
    ) -> None:
        """Answer samples: ``outputs[i]`` answers ``samples.ids[i]``. The engine gives up ownership of the arrays.

        One array with the samples as its first axis is the fast form; use a sequence of arrays for replies of unequal
        size. Workloads judged by tokens need ``token_counts``: the number of tokens in each output, as integers. Where
        outputs are tokens, a wrong count makes the run INVALID. This method never raises: invalid answers are faults of
        the run, and close these samples.
        """

    @abstractmethod
    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Report the first token of each sample, (n, 1) integers, as soon as it is computed; call `complete` later.

        Where outputs are tokens, each output must begin with it.
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

        LoadGen's timing thread calls it. SingleStream and MultiStream send the next query when this one is answered, so
        answering before returning saves a thread switch; in Server a slow submit delays the next arrival. An exception
        fails the samples that are still unanswered.
        """

    def flush(self) -> None:
        """No more samples are coming: stop waiting for fuller batches."""

    def warm_up(self, samples: Samples) -> None:
        """Do everything that would slow the first calls (compile, allocate, choose a batch), given typical samples."""

    def capacity(self) -> Capacity | None:
        """Return the number of samples that the engine takes at a time, once warm; None: as the plan suggests.

        Engines that share a queue (`EnginePlan.instances`) get no more, so that none holds samples that another could
        start.
        """
        return None

    def statistics(self) -> EngineStatistics:
        """Return statistics since the last call: batch sizes, padding, waiting time."""
        return EngineStatistics()

    def calls(self) -> Sequence[GraphCalls]:
        """Return the graphs called since the last call of this method, with their shapes; empty if not counted."""
        return ()

    def replay_graphs(self) -> str:
        """Make graph calls free from now on, by returning earlier outputs.

        Return the reason if that is impossible, else "".

        The rest is mlbench's overhead: batching, the program, handling replies. A run measures it with its own engine
        after its tests. Count calls that still must be computed, such as the first of their shapes, in
        `EngineStatistics.computed_calls`. Do not override this in engines that have no graphs.
        """
        return "the engine has no graphs whose calls could be skipped"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop threads and free the device; unanswered samples stay unanswered, or fail now."""
