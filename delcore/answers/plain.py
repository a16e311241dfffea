r"""One spelling for each sign: Unicode look-alikes, LaTeX spacing and wrappers, markup and currency.

`clean` keeps LaTeX that means something; `plain` goes on to the notation in which `delcore.answers.written` reads
numbers: ASCII digits, "-", "/", "^", "×" and "," between thousands. Every pattern here runs in linear time.
"""

import re
import unicodedata
from collections.abc import Callable
from fractions import Fraction

Replacement = str | Callable[[re.Match[str]], str]

_GROUPING_SPACE = "\N{NO-BREAK SPACE}"

_SIGNS = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-"),
    **dict.fromkeys("\u2044\u2215", "/"),
    **dict.fromkeys("·⋅∙✕✖", "×"),
    **dict.fromkeys("\u00a0\u2007\u2009\u202f", _GROUPING_SPACE),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", ""),
    **dict.fromkeys("\u2018\u2019\u02bc", "'"),
    **dict.fromkeys("\u201c\u201d", '"'),
    "٪": "%",
    "٫": ".",
    "٬": ",",
    "。": ". ",
    "、": ", ",
    "π": r"\pi ",
    "∞": r"\infty ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "∪": r"\cup ",
    "∈": r"\in ",
    "±": r"\pm ",
    "√": r"\sqrt",
    "∅": r"\emptyset ",
}

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))


class _Characters(dict[int, str]):
    """What each character stands for, worked out when first met."""

    def __missing__(self, code: int) -> str:
        self[code] = meaning = _meaning(chr(code))
        return meaning


def _meaning(char: str) -> str:
    if char.isascii():
        return char
    if char in _SIGNS:
        return _SIGNS[char]
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    alike = unicodedata.normalize("NFKC", char)
    if unicodedata.decomposition(char).startswith("<fraction>"):
        # The space makes "9½" the mixed number "9 1/2", not "91/2".
        return " " + alike.replace("\u2044", "/")
    return alike if len(alike) == 1 and alike.isascii() else char


_CHARACTERS = _Characters()


def unify(text: str) -> str:
    """ASCII for digits, minus signs, quotes and full-width letters; `^` and `_` for raised and lowered digits."""
    if text.isascii():
        return text
    text = re.sub("[⁰¹²³⁴-⁹⁺⁻]+", lambda m: "^" + "".join(_SUPERSCRIPTS[c] for c in m[0]), text)
    text = re.sub("[₀-₉]+", lambda m: "_" + "".join(_SUBSCRIPTS[c] for c in m[0]), text)
    # In TeX `\sqrt13` is √1·3; people who write "√13" mean the root of thirteen.
    text = re.sub(r"√\s?(\d+|[a-z])", r"\\sqrt{\1}", text)
    text = text.translate(_CHARACTERS)
    text = re.sub(rf"(?<=\d){_GROUPING_SPACE}(?=\d{{3}}(?!\d))", ",", text)
    return text.replace(_GROUPING_SPACE, " ")


# The calculator marks of GSM8K, whose result follows: <<16-3=13>>13; cut off, it may not, or the mark has no end.
_CALCULATOR = re.compile(
    r"<<(?:[^<>\n]{0,200}=)?\s?(?P<result>[^<>\n=]{0,60})>>(?P<follows>(?=\s?[$€£]?[-+]?\.?\d))?+|<<[-+*/().,=\s\d]*+\Z"
)


def without_calculations(text: str) -> str:
    """The text without the calculator marks of GSM8K; where nothing follows one, its result does.

    >>> without_calculations("It is 16-3=<<16-3=13>>13 and 2*5=<<2*5=10>>. 7*7=<<7*7")
    'It is 16-3=13 and 2*5=10. 7*7='
    """
    if "<<" not in text:
        return text
    return _CALCULATOR.sub(lambda match: "" if match["follows"] is not None else match["result"] or "", text)


_WRAPPERS = r"text(?:bf|it|rm|sc|normal)?|mbox|hbox|math(?:rm|bf|it|sf)|boldsymbol|emph|underline|boxed|fbox"

