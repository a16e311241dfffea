"""From a row of a data set to a training text: the fields it may have, and the templates that make a prompt of them."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from delcore.arithmetic import Sample
from delcore.errors import InputError

PAIRS = (("prompt", "response"), ("question", "answer"), ("instruction", "output"), ("problem", "solution"))
"""Pairs of text fields that a row may hold; the first that it has counts."""

FIELDS = (*(name for pair in PAIRS for name in pair), "input", "messages")

ALPACA = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:"
)
ALPACA_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
)
"""`PROMPT_TEMPLATE_SINGLE` of PolyU-VCLab/DEL 68c3d4d, which is Stanford Alpaca's; its evaluation asks with it too.

The response follows the colon directly, and the end token the response. The release's training draws one of twelve
such templates per process and run, unseeded, unless `--template_variation False` is given; these are the first.
"""


class Row(NamedTuple):
    """What a row says, whatever its fields are called.

    Args:
        turns: role and content of what precedes the response.
        response: what is to be learned.
        input: beside an instruction; may be empty.
        verbatim: the one turn is a prompt to be used as it stands.
    """

    turns: tuple[tuple[str, str], ...]
    response: str
    input: str = ""
    verbatim: bool = False

    @property
    def text(self) -> str:
        """The turns' content, a line break between two."""
        return "\n".join(content for _, content in self.turns)


Render = Callable[[Row], Sample]

# ---------------------------------------------------------------- fields


def parse_row(row: Any, where: str) -> Row:
    """Find prompt and response in a row.

    Of `messages` only the last assistant turn is learned; what follows it is dropped, what precedes it is the prompt.

    Raises:
        InputError: none of the known fields, or no text in them; the message begins with `where`.
    """
    if isinstance(row, Mapping):
        for prompt, response in PAIRS:
            if isinstance(row.get(prompt), str) and isinstance(row.get(response), str):
                extra = (row.get("input") or "") if prompt == "instruction" else ""
                if not isinstance(extra, str):
                    raise InputError(f'{where}: "input" must be text; got {_kind(extra)}. Mend or drop it.')
                return Row((("user", row[prompt]),), row[response], extra, verbatim=prompt == "prompt")
        if row.get("messages") is not None:
            return _parse_messages(row["messages"], where)
    pairs = ", ".join(f'"{prompt}" and "{response}"' for prompt, response in PAIRS)
    found = (
        ", ".join(f"{name} ({_kind(value)})" for name, value in row.items()) if isinstance(row, dict) else _kind(row)
    )
    raise InputError(f'{where}: needs the text fields {pairs}, or "messages"; got {found[:200] or "none"}.')


def _parse_messages(messages: Any, where: str) -> Row:
    try:
        turns = tuple((turn["role"], turn["content"]) for turn in messages)
    except (TypeError, KeyError):
        turns = ((None, None),)
    if not all(isinstance(part, str) for turn in turns for part in turn):
        raise InputError(f'{where}: "messages" must be a list of turns with a text "role" and a text "content".')
    learned = max((i for i, (role, _) in enumerate(turns) if role == "assistant"), default=0)
    if learned == 0:
        raise InputError(f'{where}: "messages" needs a turn of the assistant after one of the user. Mend or drop it.')
    return Row(turns[:learned], turns[learned][1])


def _kind(value: Any) -> str:
    names = {str: "text", int: "number", float: "number", list: "list", dict: "object", bool: "true or false"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def trim_row(row: Any) -> Any:
    """The row without fields that nobody asks for, so that a file of many columns does not fill the memory."""
    kept = {name: row[name] for name in FIELDS if name in row} if isinstance(row, dict) else {}
    return kept or row


def check_text(row: Any) -> None:
    """Refuse half a surrogate pair, which JSON can write and which is no text; a ValueError says so."""
    json.dumps(row, ensure_ascii=False).encode()


# ---------------------------------------------------------------- templates


def make_render(template: str, tokenizer: Any = None) -> Render:
    """The function that makes a sample of a row.

    Args:
        template: "plain" takes a prompt as it stands, and ends a question, instruction, input or turn with a line
            break; "alpaca" is the recipe's; "chat" the tokenizer's own.
        tokenizer: needed by "chat" alone.

    Raises:
        InputError: an unknown template, or "chat" and a tokenizer without one.
    """
    if template == "chat":
        return ChatTemplate(tokenizer)
    if template not in (known := {"plain": _plain, "alpaca": _alpaca}):
        raise InputError(f"`--template` must be one of {', '.join(known)}, chat; got {template!r}.")
    return known[template]


def _plain(row: Row) -> Sample:
    if row.verbatim:
        return Sample(row.text, row.response)
    return Sample(row.text + "\n" + (row.input + "\n" if row.input else ""), row.response)


def _alpaca(row: Row) -> Sample:
    form = ALPACA_INPUT if row.input else ALPACA
    return Sample(form.format(instruction=row.text, input=row.input), row.response)


class ChatTemplate:
    """A tokenizer's own chat template, as text that holds its special tokens.

    The prompt is what the model will see when asked (`add_generation_prompt`). What the template writes before the
    response and after it, up to the token that ends the turn, is learned with it; where that token is not the
    tokenizer's end token, encoding adds the latter, which is where generation stops. The response itself is the
    row's, also where the template would trim it.

    Limit: a special token spelled out in a row's own text, such as "<|im_end|>", is read as that token.
    """

    ANSWER = "the-answer-goes-here"

    def __init__(self, tokenizer: Any) -> None:
        """Check that there is a template."""
        if not getattr(tokenizer, "chat_template", None):
            raise InputError(
                "`--template` chat needs a tokenizer with a chat template, and this model's has none. "
                "Use plain or alpaca, or an instruction-tuned model."
            )
        self.tokenizer = tokenizer
        self._frames: dict[tuple[str, ...], tuple[str, str]] = {}

    def __call__(self, row: Row) -> Sample:
        """Render a row.

        Raises:
            InputError: the template refuses the row's turns.
        """
        turns = [{"role": role, "content": content} for role, content in row.turns]
        if row.input:
            turns[-1]["content"] += "\n" + row.input
        prompt = self._apply(turns, add_generation_prompt=True)
        roles = tuple(role for role, _ in row.turns)
        if roles not in self._frames:
            self._frames[roles] = self._frame(turns, prompt)
        before, after = self._frames[roles]
        return Sample(prompt, before + row.response + after, rendered=True)

    def _apply(self, turns: list[dict[str, str]], **options: bool) -> str:
        from jinja2 import TemplateError

        try:
            return str(self.tokenizer.apply_chat_template(turns, tokenize=False, **options))
        except (TemplateError, TypeError, ValueError) as error:
            raise InputError(f"The chat template refuses it: {' '.join(str(error).split())[:200]}") from error

    def _frame(self, turns: list[dict[str, str]], prompt: str) -> tuple[str, str]:
        """What stands between prompt and response, and after the response up to the end of the turn."""
        whole = self._apply([*turns, {"role": "assistant", "content": self.ANSWER}])
        before, found, after = whole.rpartition(self.ANSWER)
        if not found:
            raise InputError("The chat template leaves the assistant's turn out.")
        # A template may open the turn otherwise when it asks than when it tells; then what it asks with counts.
        before = before.removeprefix(prompt) if before.startswith(prompt) else ""
        added = {str(token) for token in self.tokenizer.added_tokens_decoder.values()}
        ends = [(after.index(token), -len(token), token) for token in added if token in after]
        if not ends:
            return before, ""
        start, _, token = min(ends)
        return before, after[: start + len(token)]
