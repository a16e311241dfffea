r"""The grammar of a written number, and the one exact string that stands for its value.

In text that went through `delcore.answers.plain.plain`:

    number   = [sign] value [scale]                 "-5", "3.5 million"
    value    = decimal | power | fraction | mixed | clock
    decimal  = digits ["." digits]                  "1,250.50"; commas stand before groups of exactly three
    power    = decimal ("e" | "×10^") integer       "58.19e-6", "5.819 x 10^{-5}", "10^22"
    fraction = decimal "/" decimal                  "3/4"
    mixed    = digits fraction below one            "9 1/2", "9 and 1/2", "8 (6/19)", "9 and a half"
    clock    = digits (":" digits)… ["am" | "pm"]   "3:30", and ratios; the clock counts to 24

Canonical: a bare fraction stays one, in lowest terms ("3/4"); every other value is a plain decimal without idle zeros
("-12.5"), as long as it ends and pads with at most `MAX_ZEROS` zeros ("1e5000" beyond); else a fraction ("158/19").
All arithmetic is on integers. Dates, versions, powers like 2^10, 1/0, and numbers that are a factor, an index or an
argument of an expression have no value of their own.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

MAX_ZEROS = 400
"""A decimal is written out up to this many padding zeros; beyond, it keeps an exponent."""

MAX_FRACTION_LENGTH = 10_000
"""A fraction with more characters than this is not read, so that no text costs minutes of division."""

MAX_EXPONENT_DIGITS = 18

SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}

# ---------------------------------------------------------------- canonical strings


def _spell(digits: str, exponent: int) -> str:
    """Canonical string of digits · 10^exponent."""
    digits = digits.lstrip("0")
    kept = digits.rstrip("0")
    exponent += len(digits) - len(kept)
    if not kept:
        return "0"
    point = len(kept) + exponent
    if max(exponent, -point) > MAX_ZEROS:
        return f"{kept}e{exponent}"
    if exponent >= 0:
        return kept + "0" * exponent
    return f"{kept[:point]}.{kept[point:]}" if point > 0 else f"0.{'0' * -point}{kept}"


def _spell_decimal(run: str, exponent: int = 0) -> str:
    whole, _, part = run.replace(",", "").partition(".")
    return _spell(whole + part, exponent - len(part))


def _integer(digits: str) -> int:
    # Python refuses `int` of more than 4,300 digits; `decimal` does not, and is exact both ways.
    return int(Decimal(digits)) if len(digits) > 4000 else int(digits)


def _digits(number: int) -> str:
    return str(Decimal(number))


def _exact(run: str) -> Fraction:
    whole, _, part = run.replace(",", "").partition(".")
    return Fraction(_integer(whole + part), 10 ** len(part))


def decimal_places(value: Fraction) -> int | None:
    """How many decimals `value` has; None where they never end, as for 1/3.

    >>> decimal_places(Fraction(1, 8)), decimal_places(Fraction(1, 3))
    (3, None)
    """
    # It ends where there is nothing but twos and fives in the denominator.
    rest = value.denominator
    twos = (rest & -rest).bit_length() - 1
    rest, fives = rest >> twos, 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


def _spell_ending(value: Fraction) -> str | None:
    """The decimal, if it ends."""
    places = decimal_places(value)
    return None if places is None else _spell(_digits(value.numerator * 10**places // value.denominator), -places)


def _spell_fraction(top: str, bottom: str, *, whole: str = "", scale: int = 0) -> str | None:
    if len(whole) + len(top) + len(bottom) > MAX_FRACTION_LENGTH or not bottom.strip("0.,"):
        return None
    value = (_exact(top) / _exact(bottom) + _exact(whole or "0")) * 10**scale
    decimal = _spell_ending(value) if whole or scale or value.denominator == 1 else None
    spelled = decimal or f"{_digits(value.numerator)}/{_digits(value.denominator)}"
    return spelled if len(spelled) <= MAX_FRACTION_LENGTH else None


def number_key(canonical: str) -> str:
    """The same string for every canonical form of one value: 3/4 and 0.75 both give 0.75."""
    fraction = re.fullmatch(r"(-?)(\d++)/(\d++)", canonical)
    if fraction is None:
        return canonical
    ending = _spell_ending(Fraction(_integer(fraction[2]), _integer(fraction[3])))
    return canonical if ending is None else fraction[1] + ending


# ---------------------------------------------------------------- the grammar

_RUN = r"(?:(?<![\w.])\.)?\d++(?:[.,]\d++)*+"
_POWER = r"[{(]?\s?(?P<%s>[+-]?\d++)\s?[)}]?"
_TOKEN = re.compile(
    rf"""
      \\[A-Za-z]++(?:\s?\{{[^{{}}]{{0,80}}\}}|\d++)*+            # a LaTeX command and its arguments
    | [\^_]\s?[{{(]?[+-]?[\w.]*+                                 # a raised or lowered script
    | [A-Za-z_]++(?:\d[\w.]*+)?                                  # a word; also "x2", "mp3"
    | (?P<chain>\d++(?:/\d++){{2,}}+ | \d++(?:-\d++){{2,}}+)     # a date, a telephone number
    | (?P<run>{_RUN})
      (?: (?P<clock>(?::\d++)++)(?:\s?(?P<noon>[AaPp])\.?[Mm]\b)?
        | [eE](?P<exponent>[+-]?\d++)(?![A-Za-z_])
        | \s?[×xX*]\s?10\s?\^\s?{_POWER % "power"}
        | \^\s?{_POWER % "ten"}
        | \s?/\s?(?P<under>-?)(?P<bottom>\d{{1,3}}(?:,\d{{3}})++(?![\d,])|\d++(?:\.\d++)?+)
        | (?P<mixed>\s(?:and\s)?|\s?(?=\())\(?(?P<top>\d++)\s?/\s?(?P<part>\d++)(?![/.]\d)\)?
        | (?P<half>\sand\sa\shalf\b)
      )?+
      (?:\s(?P<scale>(?i:{"|".join(SCALES)}))\b)?+
    """,
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})++(?:\.\d++)?+")
# Half the world writes 1,250.50 as 1.250,50; it is neither that nor a list, for certain.
_TURNED = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})++,\d{1,2}")
_DECIMAL = re.compile(r"\d++(?:\.\d++)?+|\.\d++")
# Commands after which a number stands for itself: relations, arrows, dots, layout.
_RELATIONS = r"(?:leq?|geq?|neq?|lt|gt|approx|sim|[Rr]ightarrow|implies|to|[lc]?dots|in|end|therefore|because|text)"
# What makes the number before it a factor, a base or a row: "2x", "2\pi", "52_8", "3^2".
_ALGEBRA = re.compile(
    rf"\s?(?:[\^_{{]|√|\\(?!{_RELATIONS}(?![A-Za-z]))[A-Za-z]|(?:pi|sqrt|plus|minus|squared|cubed)\b)"
    r"|[xyzniKkMB](?![A-Za-z])|[eE][+-]?\d"
)


class Written(NamedTuple):
    """One number in a text.

    Args:
        start: where it starts, sign included.
        end: one past its last character.
        value: canonical string; None where these digits are no number by themselves.
    """

    start: int
    end: int
    value: str | None


def scan(text: str) -> Iterator[Written]:
    """Every number in plain text, left to right."""
    position = 0
    while match := _TOKEN.search(text, position):
        position = match.end()
        if match["run"] and not _is_one(match["run"]):
            start = match.start("run")
            for part in match["run"].split(",")[:-1]:
                yield _signed(text, start, start + len(part), _listed(text, start, part))
                start += len(part) + 1
            # What follows the digits belongs to the last number of a list such as "0,1/2": read that one again.
            match = _TOKEN.match(text, start) or match
            position = match.end()
        if match["run"]:
            written = _unsigned(match)
            position = written.end
            yield _signed(text, *written)
        elif match["chain"]:
            yield Written(match.start(), position, None)


def _is_one(run: str) -> bool:
    """Whether digits, dots and commas are one number, or none, rather than a list without spaces."""
    return "," not in run or any(pattern.fullmatch(run) for pattern in (_THOUSANDS, _TURNED))


def _listed(text: str, start: int, part: str) -> str | None:
    """Value of one number of a list without spaces; "000" there is half of something else."""
    after_comma = start > 1 and text[start - 1] == "," and text[start - 2].isdigit()
    if not _DECIMAL.fullmatch(part) or (after_comma and len(part) > 1 and part[0] == "0" and part[1] != "."):
        return None
    return _spell_decimal(part)


def _unsigned(match: re.Match[str]) -> Written:
    run, (start, run_end) = match["run"], match.span("run")
    if match["mixed"] is not None and not _is_mixed(match):
        return Written(start, run_end, _listed(match.string, start, run))
    if _ALGEBRA.match(match.string, match.end()) or match.string[start - 1 : start] == "{":
        return Written(start, match.end(), None)
    readable = _THOUSANDS.fullmatch(run) or _listed(match.string, start, run)
    return Written(start, match.end(), _value(match, run) if readable else None)


def _is_mixed(match: re.Match[str]) -> bool:
    top, bottom = match["top"].lstrip("0"), match["part"].lstrip("0")
    return match["run"].isdigit() and bool(top) and (len(top), top) < (len(bottom), bottom)


def _value(match: re.Match[str], run: str) -> str | None:
    scale = SCALES[match["scale"].lower()] if match["scale"] else 0
    exponent = match["exponent"] or match["power"] or match["ten"]
    if match["clock"]:
        return _clock(match)
    if exponent:
        size = exponent.lstrip("+-0") or "0"
        if len(size) > MAX_EXPONENT_DIGITS or (match["ten"] and run != "10"):
            return None
        signed = -int(size) if exponent.startswith("-") else int(size)
        return _spell_decimal("1" if match["ten"] else run, signed + scale)
    if match["bottom"]:
        value = _spell_fraction(run, match["bottom"], scale=scale)
        return value and _negated(value) if match["under"] else value
    if match["top"] or match["half"]:
        if not run.isdigit():
            return None
        return _spell_fraction(match["top"] or "1", match["part"] or "2", whole=run, scale=scale)
    return _spell_decimal(run, scale)


def _clock(match: re.Match[str]) -> str | None:
    hour = match["run"].lstrip("0") or "0"
    if not hour.isdigit():
        return None
    if match["noon"]:
        if len(hour) > 2 or not 1 <= int(hour) <= 12:
            return None
        hour = str(int(hour) % 12 + 12 * (match["noon"] in "Pp"))
    return hour + match["clock"]


def _negated(value: str) -> str:
    return value if value == "0" else value.removeprefix("-") if value.startswith("-") else f"-{value}"


def _signed(text: str, start: int, end: int, value: str | None) -> Written:
    """Take in the minus before a number, unless it subtracts, spans a range or marks an item of a list."""
    before = text[max(0, start - 4) : start]
    body = before.rstrip()
    if not body.endswith("-") or len(before) - len(body) > 1:
        return Written(start, end, value)
    spaced = body != before
    sign = start - len(before) + len(body) - 1
    left = body[:-1]
    operand = left.rstrip(" ")[-1:]
    if spaced:
        signs = (sign == 0 and start > 0) or (operand != "" and operand in "=:([{≈<>,")
    else:
        signs = not left or left[-1].isspace() or left[-1] in "=:([{≈<>,*/×^"
    if not signs:
        return Written(start, end, value)
    return Written(sign, end, value and _negated(value))
