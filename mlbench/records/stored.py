"""The form that all stored records share."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Stored(BaseModel):
    """Frozen, with no room for fields nobody declared; can be made from any object with the same attributes."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", from_attributes=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


def _null_for_no_number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Score = Annotated[float | None, BeforeValidator(_null_for_no_number)]
"""A number that may have gone wrong: NaN and infinities, which JSON cannot spell, become null."""

Count = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A whole number that every reader can hold, databases included."""
