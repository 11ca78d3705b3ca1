"""The steady part of a load, its rates and its course, and goodput, of requests with times chosen by hand."""

import dataclasses

import numpy as np
import pytest
from mlbench_endpoint.client.lag import explain_free_places
from mlbench_endpoint.sweep.goodput import measure_goodput
from mlbench_endpoint.sweep.intervals import rank_interval, rate_interval, share_interval
from mlbench_endpoint.sweep.load_window import AnsweredColumns, course_of, find_steady
from mlbench_endpoint.sweep.service_limits import ServiceLimits

from mlbench import UsageError

MS = 1_000_000


def requests(*rows, asked_ms=None, places=None):
    """Return requests of (sent, first token, end) in ms, with 11 tokens each, of a prompt of 5.

    They wait for a number of places from the beginning, two unless given, or come at given times.
    """
    sent, first, end = (np.array(column, np.int64) * MS for column in zip(*rows, strict=True))
    asked = sent * 0 if asked_ms is None else np.array(asked_ms, np.int64) * MS
    size = np.ones(len(rows), np.int64)
    return AnsweredColumns(
        asked_ns=asked,
        sent_ns=sent,
        first_ns=first,
        end_ns=end,
        prompt_tokens=5 * size,
        answer_tokens=11 * size,
        longest_gap_ns=10 * MS * size,
        places=(2 if asked_ms is None else 0) if places is None else places,
    )


def two_at_once(pairs, **asked):
    """Two lanes, each of which sends a request every 100 ms; the second one 50 ms later."""
    starts = [(100 * place + lane) for place in range(pairs) for lane in (1, 51)]
    return requests(*((start, start + 20, start + 99) for start in starts), **asked)


def test_the_first_and_last_of_two_at_once_are_left_out():
    counts, window = find_steady(two_at_once(20))
    assert (window.left_out_at_start, window.left_out_at_end, window.most_in_flight) == (2, 2, 2)
    assert counts.tolist() == [False] * 2 + [True] * 36 + [False] * 2
    assert window.lasted_ns == (1951 - 101) * MS
    assert window.requests_per_s.value == pytest.approx(20, rel=0.03)
    assert window.answer_tokens_per_s.value == pytest.approx(220, rel=0.02)
    assert window.prompt_tokens_per_s.value == pytest.approx(100, rel=0.03)
    assert window.answer_tokens_per_s.low < 220 < window.answer_tokens_per_s.high


def test_so_they_are_where_most_requests_come_in_while_others_are_answered():
    """A fast server answers sooner than many thousands of prompts can be sent to the client."""
    found = two_at_once(20, asked_ms=range(0, 1600, 40), places=2)
    _, window = find_steady(found)
    assert (window.left_out_at_start, window.left_out_at_end) == (2, 2)
    assert goodput("e2e=99ms", found).share.value == 1  # from the sending
    assert window.found_free_place == 0


def test_requests_that_are_made_more_slowly_than_they_are_answered_find_free_places():
    """One in 100 ms, and answers take 99 ms: there is never a second one, as was asked for."""
    starts = range(0, 4000, 100)
    rows = [(start, start + 20, start + 99) for start in starts]
    _, window = find_steady(requests(*rows, asked_ms=starts, places=2))
    assert (window.most_in_flight, window.found_free_place) == (1, 1)
    assert "100% of the requests found a free place" in explain_free_places(dataclasses.asdict(window))
    _, window = find_steady(two_at_once(20))
    assert not explain_free_places(dataclasses.asdict(window))
    _, window = find_steady(requests(*rows, asked_ms=starts, places=20))
    assert window.found_free_place is None  # no more than twice the places: they are hardly ever all taken


def test_a_long_answer_that_ends_after_all_others_is_not_left_out_for_its_length():
    rows = [
        (100 * place + lane, 100 * place + lane + 20, 100 * place + lane + 99)
        for place in range(20)
        for lane in (1, 51)
        if place <= 5 or lane == 51
    ]
    rows[10] = (501, 521, 5000)
    counts, _ = find_steady(requests(*rows))
    assert counts[10]


def test_requests_that_arrive_over_time_all_count():
    arrivals = list(range(0, 4000, 100))
    counts, window = find_steady(requests(*((each, each + 20, each + 150) for each in arrivals), asked_ms=arrivals))
    assert counts.all()
    assert (window.left_out_at_start, window.left_out_at_end) == (0, 0)


def test_a_load_without_a_steady_part_counts_as_a_whole_and_has_no_rates():
    counts, window = find_steady(requests(*((0, 20, 100 + each) for each in range(8))))
    assert counts.all()
    assert window.requests_per_s is None


