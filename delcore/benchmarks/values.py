"""Readings as exact numbers, however long: fractions for arithmetic, digits by place, rounding at the very end.

A reading may have thousands of digits or an exponent of eighteen. Values are rational numbers within
10^±`LARGEST_ORDER`; what lies beyond is taken as that bound, so that no text costs minutes or overflows.
"""

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from delcore.answers.numbers import bare_number

LARGEST_ORDER = 10_000
"""Sizes beyond 10^±10,000 are taken as 10^±10,000."""

LONGEST_ANSWER = 50_000
"""Answers of more characters have no value."""

ROUGH = Context(prec=34, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Arithmetic with errors once each of them is known: 34 digits, and no overflow."""

_DECIMAL = re.compile(r"(-?)(\d+(?:\.\d+)?)(?:e([+-]?\d{1,18}))?")
_FRACTION = re.compile(r"(-?)(\d+)/(\d+)")


def exact_value(answer: str | None, kind: str = "number") -> Fraction | None:
    r"""The value of an answer that is one number; None for any other, and for None.

    Args:
        answer: canonical, such as "-12.5", "3/4", "1e5000", or as a benchmark writes it: "$1,250", "x=5",
            `\frac{3}{4}`.
        kind: of answer; a "choice" is no number.

    >>> exact_value("-12.5"), exact_value("27, 93")
    (Fraction(-25, 2), None)
    """
    if answer is None or len(answer) > LONGEST_ANSWER or kind == "choice":
        return None
    value = _canonical_value(answer)
    return _canonical_value(bare_number(answer) or "") if value is None else value


def _canonical_value(text: str) -> Fraction | None:
    if match := _DECIMAL.fullmatch(text):
        sign, mantissa, exponent = match.groups()
        return _scaled(Decimal(mantissa), int(exponent or 0)) * (-1 if sign else 1)
    if (match := _FRACTION.fullmatch(text)) and match[3].strip("0"):
        # Python refuses `int` of more than 4,300 digits; `Decimal` does not, and is exact.
        value = Fraction(int(Decimal(match[2])), int(Decimal(match[3])))
        return value * (-1 if match[1] else 1)
    return None


def _scaled(mantissa: Decimal, exponent: int) -> Fraction:
    order = mantissa.adjusted() + exponent
    if mantissa and abs(order) > LARGEST_ORDER:
        return Fraction(10) ** (LARGEST_ORDER if order > 0 else -LARGEST_ORDER)
    return Fraction(mantissa) * Fraction(10) ** exponent if mantissa else Fraction(0)


def order_of_magnitude(value: Fraction) -> int:
    """⌊log10 |value|⌋, exactly; `value` is not 0.

    >>> order_of_magnitude(Fraction(999)), order_of_magnitude(Fraction(1, 1000))
    (2, -3)
    """
    top, bottom = abs(value.numerator), value.denominator
    order = Decimal(top).adjusted() - Decimal(bottom).adjusted()
    reached = top * 10 ** max(-order, 0) >= bottom * 10 ** max(order, 0)
    return order if reached else order - 1


def rough(value: Fraction) -> Decimal:
    """A fraction rounded to 34 digits."""
    return ROUGH.divide(Decimal(value.numerator), Decimal(value.denominator))


def digits_by_place(value: Fraction, decimals: int) -> dict[int, str]:
    """The digits of |value| by place, cut (not rounded) behind `decimals` places; 0 for units, −1 for tenths.

    No zeros lead, but for the units of a number below one.

    >>> digits_by_place(Fraction(-25, 2), 1)
    {1: '1', 0: '2', -1: '5'}
    """
    shifted = abs(value.numerator) * 10**decimals // value.denominator
    written = str(Decimal(shifted)).rjust(decimals + 1, "0")
    top = len(written) - 1 - decimals
    return {top - i: digit for i, digit in enumerate(written)}
