"""Values of an option that ``mlbench tune`` tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Tunable:
    """A mark in an option's type with the values that a search may try: ``Annotated[bool, Tunable((False, True))]``.

    They may change an engine's speed, but its answers only by rounding.
    """

    values: tuple[bool | int | str, ...]
    """Numbers in ascending order: a search goes from one to the next while it gains."""
    is_of_cores: bool = False
    """Whether numbers above that of the physical cores are left out."""
    programs: Literal["all", "batch", "generation"] = "all"
    """Kinds of programs that the option affects."""