_LATEX: list[tuple[re.Pattern[str], Replacement]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|textstyle)(?![A-Za-z])", ""),
        (r"\{,\}|,\\!\s*", ","),
        (r"(?<=\d)\\[,;: ]\s*(?=\d{3}(?!\d))", ","),
        (r"\\!", ""),
        # A backslash before it would make it a line break of a matrix.
        (r"(?<!\\)\\[,;:> ]|\\q?quad(?![A-Za-z])|~", " "),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*(?=\{)", r"\\frac{\1}"),
        (r"(\\frac\s*\{[^{}]{0,200}\})\s*(\w)", r"\1{\2}"),
        (r"\\sqrt\s*(\w)", r"\\sqrt{\1}"),
        (r"\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})|\\degree(?![A-Za-z])", "°"),
        (r"(?<!\\)\\(?=[$%#&_])", ""),
    )
]
_WRAPPED = re.compile(rf"\\(?:{_WRAPPERS})\s*\{{([^{{}}]*)\}}")


def clean(text: str) -> str:
    r"""`unify`, and LaTeX without spacing, size and font: `\dfrac43\text{ cm}` becomes `\frac{4}{3} cm`."""
    text = unify(text)
    if "\\" not in text and "{" not in text:
        return text.replace("~", " ")
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    # Wrappers nest; each pass opens one layer, and nobody writes more than a few.
    for _ in range(4):
        text, opened = _WRAPPED.subn(r"\1", text)
        if not opened:
            break
    return text


def _repeating(match: re.Match[str]) -> str:
    r"""`0.1\overline{6}` as the fraction it is."""
    whole, start, period = match.groups()
    shift = 10 ** len(start)
    value = Fraction(int(whole + start), shift) + Fraction(int(period), shift * (10 ** len(period) - 1))
    return f"{value.numerator}/{value.denominator}"


_DECIMAL = r"[+-]?(?:\d[\d,]*+(?:\.\d++)?+|\.\d++)"

_PLAIN: list[tuple[re.Pattern[str], Replacement]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<![\d.])(\d{1,40})\.(\d{0,40})\\overline\s*\{(\d{1,40})\}", _repeating),
        (r"(?<=\d)\s*(?=\\frac)", " "),
        (rf"\\frac\s*\{{\s*({_DECIMAL})\s*\}}\s*\{{\s*({_DECIMAL})\s*\}}", r"\1/\2"),
        (r"\\(?:times|cdot|ast)(?![A-Za-z])", "×"),
        (r"\\div(?![A-Za-z])", "÷"),
        (r"\\approx(?![A-Za-z])|\\simeq(?![A-Za-z])", "≈"),
        (r"\\[()\[\]]", " "),
        (r"\\\{", "("),
        (r"\\\}", ")"),
    )
]


def _grouped(match: re.Match[str]) -> str:
    """Groups of three after spaces are one number if one of them starts with 0: "12 050", but not "2 500"."""
    return match[0].replace(" ", ",") if " 0" in match[0] else match[0]


_MARKUP: list[tuple[re.Pattern[str], Replacement]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=\d)\*\*(?=[+-]?\d)", "^"),
        (r"\*\*+|__+|`|</?[a-z]{1,6}>", ""),
        (r"(?:\b[A-Z]{1,2})?\$|[€£¥₹₩₽¢₦₱₫฿]", ""),
        (r"\b(?:[Rr]s\.?|USD|EUR|GBP|INR|CAD|AUD)\s?(?=-?[\d.])", ""),
        (r"(?<=\d)'(?=\d{3}(?!\d))", ","),
        (r"(?<![\d.,])[1-9]\d{0,2}(?: \d{3})++(?![\d,])", _grouped),
    )
]


def plain(text: str) -> str:
    r"""`clean`, and numbers without LaTeX, markup and currency: `**\$1{,}250**` becomes `1,250`."""
    text = clean(text)
    if "\\" in text:
        for pattern, replacement in _PLAIN:
            text = pattern.sub(replacement, text)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text
