"""Which values of an option ``mlbench tune`` tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Tunable:
    """Says in an option's type which values a search may try: ``Annotated[bool, Tunable((False, True))]``.

    They must change how fast an engine is, and never what it answers by more than rounding does.
    """

    values: tuple[bool | int | str, ...]
    """Numbers in ascending order: a search goes from one to the next while it gains."""
    is_of_cores: bool = False
    """No number above that of the physical cores is tried."""
    programs: Literal["all", "batch", "generation"] = "all"
    """Which programs the option matters to."""
