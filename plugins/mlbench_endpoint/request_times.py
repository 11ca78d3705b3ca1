"""Times of requests from their sending, by the clock of the process that sends them.

LoadGen times a query from its due time. If all samples are one query, and requests wait for a free place, only the time
from the sending is the duration of a request.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mlbench_endpoint.client_messages import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A quantity of all requests; a record holds it as a JSON object."""

    of: str
    """``first token``, ``per output token``, ``answer`` or ``prompt``."""
    unit: str
    """``ns`` or ``tokens``."""
    requests: int
    mean: float
    p50: int
    p90: int
    p99: int
    least: int
    most: int


@dataclass(slots=True)
class RequestTimes:
    """One entry for each answered request; times in ns."""

    first_token_ns: array[int] = field(default_factory=lambda: array("q"))
    answer_ns: array[int] = field(default_factory=lambda: array("q"))
    prompt_tokens: array[int] = field(default_factory=lambda: array("q"))
    answer_tokens: array[int] = field(default_factory=lambda: array("q"))

    def add(self, message: Answered, tokens: int) -> None:
        """Record an answer and its number of tokens."""
        self.first_token_ns.append((message.first_ns or message.at_ns) - message.sent_ns)
        self.answer_ns.append(message.at_ns - message.sent_ns)
        self.prompt_tokens.append(message.prompt_tokens or 0)
        self.answer_tokens.append(tokens)

    def quantities(self) -> Sequence[Quantity]:
        """Return the measured quantities; empty without answers."""
        if not self.answer_ns:
            return []
        first_ns, answer_ns, tokens = (
            np.array(each) for each in (self.first_token_ns, self.answer_ns, self.answer_tokens)
        )
        several = tokens > 1
        per_token_ns = (answer_ns - first_ns)[several] // (tokens[several] - 1)
        found = {
            ("first token", "ns"): first_ns,
            ("per output token", "ns"): per_token_ns,
            ("answer", "ns"): answer_ns,
            ("prompt", "tokens"): np.array(self.prompt_tokens),
            ("answer", "tokens"): tokens,
        }
        return [_quantity(of, unit, values) for (of, unit), values in found.items() if len(values)]


def _quantity(of: str, unit: str, values: np.ndarray) -> Quantity:
    middle, ninetieth, highest = (int(each) for each in np.percentile(values, (50, 90, 99), method="inverted_cdf"))
    return Quantity(
        of=of,
        unit=unit,
        requests=len(values),
        mean=round(float(values.mean()), 1),
        p50=middle,
        p90=ninetieth,
        p99=highest,
        least=int(values.min()),
        most=int(values.max()),
    )
