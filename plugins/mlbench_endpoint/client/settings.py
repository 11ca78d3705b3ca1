"""The first message to the process that talks to servers: its settings, on one line of JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from mlbench_endpoint.api import Api
from mlbench_endpoint.client.answer import AnswerFormat
from mlbench_endpoint.options import EndpointOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The servers, and the settings of requests to them."""

    targets: Sequence[str]
    """URLs of the servers, used in turn."""
    fields: Mapping[str, Any]
    """Fields of every request."""
    format: AnswerFormat
    options: EndpointOptions
    """The user's options, without the API key itself."""

    def to_line(self) -> bytes:
        """Return them as a line of JSON."""
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> Self:
        """Return the settings of such a line."""
        found = json.loads(line)
        form, options = found["format"], found["options"]
        return cls(
            targets=found["targets"],
            fields=found["fields"],
            format=AnswerFormat(**{**form, "api": Api(form["api"])}),
            options=EndpointOptions(**{**options, "api": Api(options["api"])}),
        )
