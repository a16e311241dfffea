r"""Whether two expressions mean the same.

They are compared part by part: unions and bare or braced lists in any order, tuples and intervals in order and with
their brackets, matrices entry by entry, numbers exactly, words as words. Only what is left, such as
`\frac{\sqrt{3}}{3}` against `\frac{1}{\sqrt{3}}`, goes to `math-verify`, with decimals as fractions, and only if
nothing in it can grow without bounds. Text never reaches `eval`.

The two are compared in an order of their own, so equality is symmetric.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import accumulate, repeat
from typing import Any

from delcore.answers.expressions import Shape, canonical, is_name, shape
from delcore.answers.written import number_key
from delcore.errors import InputError

MAX_SYMBOLIC_LENGTH = 400
"""Longer expressions are compared as text."""

MAX_DEPTH = 10
"""Expressions with brackets nested deeper are compared as text; the parser's time grows steeply with depth."""

MAX_EXPONENT = 10_000
"""Expressions whose whole exponents multiply to more than this are compared as text."""

MAX_LIST = 20
"""Longer lists are compared in the order written."""

CALL_BUDGET = 3_000_000
"""Function calls that one comparison may make; beyond, the two have not been shown to be equal."""

PRECISION = 40
"""Decimal places to which `math-verify` works out a difference."""


def equal_expressions(one: str, other: str) -> bool:
    """Whether two expressions mean the same; see the module."""
    first, second = canonical(one), canonical(other)
    if first is None or second is None:
        return False
    with _budget(CALL_BUDGET):
        return _same(min(first, second), max(first, second), depth=4)
    return False  # out of budget


def _same(one: str, other: str, depth: int) -> bool:
    if one == other:
        return True
    a, b = shape(one), shape(other)
    if a.kind == b.kind == "number":
        return number_key(a.items[0]) == number_key(b.items[0])
    if depth == 0:
        return False
    if (a.kind == "relation") != (b.kind == "relation"):
        relation, value = (a, other) if a.kind == "relation" else (b, one)
        return is_name(relation.items[0]) and _same(relation.items[-1], value, depth - 1)
    if a.kind == b.kind and a.kind in ("relation", "matrix"):
        return _same_in_order(a, b, depth) or (a.kind == "relation" and _same_leaf(one, other))
    if "matrix" in (a.kind, b.kind):
        return False
    if a.kind == b.kind in ("union", "list") or r"\pm" in one + other:
        return _same_lists(a, b, depth)
    if "list" in (a.kind, b.kind) and not _compares(one + other):
        return False
    return _same_leaf(one, other)


def _compares(text: str) -> bool:
    """Whether there is an inequality, which may be the interval that it is compared with."""
    return re.search(r"[<>]|\\[lg]e(?![A-Za-z])", text) is not None


# ---------------------------------------------------------------- lists


def _same_lists(a: Shape, b: Shape, depth: int) -> bool:
    first, second = _items(a), _items(b)
    if len(first) != len(second):
        return False
    unordered = {a.brackets, b.brackets} <= {"", r"\{ \}", r"\cup"}
    alike = a.brackets == b.brackets or unordered or {a.brackets, b.brackets} == {"", "( )"}
    if not alike:
        return False
    if not unordered or len(first) > MAX_LIST:
        return all(_same(x, y, depth - 1) for x, y in zip(first, second, strict=True))
    return _match_up(first, second, depth - 1)


def _items(whole: Shape) -> list[str]:
    r"""The elements, with a ± b as the two that it stands for."""
    items: list[str] = []
    for item in whole.items:
        signs = ("+", "-") if r"\pm" in item and not item.startswith("(") else ("",)
        items += [re.sub(r"\\pm ?", sign, item).lstrip("+") if sign else item for sign in signs]
    return items


def _match_up(first: Sequence[str], second: Sequence[str], depth: int) -> bool:
    left = list(second)
    for item in first:
        match = next((i for i, other in enumerate(left) if _same(min(item, other), max(item, other), depth)), None)
        if match is None:
            return False
        del left[match]
    return True


def _same_in_order(a: Shape, b: Shape, depth: int) -> bool:
    if a.kind == "matrix" and a.brackets != b.brackets or len(a.items) != len(b.items):
        return False
    return all(_same(x, y, depth - 1) for x, y in zip(a.items, b.items, strict=True))


# ---------------------------------------------------------------- single expressions

_BASED = re.compile(r"-?\w+_\{?\d+\}?")


def _same_leaf(one: str, other: str) -> bool:
    if any(_is_text(text) or _BASED.fullmatch(text) for text in (one, other)):
        return _letters(one) == _letters(other)
    return _symbolic(one, other)


