"""Exact values against Python's own `Fraction`, `math` and `str` where those can."""

import math
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delcore.answers.written import decimal_places
from delcore.benchmarks.values import (
    digits_by_place,
    exact_value,
    order_of_magnitude,
    rough,
)


@pytest.mark.parametrize(
    ("reading", "value"),
    [
        ("-12.5", Fraction(-25, 2)),
        ("3/4", Fraction(3, 4)),
        ("-1/3", Fraction(-1, 3)),
        ("0", Fraction(0)),
        ("7e-3", Fraction(7, 1000)),
        ("1e400", Fraction(10) ** 400),
        (None, None),
        ("27, 93", None),
        ("3:30", None),
        ("1/0", None),
        ("nan", None),
        ("", None),
    ],
)
def test_exact_value_of_a_canonical_reading(reading, value):
    assert exact_value(reading) == value


@pytest.mark.parametrize(
    ("gold", "value"),
    [("$1,250", 1250), ("x=5", 5), (r"\frac{3}{4}", Fraction(3, 4)), ("12%", 12), (r"\sqrt{2}", None), ("0.", 0)],
)
def test_exact_value_of_an_answer_as_a_benchmark_writes_it(gold, value):
    assert exact_value(gold, "math") == exact_value(gold) == value


def test_letter_or_number_of_a_choice_has_no_value():
    assert exact_value("C", "choice") is exact_value("5", "choice") is None


def test_exact_value_of_monsters_is_bounded_and_quick():
    started = time.perf_counter()
    assert exact_value("1e999999999999999999") == exact_value("9e10001") == Fraction(10) ** 10_000
    assert exact_value("-1e-999999999999999999") == -(Fraction(10) ** -10_000)
    assert exact_value("0e999999999999999999") == 0
    assert exact_value("1e9999999999999999999999") is None
    assert exact_value("7" * 5000) == Fraction(7 * (10**5000 - 1), 9)
    assert exact_value("9" * 5000 + "/" + "3" * 5000) == 3
    assert exact_value("1" * 60_000) is None
    assert time.perf_counter() - started < 2


@settings(deadline=None)
@given(st.fractions(max_denominator=10**6).filter(bool))
def test_order_of_magnitude_is_the_power_of_ten_at_or_below(value):
    order = order_of_magnitude(value)
    assert Fraction(10) ** order <= abs(value) < Fraction(10) ** (order + 1)


@settings(deadline=None)
@given(st.integers(-(10**9), 10**9), st.integers(0, 6))
def test_digits_by_place_are_those_python_writes(number, decimals):
    value = Fraction(number, 10**decimals)
    whole, _, part = f"{abs(number) / 10**decimals:.{decimals}f}".partition(".")
    found = digits_by_place(value, decimals)
    assert "".join(found[place] for place in sorted(found, reverse=True)) == whole + part
    assert max(found) == len(whole) - 1 and min(found) == -decimals


def test_decimal_places_end_for_twos_and_fives_only():
    values = [Fraction(1), Fraction(5, 2), Fraction(1, 8), Fraction(1, 3), Fraction(7, 12)]
    assert [decimal_places(value) for value in values] == [0, 1, 3, None, None]


def test_rough_keeps_34_digits_of_any_size():
    assert rough(Fraction(1, 3)) == pytest.approx(rough(Fraction(333333333333, 10**12)), abs=rough(Fraction(1, 10**11)))
    assert rough(Fraction(10) ** 9999).adjusted() == 9999
    assert math.isclose(float(rough(Fraction(-22, 7))), -22 / 7)
