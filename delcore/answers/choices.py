"""Reading option letters as people write them: "C", "(b)", "b)", "**C**", "option C", "I would go with B - …".

A letter that is also a word is an option only where it cannot be the word: lower-case letters in brackets, before a
bracket or at an end; "A" and "I" not before a word that could follow the article or the pronoun.
"""

import re
from typing import NamedTuple

from delcore.answers.plain import clean
from delcore.answers.statements import last_boxes

_LETTER = r"[\s(\[{*_\"'$:.]*+(?:(?i:option|choice|letter)\b[\s(\[{*_\"'$:.]*+)?(?P<letter>[A-Za-z])(?![A-Za-z0-9_'])"
_ANSWER = re.compile(
    r"""(?: \#\#\#\#
          | (?<!each\ )(?<!every\ )\b(?i:answers?|ans)\b(?!\s(?i:choices|options))
            (?:[*_`)\]"'\ \t]*+(?:[:=]|-\s|(?i:is|are|(?:would|must|should|will)\ be)\b,?)
              |[\ ,][^\n.:=?]{0,60}?(?:\bis\b:?|:))?
          | \b(?i:correct|right|best)\s(?i:option|choice|one)\b\s?(?:is\b)?[:=]?
        )"""
    + _LETTER,
    re.VERBOSE,
)
_CALLED_RIGHT = re.compile(
    r"(?<![\w'])(?P<letter>[A-Za-z])[\])*_.:]*+\s(?:is|as|must be|would be|seems)\s(?:the |our |my |a )?"
    r"(?:correct|right|best|final|answer|required answer|correct answer)\b"
)
_CHOSEN = re.compile(
    r"\b(?i:go(?:ing)?\swith|cho+se|pick(?:ed)?|select(?:ed)?|say|guess|"
    r"it(?:'s|\sis|\smust\sbe|\shas\sto\sbe)|(?:choice|guess|pick)\sis)\b" + _LETTER
)
_ALONE = re.compile(r"\W*+(?:(?i:option|choice|letter)\W*+)?(?P<letter>[A-Za-z])\W*+")
_LABELLED = re.compile(r"[\s(\[*_]*+(?P<letter>[A-Za-z])(?P<close>[*_]*+[.)\]][*_]*+|:)[ \t]")
_CANDIDATE = re.compile(
    r"(?<![\w'^\\-])(?<!\b[A-Za-z]\()(?<![=+*/<>]\s)(?P<letter>[A-Za-z])(?![\w'^(]|\s?[=+*/<>_]|-\w)"
)

# After "A" or "I" as an option there is an end, a sign, or one of these words; anything else makes it a word.
_NOT_A_WORD = re.compile(
    r"""[*_"'$`]*+(?:[)\]}.,;:!?]|\s*+$|\s*+\n
        |\s(?:because|since|as|is|which|so|-|–|—|\(|(?:and|or)\s\(?[A-Z]\b|in\ this\ case)(?!\w))""",
    re.VERBOSE,
)
_ANOTHER = re.compile(r"[)\]*_]*+\s?(?:,|/|&|\bor\b|\band\b)\s?(?:(?:or|and)\s)?[(\[*]*+([A-HJ-Z])(?![\w'])(?!\s[a-z])")
_DENIED_BEFORE = re.compile(
    r"(?:\bnot|n't|\bnor|\bthan|\brules? out|\beliminate|\bexclude)[\s(\[*]*+(?:option\s|choice\s|\()?$"
)
_DENIED_AFTER = re.compile(
    r"[)\]*.:]*+\s(?:is|are|was|can|cannot|can't|does|do)\s?(?:not|n't|wrong|incorrect|false|impossible|out)\b"
)


class _Option(NamedTuple):
    letter: str
    start: int
    end: int


def read_option(text: str, options: str) -> tuple[str | None, str | None]:
    """Strict and flexible reading of an option letter in a text."""
    box = ", ".join(last_boxes(text))
    text = re.sub(r"\*\*|__|`", "", clean(text))
    strict = _bare(text, options) or _bare(clean(box), options) or _stated(text, options)
    if strict is None and not box:
        strict = _line(text, options)
    return strict, strict or _last(text, options)


