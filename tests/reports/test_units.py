"""How numbers are spelled: hand arithmetic, unit by unit."""

import math

import pytest

from mlbench.reports.units import (
    duration,
    finite,
    number_of,
    percent,
    plural,
    quantity,
    rough_time,
    significant,
    size,
    tell_apart,
    three_digits,
    with_prefix,
)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (1, "1.00 ns"),
        (999, "999 ns"),
        (1_000, "1.00 us"),
        (12_340, "12.3 us"),
        (1_000_000, "1.00 ms"),
        (12_345_678, "12.3 ms"),
        (1_000_000_000, "1.00 s"),
        (90_000_000_000, "90.0 s"),
        (3_600_000_000_000, "3,600 s"),
        (-1_500_000, "-1.50 ms"),
        (0.4, "0 ns"),
    ],
)
def test_a_time_has_the_unit_that_suits_it(nanoseconds, text):
    assert duration(nanoseconds) == text


@pytest.mark.parametrize(("digits", "text"), [(2, "12 ms"), (4, "12.35 ms"), (6, "12.3457 ms")])
def test_a_time_may_have_more_digits(digits, text):
    assert duration(12_345_678, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1.2345, "1.23"),
        (12.345, "12.3"),
        (123.45, "123"),
        (12_345.6, "12,346"),
        (1_234_567, "1,234,567"),
        (0.001234, "0.00123"),
        (99.99, "100"),
        (-4.5678, "-4.57"),
        (2, "2.00"),
    ],
)
def test_a_number_has_three_digits_and_no_exponent(value, text):
    assert three_digits(value) == text


def test_a_number_with_a_single_digit_has_no_point():
    assert significant(0.26, 1) == "0.3"
    assert significant(7.4, 1) == "7"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ns", "no result"),
        (2_000_000, "ns", "2.00 ms"),
        (91.6286, "samples/s", "91.6 samples/s"),
        (24_525.4, "tokens/s", "24,525 tokens/s"),
    ],
)
def test_a_quantity_carries_its_unit(value, unit, text):
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5.00 op"),
        (999, "999 op"),
        (1_000, "1.00 kop"),
        (4.1e9, "4.10 Gop"),
        (8.2e9, "8.20 Gop"),
        (1e6, "1.00 Mop"),
        (2.5e12, "2.50 Top"),
        (1.979e15, "1.98 Pop"),
    ],
)
def test_a_large_number_has_a_decimal_prefix(value, text):
    assert with_prefix(value, "op") == text


@pytest.mark.parametrize(
    ("bytes_", "text"),
    [
        (512, "0.500 KiB"),
        (1024, "1.00 KiB"),
        (1024**2, "1.00 MiB"),
        (10**9, "954 MiB"),
        (1024**3, "1.00 GiB"),
        (1.5 * 1024**3, "1.50 GiB"),
        (80 * 1024**3, "80.0 GiB"),
    ],
)
def test_memory_is_counted_in_powers_of_1024(bytes_, text):
    assert size(bytes_) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1 s"), (45, "45 s"), (14 * 60, "14 min"), (14 * 60 + 40, "15 min"), (7800, "2 h 10 min")]
)
def test_a_rough_time_is_said_as_one_says_it(seconds, text):
    assert rough_time(seconds) == text


@pytest.mark.parametrize(("share", "text"), [(0.123456, "12.3 %"), (1, "100 %"), (0.00123, "0.123 %"), (2.5, "250 %")])
def test_a_share_is_in_percent(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1024, "1,024 runs")])
def test_one_is_no_plural(count, text):
    assert plural(count, "run") == text
    assert number_of(count) == text.split()[0]


def spell(number, decimals):
    return f"{number:.{decimals}f}"


def test_a_score_and_its_target_have_as_many_digits_as_show_which_is_larger():
    """97.3999 misses 97.4, and with two digits looks as if it met it."""
    assert tell_apart(97.3999, [97.4], spell, 2) == ("97.3999", ["97.4000"])
    assert tell_apart(97.5, [97.4], spell, 2) == ("97.50", ["97.40"])


def test_a_score_that_is_its_target_is_spelled_like_it():
    assert tell_apart(97.4, [97.4], spell, 2) == ("97.40", ["97.40"])


def test_a_score_between_two_limits_is_distinguished_from_both():
    assert tell_apart(23.0095, [23.01, 23.95], spell, 2) == ("23.009", ["23.010", "23.950"])


def test_numbers_that_no_double_tells_apart_end_the_search():
    shown, (limit,) = tell_apart(math.nan, [1.0], spell, 2)
    assert (shown, limit) == ("nan", "1.00")


def test_what_json_cannot_spell_is_null_at_any_depth():
    value = {"a": [1.0, math.nan], "b": (math.inf, "x"), "c": {"d": -math.inf, "e": True}, "f": None}
    assert finite(value) == {"a": [1.0, None], "b": [None, "x"], "c": {"d": None, "e": True}, "f": None}
