"""Reading one number, or a list of numbers, in a statement or in a whole text.

A statement is what stands behind an answer marker (`delcore.answers.statements`). It is read where it leaves no
choice: it starts with the number, or with an equation that ends in it, or holds just one number. Of a whole text,
the last number that could be an answer is taken.
"""

import re
from collections import Counter
from itertools import islice

from delcore.answers.plain import plain
from delcore.answers.written import Written, number_key, scan

# What may stand before the number of a statement that starts with it.
_LEAD = re.compile(
    r"""[\s(\[*:"'≈=+]*+
        (?:(?:approximately|about|exactly|around|roughly|only|just|equal\ to|a\ total\ of)\s++)*+
        (?:[A-Za-z]\w{0,2}\s?(?:=|≈)\s*+)?+""",
    re.VERBOSE,
)
_OPERATED = re.compile(
    r"\(\s?[\d(-]|\s*+(?:[+*×÷±<>]|-\s?[\d(\\.]|[-/]\s?[a-z](?![a-z])|/\s?[\d(-]|!\s?[=+*×/-]|x\s*+\d|over\s\d)"
)
# The same with units between: "90 minutes / 450 minutes".
_MEASURED = re.compile(r"(?:\s?[A-Za-z]++){1,3}\s*+[-+*×÷/]\s?[\d($]")
# The same in words: "3 miles divided by 0.8", "12 times 5".
_IN_WORDS = re.compile(r"%?(?:\s?[A-Za-z]++){0,3}?\s(?:(?:divided|multiplied)\sby|times|plus|minus)\s\$?[\d(.]")
# A share of another number: "20% of 50", "1/2 of 60"; but 3 of 5 apples are 3.
_SHARE = re.compile(r"(?:%|/\d++|\bpercent)\s?of\s[\d(.]")
_EQUALS = re.compile("[=≈]")
# Behind a calculation only: "150% of 80, which is 120".
_COMES_TO = re.compile(r"[=≈]|,?\swhich\s(?:is|equals)\b")
# Another number is listed right behind it: "60 to 70", "27, 93", "5 apples and 6 pears", "x = 5 or x = 6".
_LISTED = re.compile(
    r"\s*+to\s++\d|[%°)]?(?:\s?[A-Za-z]++){0,3}?\s*+(?:,|;|&|\band\b|\bor\b)\s*+(?:[A-Za-z]\w?\s?=\s?)?[(+-]?\.?\d"
)
# "5 feet 3 inches" is one quantity in two units, and neither number is it.
_COMPOUND = re.compile(
    r"\s?(?:feet|foot|ft|hours?|hrs?|minutes?|mins?|dollars?|pounds?|lbs?|years?|weeks?|days?)\b[.,]?\s(?:and\s)?"
    r"(?P<less>\d{1,4})\s?(?:in|inch(?:es)?|mins?|minutes?|secs?|seconds?|cents?|oz|ounces?|months?|days?|hours?)\b"
)
_EXCLUDED = re.compile(r"[-+*/×÷^]\s?$|\bnot\b|n't\b")
_UNITS = re.compile(
    r"""[\s%°¢)"']*+(?:(?!not\b)[A-Za-z][A-Za-z'/.-]*+(?:\^\{?-?\d\}?)?+[\s%°¢)"']*+){0,5}[.,;!*\]}]*+\s*+"""
)
_CLOSING_UNITS = re.compile(r"""[\s%°¢)"'\]}]*+(?:[A-Za-z][A-Za-z'/-]*+(?:\^\{?\d\}?)?+[\s)]*+){0,3}""")
_SEPARATOR = re.compile(r",|;|&|\n|\b(?:and|or)\b")
_CLAUSE = re.compile(
    r"\s*+(?:because|since|so|as|which|where|for|with|when|that|if|then|but|while|after|making|giving|hence|thus)\b"
)
# "000" in a list is what is left of a number whose commas went wrong.
_HALF_A_GROUP = re.compile(r"\s*+0\d++(?!:)")
_LABEL = re.compile(r"\s*+(?:[A-Za-z]++[ ]?){1,3}(?:=|:)\s*+")
_PAIR_LABEL = re.compile(r"^\(?[A-Za-z](?:,\s?[A-Za-z])+\)?\s?=")
_BRACKETED = re.compile(r"\s*+[(\[{]([^()\[\]{}]*+)[)\]}][\s.]*+")
_ENUMERATOR = re.compile(
    r"^[ \t]*+(?P<item>\d{1,2})[.)][ \t]++\S|\b(?i:step|equation|problem|question|part)\s(?P<step>\d++)\b", re.MULTILINE
)
# Between two numbers of one list: up to two words of unit, a separator, a label.
_GAP = re.compile(
    r"[%°)]?(?:\s?(?!(?:is|are|was|were)\b)[A-Za-z]++){0,2}?\s*+(?:,\s*+(?:and|or)\b|,|;|&|and\b|or\b)\s*+(?:[A-Za-z]{1,2}\s?=\s?)?[(]?"
)