def _is_text(text: str) -> bool:
    """Whether it holds a word: math-verify would read "east" as a product, the same as "seat"."""
    return re.search(r"[A-Za-z]{3,}", re.sub(r"\\(?:begin|end)\{\w+\}|\\[A-Za-z]+", " ", text)) is not None


def _letters(text: str) -> str:
    return re.sub(r"[\s(){}\[\].\\]", "", text).casefold()


def _symbolic(one: str, other: str) -> bool:
    if not (_is_bounded(one) and _is_bounded(other)):
        return False
    parse, verify = _math_verify()
    parsed = [parse(_with_fractions(text)) for text in (one, other)]
    return all(parsed) and verify(*parsed)


@cache
def _math_verify() -> tuple[Callable[[str], Any], Callable[[Any, Any], bool]]:
    with _unlimited():
        try:
            from latex2sympy2_extended import NormalizationConfig
            from math_verify import LatexExtractionConfig, parse, verify
            from sympy.core.cache import clear_cache
        except ImportError as error:
            raise InputError("Comparing LaTeX answers needs a package more: pip install math-verify") from error
        # Its time limits are signals, which work in the main thread only; they are off, and it would warn of that.
        logging.getLogger("math_verify").setLevel(logging.ERROR)
        # "units" would drop the t of 5t.
        tidying = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none")
        config = [LatexExtractionConfig(boxed_match_priority=-1, normalization_config=tidying)]

        def parsed(latex: str) -> Any:
            return parse(f"${latex}$", config, fallback_mode="no_fallback", parsing_timeout=None)

        def verified(one: Any, other: Any) -> bool:
            # What earlier comparisons left in the cache would make this one cheaper, and its result depend on them.
            clear_cache()
            return verify(one, other, numeric_precision=PRECISION, allow_set_relation_comp=True, timeout_seconds=None)

        # The first use builds tables, which no later comparison should pay for.
        verified(parsed("x+1"), parsed("1+x"))
        return parsed, verified


def _with_fractions(text: str) -> str:
    """Decimals as exact fractions; math-verify would round them."""
    return re.sub(r"(\d*)\.(\d+)", lambda m: rf"\frac{{{m[1]}{m[2]}}}{{1{'0' * len(m[2])}}}", text)


# ---------------------------------------------------------------- bounds

_GROWS = re.compile(r"\\(?:sum|prod|i*int|lim)(?![A-Za-z])|!!|[)}\]]\s?!|\d{4}\s?!|\)_|\d{31}")
_COUNTS = re.compile(r"!|\\(?:binom|choose|[dt]binom)(?![A-Za-z])")


def _is_bounded(text: str) -> bool:
    """Whether working it out stays small: no sums, no towers of powers, no factorials of large numbers."""
    if len(text) > MAX_SYMBOLIC_LENGTH or _depth(text) > MAX_DEPTH:
        return False
    if _GROWS.search(text) or (_COUNTS.search(text) and re.search(r"\d{4}", text)):
        return False
    letters = len(set(re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", text))))
    product = 1
    for match in re.finditer(r"\^", text):
        exponent = _argument(text, match.end())
        if re.search(r"[\de)}\]]\^|!", exponent):
            return False
        for number in re.findall(r"\d+", exponent):
            product *= max(1, int(number))
        # A bracket to a power is multiplied out.
        if text[match.start() - 1 : match.start()] in (")", "}", "]") and product > (200 if letters <= 2 else 12):
            return False
    return product <= MAX_EXPONENT


def _depth(text: str) -> int:
    depths = accumulate((char in "([{") - (char in ")]}") for char in text)
    return max(0, *depths) if text else 0


def _argument(text: str, start: int) -> str:
    """The group or sign that starts there."""
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth <= 0:
            return text[start : position + 1]
    return text[start:]


# ---------------------------------------------------------------- the budget


class _OutOfBudget(BaseException):
    """Not an `Exception`: sympy and math-verify catch those."""


def _steps(count: int) -> Iterator[None]:
    yield from repeat(None, count)
    raise _OutOfBudget


@contextmanager
def _budget(calls: int) -> Iterator[None]:
    """Leave what runs inside after so many function calls; unlike a time limit, in any thread and alike everywhere.

    A run under a profiler is not limited, since Python has one place for both.
    """
    steps = _steps(calls)
    if sys.getprofile() is not None:
        yield
        return
    sys.setprofile(lambda frame, event, argument: next(steps) if event in ("call", "c_call") else None)
    try:
        yield
    except _OutOfBudget:
        pass
    finally:
        sys.setprofile(None)


@contextmanager
def _unlimited() -> Iterator[None]:
    paused = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(paused)
