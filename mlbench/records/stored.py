"""The base of all stored records."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, JsonValue
from pydantic_core import CoreSchema, core_schema

from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.statistics import EngineStatistics
from mlbench.engine_statistics import statistics_from_json, statistics_to_json
from mlbench.runtime_facts import runtime_from_json, runtime_to_json


class Stored(BaseModel):
    """Frozen, without undeclared fields; can be created from any object with the same attributes."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", from_attributes=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


def _null_for_no_number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


Score = Annotated[float | None, BeforeValidator(_null_for_no_number)]
"""A number that may be NaN or infinite; JSON has neither, so both become null."""


class _StatisticsAsJson:
    """How pydantic reads and writes engine statistics."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        values = handler.generate_schema(dict[str, JsonValue])
        made = core_schema.no_info_after_validator_function(statistics_from_json, values)
        return core_schema.no_info_before_validator_function(
            _statistics_values,
            made,
            serialization=core_schema.plain_serializer_function_ser_schema(statistics_to_json, return_schema=values),
        )


def _statistics_values(given: object) -> object:
    return statistics_to_json(given) if isinstance(given, EngineStatistics) else given


class _RuntimeAsJson:
    """How pydantic reads and writes facts about a runtime."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        values = handler.generate_schema(dict[str, JsonValue])
        made = core_schema.no_info_after_validator_function(runtime_from_json, values)
        return core_schema.no_info_before_validator_function(
            _runtime_values,
            made,
            serialization=core_schema.plain_serializer_function_ser_schema(runtime_to_json, return_schema=values),
        )


def _runtime_values(given: object) -> object:
    return runtime_to_json(given) if isinstance(given, RuntimeFacts) else given


Runtime = Annotated[RuntimeFacts, _RuntimeAsJson]
"""What a backend says of its runtime: one JSON object, whose values are of any kind; see `runtime_from_json`."""

Statistics = Annotated[EngineStatistics, _StatisticsAsJson]
"""What an engine counted: one JSON object, whose values are of any kind; see `statistics_from_json`."""

Count = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A whole number that every reader can hold, databases included."""
