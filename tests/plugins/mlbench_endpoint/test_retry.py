"""Which failed requests are sent again, and when."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from mlbench_endpoint.client.failure import RequestFailed
from mlbench_endpoint.client.retry import retry_after_s, wait_before_retry_s


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0", 0), ("7", 7), ("", None), ("soon", None), ("-1", None), ("9" * 10, None), ("1.5", None), ("\u0667", None)],
)
def test_a_delay_in_seconds_is_read(value, expected):
    assert retry_after_s(value) == expected


def test_a_delay_as_a_date_is_the_time_until_then():
    soon = datetime.now(UTC) + timedelta(seconds=100)
    assert 60 < retry_after_s(format_datetime(soon, usegmt=True)) <= 100
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 -0000") == 0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 302])
def test_a_refusal_that_stays_is_not_sent_again(status):
    assert wait_before_retry_s(RequestFailed("no", status=status, retry_after_s=1), 1) is None


@pytest.mark.parametrize("error", [RequestFailed("busy", status=429), RequestFailed("busy", status=503), OSError()])
def test_waits_double_within_limits(error):
    for attempts, longest in [(1, 0.25), (2, 0.5), (3, 1), (8, 30), (1000, 30)]:
        assert longest / 2 <= wait_before_retry_s(error, attempts) <= longest
