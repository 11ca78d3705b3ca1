"""When a refused request is sent again: which refusals pass, and after how long."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from mlbench_endpoint.client.failure import RequestFailed

_LONGEST_WAIT_DIGITS = 9
_FIRST_WAIT_S = 0.25
_LONGEST_OWN_WAIT_S = 30.0

_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
"""Refusals below 500 that a later request may not get."""


def retry_after_s(value: str) -> float | None:
    """Return the delay that a ``Retry-After`` asks for: seconds, or a date of HTTP; None for anything else."""
    if value.isascii() and value.isdigit() and len(value) <= _LONGEST_WAIT_DIGITS:
        return int(value)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def wait_before_retry_s(error: Exception, attempts: int) -> float | None:
    """Return the delay before a failed request is sent again, after so many attempts.

    It is as long as the server asks, else doubled each time within limits, with a random part. None: another attempt
    cannot help.
    """
    if isinstance(error, RequestFailed):
        if error.status and error.status < HTTPStatus.INTERNAL_SERVER_ERROR and error.status not in _PASSING:
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s
    longest = min(_LONGEST_OWN_WAIT_S, _FIRST_WAIT_S * 2 ** min(attempts - 1, 16))
    return random.uniform(longest / 2, longest)
