"""The base of all stored records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, JsonValue
from pydantic_core import CoreSchema, core_schema

from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.statistics import EngineStatistics
from mlbench.wire.engine_statistics import statistics_from_json, statistics_to_json
from mlbench.wire.runtime_facts import runtime_from_json, runtime_to_json


class Stored(BaseModel):
    """Frozen, without undeclared fields; can be created from any object with the same attributes."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True, allow_inf_nan=False)


def _null_for_no_number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _check_folder_name(text: str) -> str:
    if text in ("", ".", "..") or "/" in text:
        raise ValueError(f"{text[:80]!r} is not a name of a folder")
    return text


FolderName = Annotated[str, AfterValidator(_check_folder_name)]
"""Names a folder beside others, and leads nowhere else."""


Score = Annotated[float | None, BeforeValidator(_null_for_no_number)]
"""A number that may be NaN or infinite; JSON has neither, so both become null."""


@dataclass(frozen=True, slots=True)
class _AsJson:
    """How pydantic reads and writes values of a type that has a JSON form of its own."""

    kind: type
    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        values = handler.generate_schema(dict[str, JsonValue])
        made = core_schema.no_info_after_validator_function(self.from_json, values)
        return core_schema.no_info_before_validator_function(
            lambda given: self.to_json(given) if isinstance(given, self.kind) else given,
            made,
            serialization=core_schema.plain_serializer_function_ser_schema(self.to_json, return_schema=values),
        )


Runtime = Annotated[RuntimeFacts, _AsJson(RuntimeFacts, runtime_to_json, runtime_from_json)]
"""What a backend says of its runtime: one JSON object, whose values are of any kind; see `runtime_from_json`."""

Statistics = Annotated[EngineStatistics, _AsJson(EngineStatistics, statistics_to_json, statistics_from_json)]
"""What an engine counted: one JSON object, whose values are of any kind; see `statistics_from_json`."""

Count = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A whole number that every reader can hold, databases included."""