def test_the_course_has_the_means_of_each_step():
    """Two at once for 2 s, from the middle on a third one that waited 500 ms, and a failure then."""
    found = requests((0, 0, 1000), (0, 0, 2000), (1000, 1000, 2000), (1000, 1000, 2000), asked_ms=[0, 0, 500, 1000])
    course = course_of(found, np.array([1010 * MS]))
    assert course.step_ns == 50 * MS
    assert course.in_flight == [2.0] * 20 + [3.0] * 20
    assert course.waiting[9:21] == [0.0] + [1.0] * 10 + [0.0]
    assert course.failed == [0] * 20 + [1] + [0] * 19
    assert sum(course.answer_tokens_per_s) * 0.05 == pytest.approx(42)  # 44 but two first ones, at the first moment


def goodput(text, found, failed=0):
    counts, window = find_steady(found)
    return measure_goodput(ServiceLimits.of_text(text), found, counts, window, failed=failed)


ARRIVALS = list(range(0, 10_000, 100))


def late_by_tens():
    """A hundred requests; the tenth part of them has its first token after 60 ms, and the others after 20."""
    rows = [(at, at + (60 if place % 10 == 0 else 20), at + 120) for place, at in enumerate(ARRIVALS)]
    return requests(*rows, asked_ms=ARRIVALS)


@pytest.mark.parametrize(
    ("text", "within"),
    [
        ("ttft=50ms", 90),
        ("ttft=60ms", 100),  # a limit may be reached
        ("tpot=6ms", 10),  # 60 ms for ten tokens, or 100
        ("tpot=6ms,ttft=50ms", 0),
        ("e2e=0.12s", 100),
        ("e2e=119.9ms", 0),
        ("itl=10ms", 100),
        ("itl=9999us", 0),
    ],
)
def test_a_request_is_good_within_all_limits(text, within):
    found = goodput(text, late_by_tens())
    assert (found.requests, found.within, found.unknown) == (100, within, 0)
    assert found.share.value == within / 100
    assert found.requests_per_s.value == pytest.approx(within / 10, rel=0.05)


def test_waiting_counts_where_requests_arrive_over_time_and_failed_ones_are_not_good():
    """Sent 40 ms after they came, the fast ones have their first token after 60 ms."""
    found = late_by_tens()
    waited = requests(
        *((at + 40, at + 60, at + 160) for at in ARRIVALS),
        asked_ms=ARRIVALS,
    )
    assert goodput("ttft=50ms", waited).within == 0
    assert goodput("ttft=50ms", found, failed=100).share.value == 0.45


def test_an_answer_in_one_piece_is_not_known_to_be_good():
    found = late_by_tens()
    found.longest_gap_ns[:30] = -1
    assert (goodput("tpot=1s", found).within, goodput("tpot=1s", found).unknown) == (70, 30)
    assert (goodput("ttft=1s", found).within, goodput("ttft=1s", found).unknown) == (100, 0)


@pytest.mark.parametrize(
    "text", ["ttft=500", "ttft=-1ms", "ttft=0ms", "tttt=1ms", "ttft=1ms,ttft=2ms", "ttft", "ttft=1m"]
)
def test_a_limit_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="the limit"):
        ServiceLimits.of_text(text)


def test_no_limits_are_false():
    assert not ServiceLimits.of_text("")
    assert ServiceLimits.of_text(" ttft = 1.5 s ").ttft == 1_500_000_000


@pytest.mark.parametrize(
    ("count", "share", "ranks"),
    [
        (10, 0.5, (1, 8)),  # the second and the ninth: tables of the sign test
        (20, 0.5, (5, 14)),  # the sixth and the fifteenth
        (5, 0.5, (None, None)),  # 1 in 16 that all five lie on one side
        (100, 0.99, (96, None)),
    ],
)
def test_a_percentile_lies_between_the_order_statistics_of_the_tables(count, share, ranks):
    assert rank_interval(count, share) == ranks


def test_the_interval_of_a_percentile_holds_as_often_as_it_says():
    """Of uniform values, whose 90th percentile is 0.9; 95 % of 2,000 times, and 0.5 % for chance."""
    drawn = np.sort(np.random.default_rng(7).random((2000, 200)))
    low, high = rank_interval(200, 0.9)
    assert ((drawn[:, low] <= 0.9) & (drawn[:, high] >= 0.9)).mean() > 0.94


def test_a_share_and_a_rate_have_their_intervals():
    """Wilson's for 81 of 263, from Newcombe (1998); Student's by hand: ten rates of standard deviation 1."""
    found = share_interval(81, 263)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    assert (share_interval(0, 10).low, share_interval(10, 10).high) == (pytest.approx(0), 1)
    rate = rate_interval([9, 11] * 5)
    assert rate.value == 10
    assert rate.high - rate.value == pytest.approx(2.2622 * (10 / 9) ** 0.5 / 10**0.5)
