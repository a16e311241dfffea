r"""LaTeX answers: reading them, and the tidy string that stands for them.

A canonical expression is a canonical number where it is one ("3/4"), else LaTeX without spacing, size, fonts and
trailing units, its lists joined by ", ": `\left( 3, \dfrac\pi 2\right)` becomes `(3, \frac{\pi}{2})`. Within brackets
every comma separates, so (1,234) is a pair; outside, 58,500 is a number and 3,11,33 are three.
"""

import re
from typing import NamedTuple

from delcore.answers.numbers import bare_number, closing_number, last_number_at, stated_number
from delcore.answers.plain import clean

MAX_LENGTH = 2_000
"""A longer expression that is no number is kept as it stands, not taken apart."""

_TRAILING_UNIT = re.compile(
    r"(?<=[\d}])\s*+\\(?:text|mbox|textrm|textnormal)\s?\{[^{}]*+\}\s?(?:\^\s?\{?\d\}?)?+[\s$.]*+$"
)
_FUNCTIONS = "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln|exp"
_TIDY: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=[\d)])\*\*(?=[-\d({])", "^"),
        (r"\*\*|\$|°|%|(?<!\\)\\[()\[\]]", ""),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"\\(?:leqslant|leq)(?![A-Za-z])|<=", r"\\le "),
        (r"\\(?:geqslant|geq)(?![A-Za-z])|>=", r"\\ge "),
        (r"\\neq(?![A-Za-z])|!=", r"\\ne "),
        (rf"(?<![\\A-Za-z])({_FUNCTIONS}|pi|infty)(?![A-Za-z])", r"\\\1 "),
        (r"(?<![\\A-Za-z])sqrt\s?\(([^()]*+)\)", r"\\sqrt{\1}"),
        (r"([\^_])\{(\w)\}", r"\1\2"),
        (r"\s++", " "),
        # The space after a comma stays: "12,342" is one number and "12, 342" are two.
        (r" ?([-+=*/^_;(){}\[\]<>|]) ?", r"\1"),
        (r" ,", ","),
        # TeX ends a command's name at the next sign; a space after it is needed before a letter only.
        (r"(\\[A-Za-z]++) (?![A-Za-z])| (?=\\[A-Za-z])", r"\1"),
    )
]
_UNITS = re.compile(
    r"(?:\s?(?:[A-Za-z]{4,}+|[cmk]m|[mk]?g|m[lL]|ft|in|yd|lbs?|oz|hrs?|min|sec|mph|am|pm|days?|men|sq)\b\.?"
    r"(?:\^\{?\d\}?)?+){0,3}[\s.]*+"
)
# "(10.50) dollars", and a group of TeX: {10.50}
_WRAPPED_NUMBER = re.compile(r"[({](-?[\d.]++)[)}]\s?([A-Za-z .]*+)")
_GROUPED = re.compile(r"[(\[](\d{1,3}(?:,\d{3})*,0\d\d(?:,\d{3})*)[)\]]")
_TOKENS = re.compile(r"\\(?:begin|end)\{\w+\*?\}|\\[A-Za-z]++|\\.|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])|.", re.DOTALL)
_OPENING = {"(", "[", "{", "\\{", "\\langle"}
_CLOSING = {")", "]", "}", "\\}", "\\rangle"}
# A quantity: x, f(x), \theta, p(5), P(1,2), \sin D, m\angle ABC, |AB|, \overline{AB}.
_NAME = re.compile(
    r"(?:\\?[A-Za-z]+|[A-Za-z])(?:_(?:\w|\{\w+\}))?'*(?:\((?:[A-Za-z\\,]+|-?[\d.,/]+)\))?"
    rf"|m?\\(?:{_FUNCTIONS}|angle) ?(?:[A-Z]{{1,3}}|\\[a-z]+)|\|[A-Z]{{2}}\||\\overline\{{[A-Z]{{2}}\}}"
)
_MATRIX = re.compile(r"\\begin\{([pb]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)
# From the loosest sign to the tightest.
_LEVELS = (
    ("union", (r"\cup",)),
    ("list", (",", ";", "and", "or")),
    ("relation", ("=",)),
    ("relation", (r"\in",)),
)


class Shape(NamedTuple):
    r"""What an expression is made of at its outermost level.

    Args:
        kind: "number", "union", "list", "relation", "matrix" or "leaf".
        items: the parts; of a leaf or a number the expression itself.
        brackets: of a list, its opening and closing bracket, "" for a bare one; of a matrix, its size; else the sign
            between the items.
    """

    kind: str
    items: tuple[str, ...]
    brackets: str = ""


# ---------------------------------------------------------------- the tidy string


def canonical(text: str) -> str | None:
    """The tidy string of an expression; None if nothing is left of it, or a box was cut short."""
    text = tidy(text)
    if re.search(r"\\f?box(?:ed)?\s?\{", text):
        return None
    number = _number(text)
    if number is not None or len(text) > MAX_LENGTH:
        return number or text
    return _render(text, depth=4) or None


def tidy(text: str) -> str:
    """LaTeX without spacing, size, fonts, delimiters and a trailing unit."""
    text = clean(_TRAILING_UNIT.sub("", text))
    for pattern, replacement in _TIDY:
        text = pattern.sub(replacement, text)
    return text.lstrip(" ,;:").rstrip(" .,;:")


def _number(text: str) -> str | None:
    grouped = _GROUPED.fullmatch(text)
    if grouped:
        text = grouped[1]
    elif wrapped := _WRAPPED_NUMBER.fullmatch(text):
        text = f"{wrapped[1]} {wrapped[2]}".strip()
    if "=" in text or ("," in text and text[:1] in "([\\"):
        return None
    return bare_number(text, units=_UNITS)


def _render(text: str, depth: int) -> str:
    whole = shape(text)
    if whole.kind in ("leaf", "number", "matrix") or depth == 0:
        return whole.items[0] if whole.kind in ("leaf", "number") else text
    items = [_render(item, depth - 1) for item in whole.items]
    if whole.kind in ("union", "relation"):
        return _after_sign(whole.brackets, items)
    opening, closing = whole.brackets.split(" ") if whole.brackets else ("", "")
    return opening + ", ".join(items) + closing


def _after_sign(sign: str, items: list[str]) -> str:
    first, *others = items
    return first + "".join(sign + " " * (sign != "=" and item[:1].isalpha()) + item for item in others)


# ---------------------------------------------------------------- taking an expression apart


def shape(text: str) -> Shape:
    """Take a tidy expression apart at its outermost level."""
    text = text.strip()
    number = _number(text)
    if number is not None:
        return Shape("number", (number,))
    matrix = _MATRIX.fullmatch(text)
    if matrix and r"\begin" not in matrix[2]:
        rows = [row.split("&") for row in re.split(r"\\\\", matrix[2].strip().removesuffix(r"\\"))]
        return Shape("matrix", tuple(c.strip() for row in rows for c in row), " ".join(str(len(row)) for row in rows))
    for kind, separators in _LEVELS:
        items = _split(text, separators)
        if len(items) > 1:
            return Shape(kind, tuple(items), "" if kind == "list" else separators[0])
    return _bracketed(text)


def _bracketed(text: str) -> Shape:
    opening = text[:2] if text.startswith("\\{") else text[:1]
    closing = text[-2:] if text.endswith("\\}") else text[-1:]
    inner = text[len(opening) : len(text) - len(closing)]
    if opening not in _OPENING or closing not in _CLOSING or not _balanced(inner):
        return Shape("leaf", (text,))
    items = _split(inner, (",", ";"))
    if opening == "(" and closing == ")" and len(items) == 1 and inner:
        return shape(inner)
    if len(items) > 1 or opening == "\\{":
        return Shape("list", tuple(items), f"{opening} {closing}")
    return Shape("leaf", (text,))


def _depths(text: str) -> list[tuple[int, int, str]]:
    """Position, depth after it, and each token of an expression."""
    depth, found = 0, []
    for match in _TOKENS.finditer(text):
        token = match[0]
        depth += (token in _OPENING or token.startswith(r"\begin")) - (token in _CLOSING or token.startswith(r"\end"))
        found.append((match.start(), depth, token))
    return found


def _balanced(text: str) -> bool:
    depths = [depth for _, depth, _ in _depths(text)]
    return min(depths, default=0) >= 0 and (not depths or depths[-1] == 0)


def _split(text: str, separators: tuple[str, ...]) -> list[str]:
    """The parts between separators that stand outside all brackets; empty parts are left out."""
    parts, start = [], 0
    for position, depth, token in _depths(text):
        if depth == 0 and token in separators:
            parts.append(text[start:position])
            start = position + len(token)
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def is_name(text: str) -> bool:
    r"""Whether the left side of an equation only names what is on the right: x, f(x), \theta."""
    return _NAME.fullmatch(text) is not None


# ---------------------------------------------------------------- reading

_CHUNK = re.compile(
    r"\$\$(?P<display>[^$]{1,2000})\$\$|\$(?P<inline>(?!\s)[^$\n]{1,2000}(?<!\s))\$(?!\d)"
    r"|\\\((?P<round>(?:[^\\]|\\(?!\))){1,1000}+)\\\)|\\\[(?P<square>(?:[^\\]|\\(?!\])){1,1000}+)\\\]"
)
_LISTS_ON = re.compile(r"\s*+(?:,|;|,?\s*+(?:and|or))\s*+")
_CLAUSE = re.compile(
    r",?\s++(?:because|since|so|as|which|where|for|with|when|if|then|but|hence|thus|after|by)\b|,\s++[a-z]{3,}"
)
# "I hope the answer is correct" states nothing.
_VERDICT = re.compile(
    r"\W*(?:not\s)?(?:correct|right|wrong|incorrect|clear|obvious|unknown|(?:as\s)?follows|below|above)\W*"
)
_CONCLUDES = re.compile(r"(?:so|thus|hence|then|therefore)\b", re.IGNORECASE)
# Numbers, perhaps with units, the signs between them, and no unknown.
_CALCULATION = re.compile(
    r"(?:(?<=\d)\s?[a-z]{4,}+(?=\s?[-+*/=)×÷]|\Z)|[\d\s.=+*/^!(){}×÷-]"
    r"|\\(?:frac|sqrt|times|cdot|div|binom)(?![A-Za-z]))++"
)
_WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,}+")


