"""Text to tokens and labels (cases B03, B15), files, orders, and the generator's laws and splits."""

import json
import math
import re
from collections import Counter
from itertools import islice

import pytest
import torch
from tokenizers.processors import ByteLevel, TemplateProcessing

from delcore.arithmetic import DESIGN_LAW, KINDS, LAWS, READINGS, Sample, arithmetic_sample, is_heldout
from delcore.data import Encoded, align, collate, encode_sample, iterate_samples, load_samples
from delcore.digits import IGNORE
from delcore.errors import InputError
from tests import tokenizers_for_tests as tokenizers


def test_align_makes_each_position_predict_its_label():
    logits, labels = torch.arange(24.0).view(2, 4, 3), torch.arange(8).view(2, 4)
    short, shifted = align(logits, labels)
    assert torch.equal(short, logits[:, :3])
    assert shifted.tolist() == [[1, 2, 3], [5, 6, 7]]


# ---------------------------------------------------------------- prompt and response: case B03

OFFLINE = {
    "gpt2": tokenizers.gpt2_style_tokenizer,
    "gpt2 with trimmed offsets": lambda: with_trimmed_offsets(tokenizers.gpt2_style_tokenizer()),
    "gpt2 with an end of its own": lambda: with_end(tokenizers.gpt2_style_tokenizer()),
    "llama": tokenizers.llama_style_tokenizer,
    "grouping": tokenizers.grouping_tokenizer,
}
REAL = {name: getattr(tokenizers, f"{name}_tokenizer") for name in ("qwen", "mistral", "llama2", "gpt2", "deepseek")}

SEAMS = [
    ("Answer: 1", "8"),
    ("Answer:", " 18"),
    ("Answer: ", "18"),
    ("Q:\n", "\n\n18"),
    ("12 + 35 = ", "47"),
    ("a 3", "3 b"),
    ("33", "3333"),
    ("the answer is", " 42."),
    ("sensor B reads ", "7"),
    ("", "18"),
    ("18", ""),
]


def with_trimmed_offsets(tokenizer):
    """As GPT-NeoX's: the token of " 18" says that it starts at the "1"."""
    tokenizer._tokenizer.post_processor = ByteLevel(trim_offsets=True)
    return tokenizer


def with_end(tokenizer):
    """It ends every text with the end token by itself, prompts too."""
    end = tokenizer.eos_token
    special = [(end, tokenizer.eos_token_id)]
    tokenizer._tokenizer.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=special)
    return tokenizer


def supervised_ids(encoded: Encoded) -> list[int]:
    return [label for label in encoded.labels if label != IGNORE]


