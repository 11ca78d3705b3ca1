"""Other load on a machine's processors while a run was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from mlbench.records.stored import Stored

_NOTICEABLE = 0.1

Share = Annotated[float, Field(ge=0, le=1)]


class OtherWorkRecord(Stored):
    """Shares of the processors' time during the performance test; of those processors that the run may use."""

    processes: Share
    """Used by processes that are not the run's."""
    stolen: Share
    """Used by the host of a virtual machine for others; 0 where it does not say."""

    @property
    def share(self) -> float:
        """Both together."""
        return self.processes + self.stolen

    @property
    def is_noticeable(self) -> bool:
        """Whether reports mention it: a tenth or more. No verdict depends on it."""
        return self.share >= _NOTICEABLE


def count_beside(works: Sequence[OtherWorkRecord | None]) -> str:
    """Return how many of some runs were made under noticeable other load, in words; empty for none."""
    shares = [work.share for work in works if work and work.is_noticeable]
    if not shares:
        return ""
    runs = f"{len(shares)} of {len(works)} runs were made under other load"
    return f"{runs}, which took up to {max(shares):.0%} of the processors"