def read_letter(text: str) -> str | None:
    """The letter of an answer that is one and nothing else: "C", "(c)", "option C"."""
    alone = _ALONE.fullmatch(clean(text))
    return alone["letter"].upper() if alone else None


def _bare(text: str, options: str) -> str | None:
    """The whole text is a letter, or a letter before its option: "C", "b)", "(D) None of these"."""
    text = text.strip()
    alone = _ALONE.fullmatch(text)
    if alone:
        return _known(alone["letter"], options)
    labelled = _LABELLED.match(text)
    # "A: …" at the start is how a dialogue marks an answer; two labels are a list of the options.
    if labelled is None or "\n" in text or (labelled["close"] == ":" and labelled["letter"] in "Aa"):
        return None
    others = {match["letter"] for match in _CANDIDATE.finditer(text, labelled.end())} - {"A", "I"}
    return None if others & set(options) else _known(labelled["letter"], options)


def _stated(text: str, options: str) -> str | None:
    """The last letter that is called the answer; failing that, the last one that is chosen."""
    for patterns in ((_ANSWER, _CALLED_RIGHT), (_CHOSEN,)):
        found = [
            (match.start("letter"), option)
            for pattern in patterns
            for match in pattern.finditer(text)
            if (option := _accepted(match, options))
        ]
        if found:
            return max(found)[1]
    return None


def _line(text: str, options: str) -> str | None:
    """A letter alone on the first or the last line."""
    lines = text.strip().splitlines()
    for line in lines[-1:] + lines[:1]:
        alone = _ALONE.fullmatch(line)
        if alone and alone["letter"].isupper():
            return _known(alone["letter"], options)
    return None


def _known(letter: str, options: str) -> str | None:
    return letter.upper() if letter.upper() in options else None


def _accepted(match: re.Match[str], options: str) -> str | None:
    """The option of a match, unless its letter is a word, is denied, or is one of several."""
    letter, text, end = match["letter"], match.string, match.end("letter")
    option = _known(letter, options)
    if option is None or not _is_letter(text, match.start("letter"), letter):
        return None
    another = _ANOTHER.match(text, end)
    if another and another[1] in options and another[1] != option:
        return None
    return None if _denied(text, match.start("letter"), end) else option


def _is_letter(text: str, start: int, letter: str) -> bool:
    bracketed = text[start - 1 : start] in ("(", "[", "{") and text[start + 1 : start + 2] in (")", "]", "}")
    if bracketed or letter in "BCDEFGHJKLMNOPQRSTUVWXYZ":
        return True
    return _NOT_A_WORD.match(text, start + 1) is not None


def _denied(text: str, start: int, end: int) -> bool:
    return bool(_DENIED_BEFORE.search(text[max(0, start - 20) : start]) or _DENIED_AFTER.match(text, end))


def _last(text: str, options: str) -> str | None:
    """The last letter that stands as an option, leaving out a list of all options."""
    found = [
        _Option(option, match.start(), match.end())
        for match in _CANDIDATE.finditer(text)
        if (option := _known(match["letter"], options)) and _stands(text, match)
    ]
    kept = _without_lists(found, options)
    # "A or B" leaves it open.
    joined = {match.start(1) for option in found if (match := _ANOTHER.match(text, option.end))}
    return kept[-1].letter if kept and kept[-1].start not in joined else None


def _stands(text: str, match: re.Match[str]) -> bool:
    letter, start = match["letter"], match.start()
    if not _is_letter(text, start, letter) or _denied(text, start, match.end()):
        return False
    if letter.isupper():
        return True
    # A lower-case letter at the end of a sentence is a variable; in front of a bracket it is an option.
    return text[start + 1 : start + 2] in (")", "]")


def _without_lists(found: list[_Option], options: str) -> list[_Option]:
    """Drop runs such as A) … B) … C) …, which repeat the question."""
    runs: list[list[_Option]] = []
    for option in found:
        if runs and options.index(option.letter) == options.index(runs[-1][-1].letter) + 1:
            runs[-1].append(option)
        else:
            runs.append([option])
    long = min(3, len(options))
    return [option for run in runs if len(run) < long or run[0].letter != options[0] for option in run]