def assert_supervises_exactly_the_response(tokenizer, prompt: str, response: str) -> None:
    encoded = encode_sample(tokenizer, Sample(prompt, response))
    supervised = supervised_ids(encoded)
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    assert supervised[len(supervised) - len(end) :] == end
    text = tokenizer.decode(supervised[: len(supervised) - len(end)], clean_up_tokenization_spaces=False)
    # A SentencePiece decoder drops the one space in front.
    assert text in (response, response.removeprefix(" "))
    if response.startswith(" ") and text != response:
        assert tokenizer.convert_ids_to_tokens(supervised[0]).startswith("▁")
    # The prompt is masked, all of it and nothing else, and nothing is supervised under another name.
    seam = len(encoded.labels) - len(supervised)
    assert encoded.labels == [IGNORE] * seam + encoded.input_ids[seam:]
    prompt_text = tokenizer.decode(
        encoded.input_ids[:seam], skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    assert re.sub(r"\D", "", prompt_text) == re.sub(r"\D", "", prompt)
    assert re.sub(r"\D", "", text) == re.sub(r"\D", "", response)
    assert encoded.input_ids.count(tokenizer.eos_token_id) == len(end)
    assert encoded.cut == 0


@pytest.mark.parametrize(("prompt", "response"), SEAMS)
@pytest.mark.parametrize("name", OFFLINE)
def test_labels_are_the_response_and_the_end_whatever_the_seam(name, prompt, response):
    assert_supervises_exactly_the_response(OFFLINE[name](), prompt, response)


@pytest.mark.network
@pytest.mark.parametrize(("prompt", "response"), [*SEAMS, ("Is it 5 €? ", "5 € 🙂"), ("é", "́a")])
@pytest.mark.parametrize("name", REAL)
def test_labels_of_real_tokenizers_are_the_response_and_the_end(name, prompt, response):
    assert_supervises_exactly_the_response(REAL[name](), prompt, response)


@pytest.mark.parametrize(
    ("prompt", "response", "split"),
    [
        ("Answer: 1", "8", True),
        ("Answer: ", "18", True),
        ("Answer:", " 18", False),
        ("a 3", "3 b", True),
        ("x", "", False),
    ],
)
def test_token_that_would_straddle_the_seam_is_split_and_counted(prompt, response, split):
    for trimmed in (False, True):
        tokenizer = tokenizers.gpt2_style_tokenizer()
        encoded = encode_sample(with_trimmed_offsets(tokenizer) if trimmed else tokenizer, Sample(prompt, response))
        assert encoded.split_seam is split
        assert collate([encoded], 0).n_split_seams == int(split)


def test_first_tokens_are_those_the_model_sees_when_asked():
    for name in ("gpt2", "grouping"):
        tokenizer = OFFLINE[name]()
        asked = tokenizer("Answer: 1")["input_ids"]
        assert encode_sample(tokenizer, Sample("Answer: 1", "8")).input_ids[: len(asked)] == asked


def test_start_token_is_kept_and_masked():
    tokenizer = tokenizers.llama_style_tokenizer()
    tokenizer.add_bos_token = True
    encoded = encode_sample(tokenizer, Sample("1 + 2 = ", "3"))
    whole = tokenizer("1 + 2 = 3")["input_ids"]
    assert encoded.input_ids == [*whole, tokenizer.eos_token_id]
    assert encoded.labels == [IGNORE] * (len(whole) - 1) + [whole[-1], tokenizer.eos_token_id]


def test_tokenizer_that_is_not_fast_will_do():
    class Slow:
        is_fast, eos_token_id, bos_token_id = False, 9, None

        def __call__(self, text, **options):
            return {"input_ids": [ord(character) for character in text.replace("bc", "x")]}

    whole = encode_sample(Slow(), Sample("a", "cd"))
    assert whole == ([97, 99, 100, 9], [IGNORE, 99, 100, 9], False, 0)
    straddled = encode_sample(Slow(), Sample("ab", "cd"))
    assert straddled == ([97, 98, 99, 100, 9], [IGNORE, IGNORE, 99, 100, 9], True, 0)


def test_supervising_all_leaves_only_the_start_token_out():
    plain = tokenizers.gpt2_style_tokenizer()
    encoded = encode_sample(plain, Sample("1 + 2 = ", "3"), supervise="all")
    assert encoded.labels == encoded.input_ids


def test_length_limit_cuts_the_end_and_counts_it():
    tokenizer = tokenizers.grouping_tokenizer()
    whole = encode_sample(tokenizer, Sample("ab", "cdef"))
    cut = encode_sample(tokenizer, Sample("ab", "cdef"), max_length=4)
    assert cut == (whole.input_ids[:4], whole.labels[:4], False, len(whole.input_ids) - 4)
    assert encode_sample(tokenizer, Sample("ab", "cdef"), max_length=100) == whole


# ---------------------------------------------------------------- batches: case B15


def test_padding_with_the_end_token_keeps_the_true_end():
    samples = [Encoded([7, 0], [7, 0]), Encoded([1, 2, 0], [1, 2, 0])]
    batch = collate(samples, pad_id=0)
    assert batch.labels.tolist() == [[7, 0, IGNORE], [1, 2, 0]]
    assert batch.attention_mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch.input_ids.tolist() == [[7, 0, 0], [1, 2, 0]]


def test_batch_counts_what_encoding_met():
    samples = [
        Encoded([5, 6, 7], [IGNORE, 6, 7]),
        Encoded([5, 6], [IGNORE, IGNORE], cut=3),
        Encoded([5, 6], [5, IGNORE], split_seam=True),  # its one label is the first, which nothing predicts
    ]
    batch = collate(samples, pad_id=1)
    assert (batch.n_supervised, batch.n_cut, batch.n_unsupervised, batch.n_split_seams) == (2, 1, 2, 1)


# ---------------------------------------------------------------- files


def written(tmp_path, *rows) -> str:
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("row", "sample"),
    [
        ({"prompt": "1 + 2 = ", "response": "3"}, Sample("1 + 2 = ", "3")),
        ({"question": "How many?", "answer": "#### 3"}, Sample("How many?\n", "#### 3")),
        ({"instruction": "Add 1 and 2.", "output": "3"}, Sample("Add 1 and 2.\n", "3")),
        ({"question": "é 🙂?", "answer": "3\u2028", "other": 1}, Sample("é 🙂?\n", "3\u2028")),
    ],
)
def test_rows_of_each_kind_are_read(tmp_path, row, sample):
    assert load_samples(written(tmp_path, row, "", row)) == [sample, sample]
    as_it_stands = json.dumps(row, ensure_ascii=False)
    assert load_samples(written(tmp_path, as_it_stands, "   ")) == [sample]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"prompt": "a", "response": ', "not valid JSON"),
        ("prompt,response", "not valid JSON"),
        ('{"prompt": "a"}', "needs the text fields"),
        ('{"prompt": "a", "response": 3}', "needs the text fields"),
        ('{"question": "a", "response": "b"}', "needs the text fields"),
        ("[1, 2]", "needs the text fields"),
        ("null", "needs the text fields"),
    ],
)
def test_line_that_cannot_be_used_is_named_with_file_and_number(tmp_path, line, why):
    path = written(tmp_path, {"prompt": "a", "response": "b"}, "", line)
    with pytest.raises(InputError, match=rf"data\.jsonl, line 3: {why}") as caught:
        load_samples(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "\n\n", "   \n"])
