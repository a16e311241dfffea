r"""Where a text states its answer: boxes, `####`, "the answer is", and where an invented next question starts."""

import re
from typing import NamedTuple

_NEXT_QUESTION = re.compile(
    r"""^[#>*_\ \t]*+
        (?: (?:question|problem|exercise|instruction|q)(?![A-Za-z])[\ \t]*+(?:\#?\d{1,4}(?:[:.)]|\*\*) | [*_\ \t]*+:)
          | (?:user|human|student)\b[*_\ \t]*+:
          | (?<=[#][#\ ])(?:question|problem|instruction)s?[*_\ \t]*+$ )""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)


def cut_at_next_question(text: str) -> str:
    r"""What comes before the next question that a model makes up after its answer.

    The cut is made only where a line starts with "Question:", "Q:", "Problem 2.", "Exercise:", "Instruction:",
    "User:" or "Human:" (with or without `#`, `>` and `*` in front), and only after something that is not blank. The
    word in the middle of a line is part of an answer.

    >>> cut_at_next_question("First restate the Question. 7*10=70\n#### 70\n\nQuestion: A car…")
    'First restate the Question. 7*10=70\n#### 70\n\n'
    """
    return cut_before(_NEXT_QUESTION, text)


def cut_before(marker: re.Pattern[str], text: str) -> str:
    """What comes before the first marker that has something before it that is not blank."""
    for match in marker.finditer(text):
        if text[: match.start()].strip():
            return text[: match.start()]
    return text


_DRAWING = re.compile(r"\[asy\]|\\begin\{asy\}")
_DRAWN = re.compile(r"\[/asy\]|\\end\{asy\}")
# What no drawing holds ends one that is not closed.
_NOT_DRAWN = re.compile(r"\\f?box(?:ed)?\b|####|\banswers?\b", re.IGNORECASE)


def without_drawings(text: str) -> str:
    r"""The text without Asymptote code, whose numbers and letters are no answers; each drawing leaves an empty line.

    A drawing that is not closed goes on to the next box, `####` or "answer", or to the end.

    >>> without_drawings("See [asy] draw((0,0)--(4,3)); [/asy] It is 5.")
    'See \n\n It is 5.'
    """
    kept, done = [], 0
    closed = [match.end() for match in _DRAWN.finditer(text)][::-1]
    for drawing in _DRAWING.finditer(text):
        if drawing.start() < done:
            continue
        while closed and closed[-1] < drawing.end():
            closed.pop()
        kept.append(text[done : drawing.start()])
        unclosed = None if closed else _NOT_DRAWN.search(text, drawing.end())
        done = closed[-1] if closed else unclosed.start() if unclosed else len(text)
    return "\n\n".join([*kept, text[done:]])


class Statement(NamedTuple):
    """A stretch of text that states an answer.

    Args:
        text: the stretch, without its marker.
        hashed: it stands behind `####`. That is also the mark of a heading, so its answer must come first.
        before: it stands before the words, as in "5 is the answer", and its answer comes last.
    """

    text: str
    hashed: bool
    before: bool = False


# "The answer is", "Answer:", "ANSWER - ", "answer to the second part should be", and a heading "Final answer". What the
# marker ends with belongs to it, a minus sign never does.
_MARKER = re.compile(
    r"""(?: ^[\#*\ \t]*+(?:the\ )?(?:final\ )?answer[*:\ \t]*+\n
          | (?P<hashes>\#\#\#\#(?!\#))
          | (?<![/\w])(?:answers?|ans)\b(?!\ (?:questions?|key|sheet)\b)(?:</\w{1,6}>)?[*_`)\]"'\ \t]*+
            (?: [:=] | (?:is|are|be)\b | \s[-–—]\s
              | (?:,|(?<=\s))[^\n.:?]{0,60}?\b(?:is|are|be|equals?)\b
              | (?:,|(?<=\s))[^\n.:=?]{0,40}?: ) )
        [*_:\ \t]*+\s{0,4}""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
# "0.25 is the answer", "27 and 93 are the final answers"; the sentence up to these words is the statement.
_BEFORE = re.compile(
    r"(?<=[\w)}\]$%°*])\s(?:is|are|(?:must|would|should|will)\sbe)\s(?:the|our|my)\s(?:(?:final|correct|right|required)\s)*+"
    r"answers?\b(?!\s(?:choices?|options?|keys?|sheets?)\b)(?P<rest>[^.?!\n]*+\??)",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(r"\b(?:if|whether|suppose|assume|unless|not|neither|nor)\b|n't\b", re.IGNORECASE)
_BRACES = re.compile(r"\\{1,2}(?:boxed|fbox)\s?(?P<box>\{|(?P<bare>[^\s{}$\\]+))|\\[\\{}]|(?P<open>\{)|(?P<close>\})")
_SENTENCE_END = re.compile(r"(?<!Rs)(?<!approx)(?<!No)[.?](?=\s|$)|!(?=\s+[A-Z]|\s*$)|\n|<\||</s>")
_REASON = re.compile(r",?\s(?:because|since|so)\s")
# A sentence does not end in front of a displayed formula.
_DISPLAYED = re.compile(r"(?:\\\[|\$\$)\s*+[^\n]*")
_BETWEEN_BOXES = re.compile(r"[\s$.,;&]*+(?:and|or)?[\s$]*+(?:[A-Za-z]\s?=\s?)?")


def _boxes(text: str) -> list[tuple[int, int, int]]:
    r"""Of every closed `\boxed{…}` and `\fbox{…}`: its start, and start and end of its content; only the innermost."""
    found: list[tuple[int, int, int]] = []
    braces: list[tuple[int, int] | None] = []
    for match in _BRACES.finditer(text):
        if match["bare"]:
            found.append((match.start(), *match.span("bare")))
        elif match["box"]:
            braces.append(match.span())
        elif match["open"]:
            braces.append(None)
        elif match["close"] and braces and (box := braces.pop()) and not (found and found[-1][0] > box[0]):
            found.append((*box, match.start()))
    return found


def last_boxes(text: str) -> list[str]:
    """What the last box holds, or the last few that are listed one after the other; empty without a box."""
    contents: list[str] = []
    following = len(text)
    for start, content, end in reversed(_boxes(text)):
        if contents and not _BETWEEN_BOXES.fullmatch(text, end + 1, following):
            break
        if text[content:end].strip():
            contents.append(text[content:end])
        following = start
    return contents[::-1]


def find_statements(text: str) -> list[Statement]:
    """Every statement at `####` or the word "answer", in the order in which they start."""
    markers = list(_MARKER.finditer(text))
    stops = [match.start() for match in markers[1:]] + [len(text)]
    behind = [
        (match.start(), Statement(_sentence(text, match.end(), stop), match["hashes"] is not None))
        for match, stop in zip(markers, stops, strict=False)
    ]
    return [statement for _, statement in sorted([*behind, *_statements_before(text)], key=lambda found: found[0])]


def _statements_before(text: str) -> list[tuple[int, Statement]]:
    found, done = [], 0
    for match in _BEFORE.finditer(text):
        for end in _SENTENCE_END.finditer(text, done, match.start()):
            done = end.end()
        sentence = text[done : match.start()]
        if not _SUPPOSED.search(sentence) and not match["rest"].endswith("?"):
            found.append((match.start(), Statement(sentence, hashed=False, before=True)))
        done = match.end()
    return found


def until_unfinished_statement(text: str) -> str:
    r"""The text up to what the last statement says, if the text ends before that has an end: a sentence's, or a reason.

    >>> until_unfinished_statement("The answer is 12.\nThe answer is 3 miles by")
    'The answer is 12.\nThe answer is '
    """
    markers = list(_MARKER.finditer(text))
    if not markers:
        return text
    start = markers[-1].end()
    finished = _end_of_sentence(text, start, len(text)) or _REASON.search(text, start)
    return text if finished else text[:start]


def _sentence(text: str, start: int, stop: int) -> str:
    end = _end_of_sentence(text, start, stop)
    return text[start : end.start() if end else stop]


def _end_of_sentence(text: str, start: int, stop: int) -> re.Match[str] | None:
    displayed = _DISPLAYED.match(text, start, stop)
    return _SENTENCE_END.search(text, displayed.end() if displayed else start, stop)
