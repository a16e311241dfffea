"""Batched answers are those of one prompt at a time; where they stop, and what they say of it."""

import random

import pytest
import torch
from transformers import DynamicCache

from delcore import InputError
from delcore.answers import cut_at_next_question
from delcore.benchmarks import generate
from delcore.benchmarks.generate import Answer, answer_greedily
from delcore.benchmarks.prompts import cut_after_program
from delcore.generation import answers_alike
from delcore.models import load_model
from delcore.readout import append_greedily, prompt_ids
from tests.models_for_tests import tiny_loaded

PROMPTS = dict(
    enumerate(["2 + 3 = ", "a much longer prompt, of some forty bytes: ", "x", "10 + 20 = ", "pi is", "x y"])
)


def uncut(text: str) -> str:
    return text


def collect(loaded, prompts, *, cut=uncut, max_new_tokens=12, batch_size=4, context=64, **more) -> dict[int, Answer]:
    batches = answer_greedily(
        loaded.model,
        loaded.tokenizer,
        prompts,
        cut=cut,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        context=context,
        **more,
    )
    return {i: answer for batch in batches for i, answer in batch}


@torch.no_grad()
def slow_greedy(loaded, prompt: str, room: int) -> list[int]:
    """One prompt, one token at a time, without cache or padding."""
    model, tokenizer, _ = loaded
    ids = tokenizer(prompt)["input_ids"]
    written = []
    while len(written) < room and tokenizer.eos_token_id not in written:
        logits = model(input_ids=torch.tensor([ids + written]), use_cache=False).logits[0, -1]
        written.append(int(logits.argmax()))
    return written


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("batch_size", [1, 4, 6])
def test_batched_tokens_equal_those_of_one_prompt_at_a_time(seed, batch_size):
    loaded = tiny_loaded(seed=seed)
    answers = collect(loaded, PROMPTS, batch_size=batch_size)
    written = append_greedily(*loaded[:2], [prompt_ids(loaded.tokenizer, prompt) for prompt in PROMPTS.values()], 12)
    for i, prompt in PROMPTS.items():
        tokens = slow_greedy(loaded, prompt, 12)
        assert written[i] == tokens
        assert answers[i].tokens == len(tokens)
        assert answers[i].output == loaded.tokenizer.decode(tokens, skip_special_tokens=True)


@pytest.mark.parametrize("keeps", [True, False], ids=["cache", "no cache that can be cut"])
def test_rows_that_go_on_alone_write_what_they_would_have_written(keeps, monkeypatch):
    """Each prompt ends at another token, so the batch is cut again and again."""
    loaded = tiny_loaded()
    assert answers_alike(*loaded[:2], prompt_ids(loaded.tokenizer, "12"))  # asked once, so not below
    sizes = []
    real = type(loaded.model).generate

    def generate_and_note(self, **arguments):
        sizes.append(len(arguments["input_ids"]))
        return real(self, **arguments)

    monkeypatch.setattr(type(loaded.model), "generate", generate_and_note)
    if not keeps:
        monkeypatch.delattr(DynamicCache.__mro__[1], "batch_select_indices")
    prompts = [prompt_ids(loaded.tokenizer, prompt) for prompt in PROMPTS.values()]
    ends = dict(zip(map(tuple, prompts), (3, 9, 1, 5, 7, 2), strict=True))
    whole = [slow_greedy(loaded, prompt, 12) for prompt in PROMPTS.values()]
    over = {tuple(new[:end]) for new, end in zip(whole, ends.values(), strict=True)}
    found = append_greedily(*loaded[:2], prompts, 12, is_over=lambda new: tuple(new) in over)
    assert found == [new[:end] for new, end in zip(whole, ends.values(), strict=True)]
    assert sizes == [6, 3, 1]


