"""How a model is asked: in words, or for a program; where its text ends; and the program in it.

"cot" asks the question in the recipe's Alpaca prompt, without examples. "pot" asks for a program first, in the words of
the authors' evaluation, and in words where the program has no answer.
"""

import re
from collections.abc import Callable

from delcore.answers import cut_at_next_question
from delcore.answers.statements import cut_before
from delcore.errors import InputError
from delcore.templates import Row, make_render

STYLES = ("cot", "pot")
PROGRAM_REQUEST = " Let's write a program."

Cut = Callable[[str], str]
"""What comes before the marker of a text that a model makes up after its answer; the same text if there is none."""


def text_prompt(question: str, template: str = "alpaca") -> str:
    """The prompt for an answer in words; "plain" is the question as it stands."""
    return question if template == "plain" else make_render(template)(Row((("user", question),), "")).prompt


def program_prompt(question: str, template: str = "alpaca") -> str:
    """The prompt for a program."""
    return text_prompt(question + PROGRAM_REQUEST, template)


def check_style(style: str, *, run_programs: bool) -> None:
    """Refuse styles that are none, and programs that nobody is to run."""
    if style not in STYLES:
        raise InputError(f"`--style` must be cot or pot; got {style!r}.")
    if style == "pot" and not run_programs:
        raise InputError(
            "`--style` pot asks for programs, run only with --run-programs, in a sandbox. Add it, or take cot."
        )
    if style == "cot" and run_programs:
        raise InputError("`--run-programs` has none to run under --style cot. Leave it out, or ask for --style pot.")


# ---------------------------------------------------------------- programs

_AFTER_PROGRAM = re.compile(r"^(?:###|(?:Question|Problem|Instruction|Q|USER|Human)\s*:)", re.MULTILINE | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*```[ \t]*(?:python|py|python3)?[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.M | re.S | re.I)


def cut_after_program(text: str) -> str:
    r"""As `cut_at_next_question`, but a `#` and a word may be a program's comment.

    >>> cut_after_program("# Question: how many?\nprint(4)\n### Instruction:\nNext")
    '# Question: how many?\nprint(4)\n'
    """
    return cut_before(_AFTER_PROGRAM, text)


def find_program(text: str) -> str | None:
    """The program in a text: its first fenced block, else the text itself if it prints; None if there is none."""
    text = cut_after_program(text)
    if fenced := _FENCE.search(text):
        return fenced[1]
    return text if "print(" in text else None


CUTS: dict[str, Cut] = {"text": cut_at_next_question, "program": cut_after_program}
"""Where each part of an answer ends."""