# ---------------------------------------------------------------- one number


def bare_number(text: str, *, units: re.Pattern[str] = _UNITS) -> str | None:
    """The number that is the whole text, but for its unit: "$35.00", "64 stickers", "x = 5"."""
    text = plain(text).strip()
    value, end = _leading(text)
    return value if value is not None and units.fullmatch(text, end) else None


def stated_number(text: str, *, loose: bool = True) -> str | None:
    """The number of a statement; with `loose` it may stand anywhere if it is the only one."""
    text = plain(text).strip()
    return _stated(text, loose=loose)


def last_number(text: str) -> str | None:
    """The last number of a text that could be an answer."""
    return last_number_at(text)[0]


def last_number_at(text: str) -> tuple[str | None, int]:
    """The same, and where in the text it starts; −1 without one."""
    candidates = _candidates(plain(text))
    return (candidates[-1].value, candidates[-1].start) if candidates else (None, -1)


def has_digit(text: str) -> bool:
    """Whether there is anything to read."""
    return re.search(r"\d", text) is not None


def _leading(text: str) -> tuple[str | None, int]:
    """Value and end of the number a text starts with, where nothing is added to it, compared or listed with it."""
    first = _first(text)
    if first is None:
        return None, 0
    unread = _is_calculated(text, first) or _LISTED.match(text, first.end) or _COMPOUND.match(text, first.end)
    return None if unread else first.value, first.end


def _first(text: str) -> Written | None:
    """The number a text starts with."""
    first, lead = next(scan(text), None), _LEAD.match(text)
    return None if first is None or lead is None or first.start > lead.end() else first


def _is_calculated(text: str, number: Written) -> bool:
    """Whether a number is the first of a calculation."""
    slash = text.find("/", number.start, number.end)
    share = _SHARE.match(text, number.end if slash < 0 else slash)
    return bool(share) or any(pattern.match(text, number.end) for pattern in (_OPERATED, _MEASURED, _IN_WORDS))


def _stated(text: str, *, loose: bool) -> str | None:
    value, _ = _leading(text)
    if value is not None:
        return value
    first = _first(text)
    equals = _COMES_TO if first and _is_calculated(text, first) else _EQUALS
    for side in reversed(equals.split(text)[1:]):
        value, _ = _leading(side.strip())
        if value is not None:
            return value
    return _only(text) if loose else None


def closing_number(text: str) -> str | None:
    """The number that a text ends with but for its unit, as before "is the answer"; None if it is one of several."""
    values = closing_numbers(text)
    return values if values and "," not in values else None


def closing_numbers(text: str) -> str | None:
    """The same with those listed right before it."""
    text = plain(text)
    group = _last_group(text, _candidates(text))
    if not group or not _CLOSING_UNITS.fullmatch(text, group[-1].end):
        return None
    before = text[: group[0].start].rstrip()
    return None if _EXCLUDED.search(before[-20:] + " ") else ", ".join(number.value or "" for number in group)


def _only(text: str) -> str | None:
    found = list(islice(scan(text), 2))
    if len(found) != 1 or _EXCLUDED.search(text[max(0, found[0].start - 20) : found[0].start]):
        return None
    return None if _OPERATED.match(text, found[0].end) else found[0].value


