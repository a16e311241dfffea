"""Rows of every kind, the templates word for word, and chat templates down to the tokens (cases B03, B15)."""

import pytest

from delcore.arithmetic import Sample
from delcore.data import encode_sample
from delcore.digits import IGNORE
from delcore.errors import InputError
from delcore.models import byte_tokenizer
from delcore.templates import make_render, parse_row, trim_row
from tests import tokenizers_for_tests as tokenizers

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1+2?"},
    {"role": "assistant", "content": "3"},
    {"role": "user", "content": "And 4 more?"},
    {"role": "assistant", "content": "7"},
    {"role": "user", "content": "Thanks."},
]


def rendered(row, template="plain", tokenizer=None) -> Sample:
    return make_render(template, tokenizer)(parse_row(row, "row 1"))


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("row", "sample"),
    [
        ({"prompt": "1 + 2 = ", "response": "3"}, Sample("1 + 2 = ", "3")),
        ({"question": "How many?", "answer": "#### 3"}, Sample("How many?\n", "#### 3")),
        ({"instruction": "Add 1 and 2.", "output": "3"}, Sample("Add 1 and 2.\n", "3")),
        ({"instruction": "Add.", "input": "1 and 2", "output": "3"}, Sample("Add.\n1 and 2\n", "3")),
        ({"instruction": "Add.", "input": "", "output": "3"}, Sample("Add.\n", "3")),
        ({"instruction": "Add.", "input": None, "output": "3"}, Sample("Add.\n", "3")),
        ({"problem": "1 + 2?", "solution": "3"}, Sample("1 + 2?\n", "3")),
        ({"question": "q", "answer": "a", "input": "not an instruction's"}, Sample("q\n", "a")),
        ({"problem": "q", "solution": "a", "messages": TALK}, Sample("q\n", "a")),
        ({"problem": None, "solution": None, "messages": TALK[1:3]}, Sample("1+2?\n", "3")),
        ({"prompt": "", "response": ""}, Sample("", "")),
    ],
)
def test_row_of_each_kind_becomes_prompt_and_response(row, sample):
    assert rendered(row) == sample


def test_last_assistant_turn_alone_is_learned_and_what_follows_it_dropped():
    assert rendered({"messages": TALK}) == Sample("Be brief.\n1+2?\n3\nAnd 4 more?\n", "7")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"prompt": "a"}, r'needs the text fields .*"prompt" and "response".*or "messages"; got prompt \(text\)'),
        ({"prompt": "a", "response": 3}, r"got prompt \(text\), response \(number\)"),
        ({"question": "a", "response": "b"}, "needs the text fields"),
        ({"question": ["a"], "answer": None}, r"got question \(list\), answer \(nothing\)"),
        ([1, 2], "got list"),
        (None, "got nothing"),
        ({}, "got none"),
        ({"instruction": "a", "output": "b", "input": 3}, '"input" must be text; got number'),
        ({"messages": "a"}, '"messages" must be a list of turns'),
        ({"messages": [{"role": "user"}]}, '"messages" must be a list of turns'),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, '"messages" must be a list of turns'),
        ({"messages": 7}, '"messages" must be a list of turns'),
        ({"messages": []}, "needs a turn of the assistant"),
        ({"messages": TALK[:2]}, "needs a turn of the assistant"),
        ({"messages": TALK[2:4]}, "needs a turn of the assistant after one of the user"),
    ],
)
def test_row_that_cannot_be_used_is_named(row, why):
    with pytest.raises(InputError, match=f"^row 1: .*{why}") as caught:
        parse_row(row, "row 1")
    assert "\n" not in str(caught.value)


def test_trimmed_row_keeps_what_is_read_and_a_useless_row_keeps_all():
    assert trim_row({"question": "q", "id": 1, "answer": "a"}) == {"question": "q", "answer": "a"}
    assert trim_row({"id": 1}) == {"id": 1}
    assert trim_row([1]) == [1]


# ---------------------------------------------------------------- alpaca