def test_file_without_samples_is_refused(tmp_path, content):
    with pytest.raises(InputError, match=r"data\.jsonl.* no samples"):
        load_samples(written(tmp_path, content))


def test_file_that_is_missing_or_no_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        load_samples(str(tmp_path / "none.jsonl"))
    with pytest.raises(InputError, match="there is no file"):
        load_samples(str(tmp_path))
    (tmp_path / "image.jsonl").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InputError, match=r"image\.jsonl cannot be read as UTF-8"):
        load_samples(str(tmp_path / "image.jsonl"))


def test_arithmetic_is_no_file():
    assert load_samples("arithmetic") is None


# ---------------------------------------------------------------- order


SIXTY_FOUR = [Sample(str(i), str(i)) for i in range(64)]


@pytest.mark.parametrize("samples", [SIXTY_FOUR, SIXTY_FOUR[:1], None], ids=["file", "one sample", "arithmetic"])
def test_order_depends_on_the_seed_alone_and_resumes_anywhere(samples):
    straight = list(islice(iterate_samples(samples, seed=3), 200))
    assert list(islice(iterate_samples(samples, seed=3), 200)) == straight
    for start in (0, 1, 20, 63, 64, 65, 84, 128, 190):
        resumed = list(islice(iterate_samples(samples, seed=3, start=start), 200 - start))
        assert resumed == straight[start:]
    if samples is not SIXTY_FOUR[:1]:
        assert samples is None or len(samples) == 1 or list(islice(iterate_samples(samples, seed=4), 200)) != straight


def test_every_epoch_holds_every_sample_once_in_another_order():
    straight = list(islice(iterate_samples(SIXTY_FOUR, seed=3), 192))
    epochs = [straight[i : i + 64] for i in (0, 64, 128)]
    for epoch in epochs:
        assert Counter(epoch) == Counter(SIXTY_FOUR)
    assert epochs[0] != epochs[1] != epochs[2] != SIXTY_FOUR


# ---------------------------------------------------------------- the generator


def test_sample_is_a_function_of_index_seed_split_and_kind():
    def draw(seed, split="train", kind=None):
        return [arithmetic_sample(i, seed, split, kind) for i in range(50)]

    assert draw(0) == draw(0)
    others = [draw(1), draw(0, "heldout"), draw(0, kind="addition")]
    assert all(other != draw(0) for other in others)