def bare_expression(text: str) -> str | None:
    """The expression that is the whole text; "So $x = 5$." is a sentence."""
    text = text.strip()
    return _result(text) if _is_expression(text) and not _CONCLUDES.match(text) else None


def hashed_expression(text: str) -> str | None:
    """The expression behind `####`; words there are a heading."""
    return None if _words(text) else bare_expression(text)


def stated_expression(text: str) -> str | None:
    """The expression of a statement: its first formula, or all of it, or its number."""
    text = re.sub(r"^(?:the|an?)\s", "", text.strip())
    chunk = _CHUNK.search(text)
    if chunk and not re.search(r"[\d\\]", text[: chunk.start()]):
        return _result(_listed(text, chunk))
    phrase = _CLAUSE.split(text, maxsplit=1)[0]
    if _is_expression(phrase) and not _VERDICT.fullmatch(phrase):
        return _result(phrase)
    return stated_number(text)


def last_expression(text: str) -> str | None:
    """The last formula or number of a text, whichever comes later."""
    chunks = [m for m in _CHUNK.finditer(text) if not re.fullmatch(r"\W*[A-Za-z]?\W*", _inside(m))]
    number, position = last_number_at(_CHUNK.sub(lambda m: "\0" * len(m[0]), text))
    if chunks and chunks[-1].start() > position:
        return _result(_inside(chunks[-1]))
    return number


