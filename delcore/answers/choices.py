"""Reading option letters as people write them: "C", "(b)", "b)", "**C**", "option C", "I would go with B - …".

A letter that is also a word is an option only where it cannot be the word: lower-case letters in brackets, before a
bracket or at an end; "A" and "I" not before a word that could follow the article or the pronoun. A letter that nobody
states to be the answer is no option either where it names something: "Machine B", "point C", "B takes 5 days".
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
    r"(?<![\w'^\\-])(?<!\b[A-Za-z]\()(?<![A-Za-z]/)(?<![=+*/<>]\s)(?P<letter>[A-Za-z])(?![\w'^(]|\s?[=+*/<>_]|-\w)"
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

# A letter behind a noun is a name. Which words are nouns nobody can tell, but for some that benchmarks use, for those
# written with a capital, and for those that stand before several letters: "the machine A … the machine B".
_WORD_BEFORE = re.compile(r"(?<![A-Za-z])(?P<word>[A-Za-z]{3,}+)\s\Z")
_THINGS = frozenset(
    """account alloy angle bag bank basket block boat box branch brand bus camp candidate car card city class club coin
    column company container country cup die edge engine equation event factory family figure firm function fund game
    gate girl glass graph group hose house item jar line list machine man market matrix mixture model node number office
    part partner path pen person pipe plan plane plant player point pool product project pump region road room row
    school score section segment series set shelf ship shop side sphere square station store student system table tank
    tap team town train triangle truck type urn valve variable vertex vessel village woman worker""".split()
)
_NO_THINGS = frozenset(
    """alternative and answer answers are because been being best both but choice choices choose chose clearly correct
    either equal equals final for from gave get gets give gives giving got guess hence just leave leaves leaving letter
    like likely made make makes match matches maybe mean means must namely neither nor not only option options perhaps
    pick picked response right say says select selected should since that the then therefore this thus was with would
    """.split()
)
_ACTS = re.compile(
    r"\s(?:(?:can|could|will|would|may|might)\s(?!be\b)|(?:had|has|have)\s(?!to\sbe\b)"
    r"|(?:alone|together|takes?|took|gets?|got|gave|gives|does|did|needs|needed|works?|worked|runs?|ran|travels?|started"
    r"|starts|finishes|finished|fills|filled|earns|earned|invests|invested|receives|received|owes|buys|bought|sells|sold"
    r"|pays|paid|wins|won|draws|drew|walks|walked|drives|drove|left|joins|joined|scores|scored|produces|produced)\b)"
)

# "A:" with nothing behind it is how a dialogue announces an answer that does not come.
_EMPTY_PREFIX = re.compile(r"^[ \t]*+[Aa][ \t]*+:[ \t]*+$", re.MULTILINE)
# The label of an option with its text, or a letter that ends its line.
_ITEM = re.compile(
    r"(?<![\w'^\\-])(?<!\b[A-Za-z]\()[(\[]?(?P<letter>[A-Z])(?:[)\]][.:]?|[.:](?=\s)|(?P<alone>)(?=[ \t]*+$))",
    re.MULTILINE,
)
# What makes a sentence of the text between two labels on one line, where a list has but the text of an option.
_PROSE = re.compile(
    r"\b(?i:answers?|is|are|was|were|isn't|can|would|could|must|should|so|but|not|because|since|therefore|thus|hence"
    r"|then|than|while|if|gives?|makes?|means|choose|pick)\b|^\s*+(?:and|or|,)|(?:\band|\bor|\bwith)\s*+$|[.?!]\s++[A-Za-z]"
)


class _Option(NamedTuple):
    letter: str
    start: int
    end: int


def read_option(text: str, options: str) -> tuple[str | None, str | None]:
    """Strict and flexible reading of an option letter in a text."""
    box = ", ".join(last_boxes(text))
    text = re.sub(r"\*\*|__|`", "", clean(text))
    told = _EMPTY_PREFIX.sub("", text)
    strict = _bare(told, options) or _bare(clean(box), options) or _stated(text, options)
    if strict is None and not box:
        strict = _line(told, options)
    return strict, strict or _last(told, options)


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
    listed = _listed(text, options)
    for patterns in ((_ANSWER, _CALLED_RIGHT), (_CHOSEN,)):
        found = [
            (match.start("letter"), option)
            for pattern in patterns
            for match in pattern.finditer(text)
            if match.start("letter") not in listed and (option := _accepted(match, options))
        ]
        if found:
            return max(found)[1]
    return None


def _line(text: str, options: str) -> str | None:
    """A letter alone on the first or the last line."""
    text = text.strip()
    listed = _listed(text, options)
    lines = list(re.finditer(r"[^\n]++", text))
    for line in lines[-1:] + lines[:1]:
        alone = _ALONE.fullmatch(text, line.start(), line.end())
        if alone and alone["letter"].isupper() and alone.start("letter") not in listed:
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
    """The last letter that stands as an option, leaving out options that are only listed."""
    listed = _listed(text, options)
    found = [
        _Option(option, match.start(), match.end())
        for match in _CANDIDATE.finditer(text)
        if (option := _known(match["letter"], options)) and _stands(text, match)
    ]
    kept = [option for option in _without_lists(found, options) if option.start not in listed]
    # "A or B" leaves it open.
    joined = {match.start(1) for option in found if (match := _ANOTHER.match(text, option.end))}
    return kept[-1].letter if kept and kept[-1].start not in joined else None


def _stands(text: str, match: re.Match[str]) -> bool:
    letter, start = match["letter"], match.start()
    if not _is_letter(text, start, letter) or _denied(text, start, match.end()) or _is_name(text, start):
        return False
    if letter.isupper():
        return True
    # A lower-case letter at the end of a sentence is a variable; in front of a bracket it is an option.
    return text[start + 1 : start + 2] in (")", "]")


def _is_name(text: str, start: int) -> bool:
    """Whether a letter without any mark names a thing or a person of the question."""
    if _ACTS.match(text, start + 1):
        return True
    before = _WORD_BEFORE.search(text[max(0, start - 30) : start])
    if before is None or text[start + 1 : start + 2] == ")":
        return False
    word = before["word"]
    if word.lower() in _NO_THINGS or word.lower().endswith("ly"):
        return False
    others = {match[1] for match in re.finditer(rf"(?i:\b{word})\s([A-Z])(?![\w'])", text)}
    return word.lower() in _THINGS or word[0].isupper() or len(others) > 1


def _listed(text: str, options: str) -> set[int]:
    """Where the letters of a list stand: two or more options in a row, each with its label and its text."""
    runs: list[list[re.Match[str]]] = []
    for item in _ITEM.finditer(text):
        if runs and _goes_on(runs[-1][-1], item, options):
            runs[-1].append(item)
        else:
            runs.append([item])
    return {item.start("letter") for run in runs if _is_list(run) for item in run}


def _goes_on(item: re.Match[str], following: re.Match[str], options: str) -> bool:
    """Whether a label is that of the next option, behind nothing but the text of this one."""
    if item["letter"] + following["letter"] not in options or item["alone"] != following["alone"]:
        return False
    before, line, start = (item.string[item.end() : following.start()]).rpartition("\n")
    if line:
        return not start.strip() and "\n" not in before.strip()
    return bool(start.strip()) and not _PROSE.search(start)


def _is_list(run: list[re.Match[str]]) -> bool:
    """Two options on one line, or at the start of two lines; where words come before the first, three."""
    text = run[0].string
    one_line = len(run) > 1 and "\n" not in text[run[0].end() : run[1].start()]
    starts_line = not text[text.rfind("\n", 0, run[0].start()) + 1 : run[0].start()].strip()
    return len(run) > 2 or (len(run) == 2 and (one_line or starts_line))


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