def test_alpaca_prompt_is_the_recipes_word_for_word():
    without = (
        "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
        "### Instruction:\nAdd {1} and 2.\n\n### Response:"
    )
    assert rendered({"instruction": "Add {1} and 2.", "output": "3"}, "alpaca") == Sample(without, "3")
    assert rendered({"prompt": "Add {1} and 2.", "response": "3"}, "alpaca") == Sample(without, "3")
    assert rendered({"question": "Add {1} and 2.", "answer": "3"}, "alpaca") == Sample(without, "3")
    given = (
        "Below is an instruction that describes a task, paired with an input that provides further context. "
        "Write a response that appropriately completes the request.\n\n"
        "### Instruction:\nAdd.\n\n### Input:\n1 and {x}\n\n### Response:"
    )
    assert rendered({"instruction": "Add.", "input": "1 and {x}", "output": "3"}, "alpaca") == Sample(given, "3")


def test_unknown_template_is_refused():
    with pytest.raises(InputError, match="`--template` must be one of plain, alpaca, chat; got 'llama'"):
        make_render("llama")


# ---------------------------------------------------------------- chat

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] | trim }} [/INST]"
    "{% elif m['role'] == 'assistant' %} {{ m['content'] | trim }} {{ eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['role'] == 'assistant' and loop.last %}"
    "<think>\n\n</think>\n\n{% endif %}{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
OPENS_OTHERWISE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
BARE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def chat_tokenizer(template: str, *more: str, eos: str = "<|end|>"):
    """Over bytes, with ChatML's two tokens; like the embedded family's it reads special tokens in a text as text."""
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>", *more]})
    tokenizer.eos_token = eos
    tokenizer.chat_template = template
    return tokenizer


ADD = {"question": "1+2?", "answer": "3"}
ASKED = "<|im_start|>user\n1+2?<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("template", "prompt", "response"),
    [
        (CHATML, ASKED, "3<|im_end|>"),
        (LLAMA, "<|begin|>[INST] 1+2? [/INST]", " 3 <|end|>"),
        (THINKING, ASKED, "<think>\n\n</think>\n\n3<|im_end|>"),
        (OPENS_OTHERWISE, ASKED + "<think>\n", "3<|im_end|>"),
        (BARE, "user: 1+2?\nassistant: ", "3"),
    ],
)
def test_chat_prompt_is_what_the_model_will_be_asked_with(template, prompt, response):
    tokenizer = chat_tokenizer(template)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "1+2?"}], tokenize=False, add_generation_prompt=True
    )
    assert rendered(ADD, "chat", tokenizer) == Sample(prompt, response, rendered=True)
    assert asked == prompt


@pytest.mark.parametrize("template", [CHATML, LLAMA, THINKING, OPENS_OTHERWISE, BARE])
@pytest.mark.parametrize("eos", ["<|end|>", "<|im_end|>"])
@pytest.mark.parametrize("answer", ["3", "end", "i", "", "#### 3\n", "the-answer", "{{ 3 }}"])
def test_end_of_a_chat_turn_is_supervised_once(template, eos, answer):
    tokenizer = chat_tokenizer(template, eos=eos)
    encoded = encode_sample(tokenizer, rendered({"question": "1+2?", "answer": answer}, "chat", tokenizer))
    supervised = [label for label in encoded.labels if label != IGNORE]
    special = [label for label in supervised if label in tokenizer.all_special_ids]
    turn_end = [] if template in (LLAMA, BARE) else ["<|im_end|>"]
    assert tokenizer.convert_ids_to_tokens(special) == list(dict.fromkeys([*turn_end, eos]))
    assert supervised[-1] == tokenizer.eos_token_id
    text = tokenizer.decode(supervised[: len(supervised) - len(special)])
    assert (
        text.removeprefix("<think>\n\n</think>\n\n").removeprefix(" " if template == LLAMA else "").startswith(answer)
    )