def closing_expression(text: str) -> str | None:
    """The formula, or else the number, that a text ends with."""
    chunks = list(_CHUNK.finditer(text))
    if chunks and not text[chunks[-1].end() :].strip():
        return _result(_inside(chunks[-1]))
    return closing_number(text)


def _result(text: str) -> str | None:
    r"""The canonical expression; of a calculation, as `\frac{125}{5} = 25`, what it comes to."""
    whole = canonical(text)
    calculation, _, result = (whole or "").rpartition("=")
    return _number(result) or whole if _CALCULATION.fullmatch(calculation) else whole


def _inside(chunk: re.Match[str]) -> str:
    return chunk[chunk.lastgroup or 0]


def _listed(text: str, chunk: re.Match[str]) -> str:
    """A formula and those that are listed after it."""
    parts, end = [_inside(chunk)], chunk.end()
    for following in _CHUNK.finditer(text, end):
        if not _LISTS_ON.fullmatch(text, end, following.start()):
            break
        parts.append(_inside(following))
        end = following.end()
    return ", ".join(parts)


def _words(text: str) -> list[str]:
    """The words of a text that are neither joints nor functions nor the unit of a number."""
    if bare_number(text, units=_UNITS) is not None:
        return []
    return [w for w in _WORD.findall(clean(text)) if not re.fullmatch(rf"and|or|pi|sqrt|{_FUNCTIONS}", w)]


def _is_expression(text: str) -> bool:
    """Not prose: one line of signs with at most one word, or no more than two words."""
    if "\n" in text or "#" in text:
        return False
    words = _words(text)
    signs = not words or re.search(r"[\d\\]", text) is not None
    return len(words) <= 1 if signs else len(text.split()) <= 2