def _candidates(text: str) -> list[Written]:
    """The numbers of a text that could be answers: neither numbers of steps nor parts of expressions."""
    labels = [(match.lastgroup, match.start(match.lastgroup or 0)) for match in _ENUMERATOR.finditer(text)]
    # One line alone that starts with "64." may well be the answer.
    enumerated = sum(kind == "item" for kind, _ in labels) > 1
    skipped = {start for kind, start in labels if kind == "step" or enumerated}
    numbers = [number for number in scan(text) if number.value is not None and number.start not in skipped]
    compound = {at for n in numbers if (m := _COMPOUND.match(text, n.end)) for at in (n.start, m.start("less"))}
    return [number for number in numbers if number.start not in compound]


# ---------------------------------------------------------------- lists of numbers


def bare_numbers(text: str) -> str | None:
    """The numbers that, with their units, are the whole text: "27, 93", "(0,1)", "x = 27 and y = 93"."""
    text = plain(text).strip()
    return _list_of(text, loose=False, bare=True)


def stated_numbers(text: str, *, loose: bool = True) -> str | None:
    """The numbers of a statement in the order written, joined by ", "."""
    return _list_of(plain(text).strip(), loose=loose, bare=False)


def last_numbers(text: str) -> str | None:
    """The last number of a text, with those listed right before it."""
    text = plain(text)
    return ", ".join(number.value or "" for number in _last_group(text, _candidates(text))) or None


def _last_group(text: str, candidates: list[Written]) -> list[Written]:
    group = candidates[-1:]
    for number in reversed(candidates[:-1]):
        gap = text[number.end : group[-1].start]
        if len(gap) > 40 or not _GAP.fullmatch(gap):
            break
        group.append(number)
    return group[::-1]


def _list_of(text: str, *, loose: bool, bare: bool) -> str | None:
    text = _PAIR_LABEL.sub("", text)
    bracketed = _BRACKETED.fullmatch(text)
    if bracketed and "," in bracketed[1]:
        # Within brackets every comma separates: (1,234) is a pair.
        spaced = _read_pieces(bracketed[1].replace(",", ", "), loose=loose, bare=bare)
        if spaced is not None:
            return spaced
    return _read_pieces(text, loose=loose, bare=bare)


def _read_pieces(text: str, *, loose: bool, bare: bool) -> str | None:
    if any(_COMPOUND.match(text, number.end) for number in scan(text)):
        return None
    values: list[str] = []
    for piece in _pieces(text):
        if not has_digit(piece):
            if bare and piece.strip():
                return None
            continue
        if values and not bare and _CLAUSE.match(piece):
            break
        value = _read_piece(piece, loose=loose and not values, bare=bare)
        if value is None or (values and _HALF_A_GROUP.match(piece)):
            return None
        values.append(value)
    return ", ".join(values) or None


def _read_piece(piece: str, *, loose: bool, bare: bool) -> str | None:
    label = _LABEL.match(piece)
    piece = (piece[label.end() :] if label else piece).strip()
    if not bare:
        return _stated(piece, loose=loose)
    value, end = _leading(piece)
    return value if value is not None and _UNITS.fullmatch(piece, end) else None


def _pieces(text: str) -> list[str]:
    """Cut a text at what separates the numbers of a list, never within a number."""
    hidden, done = [], 0
    for number in scan(text):
        hidden += [text[done : number.start], "0" * (number.end - number.start)]
        done = number.end
    cuts = [(m.start(), m.end()) for m in _SEPARATOR.finditer("".join([*hidden, text[done:]]))]
    starts = [0, *(end for _, end in cuts)]
    stops = [*(start for start, _ in cuts), len(text)]
    return [text[start:stop] for start, stop in zip(starts, stops, strict=True)]


def equal_lists(one: str, other: str) -> bool:
    """Whether two canonical lists hold the same numbers, in any order."""
    return Counter(map(number_key, one.split(", "))) == Counter(map(number_key, other.split(", ")))