@pytest.mark.parametrize("template", [CHATML, LLAMA])
def test_chat_prompt_is_masked_and_begins_once(template):
    tokenizer = chat_tokenizer(template)
    encoded = encode_sample(tokenizer, rendered(ADD, "chat", tokenizer))
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "1+2?"}],
        add_generation_prompt=True,
        return_dict=False,
        tokenizer_kwargs={"split_special_tokens": False},
    )
    assert encoded.input_ids[: len(asked)] == asked
    assert encoded.labels[: len(asked)] == [IGNORE] * len(asked)
    assert IGNORE not in encoded.labels[len(asked) :]
    assert encoded.input_ids.count(tokenizer.bos_token_id) == (template == LLAMA)


def test_chat_of_several_turns_keeps_the_earlier_ones_in_the_prompt():
    sample = rendered({"messages": TALK}, "chat", chat_tokenizer(CHATML))
    assert sample.prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+2?<|im_end|>\n"
        "<|im_start|>assistant\n3<|im_end|>\n<|im_start|>user\nAnd 4 more?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert sample.response == "7<|im_end|>"


def test_chat_ends_in_the_whole_token_where_another_is_a_part_of_it():
    assert rendered(ADD, "chat", chat_tokenizer(CHATML, "<|im_", "im_end")).response == "3<|im_end|>"


def test_chat_template_may_open_the_turn_by_what_came_before():
    render = make_render(
        "chat",
        chat_tokenizer(
            "{% for m in messages %}"
            "{% if m['role'] == 'assistant' and messages[0]['role'] == 'system' %}[as told] {% endif %}"
            "{{ m['content'] }}<|im_end|>{% endfor %}"
        ),
    )
    system = {"messages": [TALK[0], TALK[1], TALK[2]]}
    responses = [render(parse_row(row, "row")).response for row in (ADD, system, ADD, system)]
    assert responses == ["3<|im_end|>", "[as told] 3<|im_end|>"] * 2


def test_chat_puts_an_input_below_its_instruction():
    row = {"instruction": "Add.", "input": "1 and 2", "output": "3"}
    assert rendered(row, "chat", chat_tokenizer(CHATML)).prompt == ASKED.replace("1+2?", "Add.\n1 and 2")


@pytest.mark.parametrize("tokenizer", [None, byte_tokenizer()])
def test_chat_without_a_chat_template_is_refused_with_the_remedy(tokenizer):
    with pytest.raises(
        InputError, match="`--template` chat needs a tokenizer with a chat template.*Use plain or alpaca"
    ):
        make_render("chat", tokenizer)


def test_chat_that_the_template_refuses_is_named():
    with pytest.raises(InputError, match="The chat template refuses it: Only user and assistant roles"):
        rendered({"messages": TALK}, "chat", chat_tokenizer(LLAMA))
    with pytest.raises(InputError, match="leaves the assistant's turn out"):
        rendered(ADD, "chat", chat_tokenizer("{{ messages[0]['content'] }}"))


def test_special_token_in_a_chats_own_text_is_read_as_one():
    """The stated limit; the other templates keep it as text."""
    tokenizer = chat_tokenizer(CHATML)
    row = {"question": "What is <|im_end|>?", "answer": "3"}
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    counts = [
        encode_sample(tokenizer, rendered(row, template, tokenizer)).input_ids.count(end)
        for template in ("plain", "alpaca", "chat")
    ]
    assert counts == [0, 0, 3]


@pytest.mark.network
def test_chat_with_qwens_pieces_ends_in_its_end_of_turn():
    tokenizer = tokenizers.qwen_tokenizer()
    tokenizer = type(tokenizer)(vocab=tokenizer.get_vocab(), merges=[], chat_template=CHATML)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    encoded = encode_sample(tokenizer, rendered(ADD, "chat", tokenizer))
    supervised = [label for label in encoded.labels if label != IGNORE]
    assert tokenizer.convert_ids_to_tokens(supervised) == ["3", "<|im_end|>", "<|endoftext|>"]
