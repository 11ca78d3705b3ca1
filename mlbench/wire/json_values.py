"""JSON values as frozen types."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from mlbench.system.documents import JsonObject

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


def value_of_json(kind: type[T], values: JsonObject) -> T:
    """Return the value of a type that a JSON object states; a field of another type is not converted.

    Raises:
        pydantic.ValidationError: it states none.
    """
    of: Any = kind
    found: T = _adapter(of).validate_json(json.dumps(values), strict=True)
    return found


@cache  # to build one takes as long as to read a thousand values
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