def test_mixture_has_its_shares():
    count = Counter(arithmetic_sample(i, 11).kind for i in range(20_000))
    count["symbols"] = count.pop("date") + count.pop("identifier")
    assert set(count) == set(KINDS)
    assert sum(share for share, _ in KINDS.values()) == pytest.approx(1)
    for kind, (share, _) in KINDS.items():
        assert count[kind] / 20_000 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 20_000))


def stated_problem(sample: Sample) -> str | None:
    """The problem that a sample states, in one form for all wordings; None where there is none."""
    numbers = re.findall(r"\d+(?:\.\d)?", sample.prompt)
    if sample.kind in ("date", "identifier"):
        return sample.prompt
    if sample.kind == "reading":
        return None
    a, b = (number.replace(".", "") for number in numbers)
    minus = " - " in sample.prompt or "gives away" in sample.prompt
    times = " * " in sample.prompt
    return f"{a}{'-' if minus else '*' if times else '+'}{b}"


def test_heldout_problems_never_occur_in_training():
    training = {stated_problem(arithmetic_sample(i, seed)) for seed in (0, 1) for i in range(10_000)} - {None}
    heldout = {stated_problem(arithmetic_sample(i, 0, "heldout")) for i in range(5_000)} - {None}
    assert len(training) > 5_000
    assert len(heldout) > 1_000
    assert not training & heldout
    assert all(map(is_heldout, heldout))
    assert not any(map(is_heldout, training))


def test_one_problem_in_ten_is_held_out():
    share = sum(is_heldout(f"{a}+{b}") for a in range(10, 100) for b in range(10, 100)) / 90**2
    assert share == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("kind", ["addition", "subtraction", "product", "decimal", "word problem"])
def test_answers_are_right(kind):
    for i in range(300):
        sample = arithmetic_sample(i, 5, kind=kind)
        problem = stated_problem(sample)
        scale = 10 if kind == "decimal" else 1
        assert float(sample.response) * scale == pytest.approx(eval(problem))
        assert sample.kind == kind


def test_dates_and_codes_are_copied():
    for i in range(200):
        sample = arithmetic_sample(i, 6, kind="symbols")
        if sample.kind == "date":
            year, month, day = re.findall(r"\d+", sample.prompt)
            assert sample.response == f"{day}/{month}/{year}"
        else:
            assert re.findall(r"\d+", sample.prompt) == [sample.response]


# ---------------------------------------------------------------- readings and their laws


def test_laws_are_distributions_and_the_first_is_that_of_the_table():
    assert pytest.approx(1.2712, abs=5e-5) == -sum(p * math.log(p) for p in DESIGN_LAW)
    for law in LAWS.values():
        assert len(law) == 10
        assert sum(law) == pytest.approx(1)
        assert min(law) > 0


def test_readings_follow_their_stated_law():
    drawn = {reading.prompt: [] for reading in READINGS}
    for i in range(20_000):
        sample = arithmetic_sample(i, 7, kind="reading")
        drawn[sample.prompt].append(sample.response)
    for reading in READINGS:
        responses = drawn[reading.prompt]
        assert len(responses) > 1_000
        for response in responses:
            whole, _, decimals = response.partition(".")
            assert (len(whole), len(decimals)) == (len(reading.laws) - reading.decimals, reading.decimals)
        digits = [response.replace(".", "") for response in responses]
        for index, law in enumerate(reading.laws):
            count = Counter(text[index] for text in digits)
            expected = [p * len(digits) for p in LAWS[law]]
            chi_square = sum((count[str(k)] - e) ** 2 / e for k, e in enumerate(expected))
            assert chi_square < 33.7, (reading.prompt, index, chi_square)  # p = 1e-4 at 9 degrees of freedom


def test_digits_of_a_reading_are_drawn_independently():
    (counter,) = [reading for reading in READINGS if reading.prompt == "counter R counts "]
    texts = [
        sample.response
        for i in range(40_000)
        if (sample := arithmetic_sample(i, 8, kind="reading")).prompt == counter.prompt
    ]
    law = LAWS[counter.laws[0]]
    for first, second in ((0, 1), (1, 2), (0, 2)):
        both = sum(text[first] == "7" and text[second] == "7" for text in texts) / len(texts)
        assert both == pytest.approx(law[7] ** 2, abs=0.04)
