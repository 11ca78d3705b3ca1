"""A model: a workload's computation on a given profile and set of weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from mlbench.contracts.generation import GenerationProgram
    from mlbench.contracts.graph import Executable, Graph
    from mlbench.contracts.reply_spec import ReplySpec


class BatchProgram(ABC):
    """Turns a batch of samples into a batch of replies by calling graphs.

    It keeps no state between calls: engine workers call it at the same time.
    """

    reply: ReplySpec
    listener: Callable[[int, int], None] | None = None
    """Progress callback, called from any worker with the steps done and the steps of its batch."""

    def report_progress(self, done: int, of: int) -> None:
        """Report progress within a batch; for programs whose batches take minutes."""
        if self.listener:
            self.listener(done, of)

    @abstractmethod
    def run(self, samples: Sequence[Any], graphs: Mapping[str, Executable]) -> np.ndarray | Sequence[np.ndarray]:
        """Answer each sample: one array whose first axis is the samples, or one array per sample where sizes differ.

        A graph with `Graph.state` takes a state after its inputs; its ``new_state`` makes one, as that of a
        `StatefulExecutable`. A program may keep it for the executables that made it: one thread calls them.
        """

    def length(self, sample: Any) -> int:
        """Return a sample's length; samples of similar length are batched together. 0: all are alike."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A workload's computation: graphs, and the program that calls them."""

    name: str
    graphs: Mapping[str, Graph]
    program: BatchProgram | GenerationProgram
    weights_fingerprint: str
    """A hash of the weights, or of the seed they were drawn from; kept in the record."""
    files: Path | None = None
    """The folder a native engine loads (a Hugging Face directory), where there is one."""
    reference: Callable[[Graph], Executable] | None = None
    """Makes a function of a graph that computes it for comparison, in fp32; None: torch does, with its module."""
    why_no_graphs: str = ""
    """Where there are no graphs: why, and what to do then, as sentences for a user whose backend compiles them."""
    deviations: tuple[str, ...] = ()
    """Differences of a full profile's files from the official ones: ``planes 8, not 64``. Such a run is not
    official."""
    changes: tuple[str, ...] = ()
    """Changes by transforms, one line each, in words and numbers; kept in the record."""
    stores: str = ""
    """Format of the weights in quantised files, by their own description: ``int4-gptq``; kept in the record."""