@pytest.mark.parametrize(
    "setting",
    [
        {"repetition_penalty": 9.0},
        {"no_repeat_ngram_size": 1},
        {"min_new_tokens": 9},
        {"do_sample": True, "top_k": 3},
        {"suppress_tokens": [53, 65, 70]},
        {"sequence_bias": [[[53], -9.0]]},
        {"stop_strings": ["1"]},
        {"prompt_lookup_num_tokens": 2},
        {"penalty_alpha": 0.6, "top_k": 4},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_models_own_generation_settings_change_nothing(setting):
    loaded = tiny_loaded()
    plain = collect(loaded, PROMPTS)
    loaded.model.generation_config.update(**setting)
    own = loaded.model.generation_config
    assert collect(loaded, PROMPTS) == plain
    assert loaded.model.generation_config is own


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_damaged_weights_are_told_and_not_scored(value):
    loaded = tiny_loaded()
    with torch.no_grad():
        loaded.model.model.norm.weight.fill_(value)
    with pytest.raises(InputError, match="weights are damaged"):
        collect(loaded, PROMPTS)


def test_pad_token_that_is_the_end_token_changes_nothing():
    plain, same = load_model("embedded"), load_model("embedded")
    same.tokenizer.pad_token = same.tokenizer.eos_token
    prompts = {a: f"{a} + {a} = " for a in (12, 23, 48)} | {99: "Ada has 12 apples and finds 30 more. Now Ada has "}
    assert collect(same, prompts, context=2048) == collect(plain, prompts, context=2048)


def test_real_model_ends_by_itself_and_alike_in_any_batch():
    loaded = load_model("embedded")
    prompts = {a: f"{a} + {a} = " for a in (7, 23, 48)} | {99: "Ada has 12 apples and finds 30 more. Now Ada has "}
    found = collect(loaded, prompts, context=2048)
    assert found == collect(loaded, prompts, batch_size=1, context=2048)
    assert found[23] == Answer("46", 3, "end")
    assert found[48] == Answer("96", 3, "end")


def test_longest_prompts_come_first_and_batches_hold_similar_lengths():
    loaded = tiny_loaded()
    batches = list(answer_greedily(*loaded[:2], PROMPTS, cut=uncut, max_new_tokens=2, batch_size=2, context=64))
    order = [[len(PROMPTS[i]) for i, _ in batch] for batch in batches]
    assert order == [[43, 10], [8, 5], [3, 1]]


# ---------------------------------------------------------------- room


def test_prompt_without_room_is_an_outcome_and_one_with_little_gets_that():
    loaded = tiny_loaded()
    prompts = {0: "x" * 70, 1: "x" * 63, 2: "x" * 60, 3: "x" * 61, 4: "x", 5: ""}
    found = collect(loaded, prompts)
    assert found[0] == found[1] == Answer("", 0, "prompt_too_long")  # 64 tokens with the begin token
    for i, room in ((2, 3), (3, 2), (4, 12), (5, 12)):
        assert found[i].tokens == len(slow_greedy(loaded, prompts[i], room)) <= room


def test_learned_positions_never_lie_beyond_the_context():
    from transformers import GPT2Config, GPT2LMHeadModel

    tiny = tiny_loaded()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=259, n_positions=32, n_embd=16, n_layer=1, n_head=2, eos_token_id=2, bos_token_id=1)
    loaded = tiny._replace(model=GPT2LMHeadModel(config).eval())
    prompts = {n: "y" * n for n in (3, 12, 25, 28, 29)}
    found = collect(loaded, prompts, context=32, max_new_tokens=10)
    for i, prompt in prompts.items():
        assert found[i].tokens == len(slow_greedy(loaded, prompt, min(10, 31 - i)))


def test_prompt_of_no_tokens_has_nothing_to_go_on():
    class Bare:
        eos_token_id = 2

        def __call__(self, prompt, **_):
            return {"input_ids": []}

    assert collect(tiny_loaded()._replace(tokenizer=Bare()), {0: ""}) == {0: Answer("", 0, "prompt_too_long")}


def test_end_token_behind_every_text_is_not_asked_with_and_one_spelled_out_is_text():
    from tokenizers.processors import TemplateProcessing

    plain, ending = tiny_loaded(), tiny_loaded()
    template = TemplateProcessing(single="<|begin|> $A <|end|>", special_tokens=[("<|begin|>", 1), ("<|end|>", 2)])
    ending.tokenizer.backend_tokenizer.post_processor = template
    assert ending.tokenizer("12")["input_ids"][-1] == 2
    assert collect(ending, PROMPTS) == collect(plain, PROMPTS)
    plain.tokenizer.split_special_tokens = False
    assert prompt_ids(plain.tokenizer, "1<|end|>2", special=True)[2] == 2
    assert 2 not in prompt_ids(plain.tokenizer, "1<|end|>2")


# ---------------------------------------------------------------- markers


@pytest.fixture
def write(monkeypatch):
    """Lets a model that writes given texts, one a prompt, be stopped as a real one is."""
    loaded = tiny_loaded(context=1024)
    steps = []

    def write(*texts: str, cut=cut_at_next_question, room: int = 600, batch_size: int = 8, **more) -> list[Answer]:
        script = {f"prompt {n:03}": text for n, text in enumerate(texts)}

        def scripted(model, tokenizer, prompts, max_new_tokens, *, is_over, stopped):
            rows = [script[tokenizer.decode(ids, skip_special_tokens=True)] for ids in prompts]
            coming = [tokenizer(text, add_special_tokens=False)["input_ids"] + [2] for text in rows]
            new: list[list[int]] = [[] for _ in rows]
            over = [False] * len(rows)
            for t in range(max_new_tokens):
                for row, ids in enumerate(coming):
                    if not over[row]:
                        new[row].append(ids[t])
                        over[row] = ids[t] == 2 or is_over(new[row])
                steps.append(t)
                if all(over) or stopped():
                    break
            return new

        monkeypatch.setattr(generate, "append_greedily", scripted)
        prompts = dict(enumerate(script))
        found = collect(loaded, prompts, cut=cut, max_new_tokens=room, batch_size=batch_size, context=1024, **more)
        return [found[n] for n in range(len(texts)) if n in found]

    write.steps = steps
    return write


NEXT = "#### 70\n\nQuestion: A car has 4 wheels. How many have nine?\nAnswer: 36"


def test_marker_at_a_line_start_ends_the_answer_at_once(write):
    (answer,) = write(NEXT + " and so on" * 30)
    assert answer == Answer("#### 70\n\n", len("#### 70\n\nQuestion:"), "marker")
    assert len(write.steps) == answer.tokens


def test_word_within_a_line_ends_nothing(write):
    text = "First restate the Question. 7*10=70\n#### 70"
    assert write(text) == [Answer(text, len(text) + 1, "end")]


@pytest.mark.parametrize(
    "marker",
    ["Question:", "Q:", "### Instruction:", "### Problem 2.", "**Question 12**", "User:", "Human:", "> **Question**:"],
)
@pytest.mark.parametrize("before", ["12\n", "a long answer of more letters than the newest tokens\n", "12\n\n\n"])
def test_marker_is_seen_however_long_the_text_before_it(write, marker, before):
    (answer,) = write(before + marker + " How many?" * 5)
    assert answer == Answer(before, len(before + marker), "marker")


def test_heading_is_a_marker_only_once_its_line_ends(write):
    whole = "12 of them\n### Problematic is the rest: 3"
    assert write(whole)[0] == Answer(whole, len(whole) + 1, "end")
    heading = "12 of them\n### Question\n"
    assert write(heading + "How many?")[0] == Answer("12 of them\n", len(heading), "marker")


def test_marker_before_any_answer_ends_nothing(write):
    text = "\n\nQuestion: How many?\nAnswer: 5"
    assert write(text)[0].output == text


def test_rows_stop_each_for_itself(write):
    texts = [NEXT, "5", "a line\nUser: 3", "no end in sight " * 10]
    together = write(*texts, room=100)
    assert together == [write(text, room=100)[0] for text in texts]
    assert [answer.finish for answer in together] == ["marker", "end", "marker", "length"]
    assert together[3] == Answer(("no end in sight " * 10)[:100], 100, "length")


def test_program_is_not_cut_at_its_comments(write):
    text = "# Question: how many?\nx = 5\n# Problem 2: print\nprint(x)\n"
    (answer,) = write(text + "### Instruction:\nNext", cut=cut_after_program)
    assert answer == Answer(text, len(text + "###"), "marker")


def test_cut_of_any_text_is_that_of_the_whole(write):
    """A stop never changes what comes before it: random texts of the parts that markers are made of."""
    rng = random.Random(0)
    parts = ["\n", "Question", ":", " ", "### ", "Q", "x", "12", ".", "**", "s", "Problem", "\n\n", "User", "is"]
    texts = ["".join(rng.choices(parts, k=rng.randint(1, 12))) for _ in range(150)]
    for answer, text in zip(write(*texts, batch_size=100), texts, strict=True):
        assert answer.output == cut_at_next_question(text)


def test_model_that_writes_nothing_answers_with_nothing(write):
    assert write("") == [Answer("", 1, "end")]


def test_stop_keeps_the_rows_that_are_whole_and_begins_no_other_batch(write):
    asked = iter([False] * 5 + [True] * 100)
    found = write("5", "no end in sight", "6", batch_size=2, stopped=lambda: next(asked))
    assert found == [Answer("5", 2, "end")]
