"""Text to tokens and labels (cases B03, B15), micro-batches, and the generator's laws and splits."""

import copy
import math
import re
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from tokenizers.processors import ByteLevel, TemplateProcessing
from transformers import AutoTokenizer

from delcore.arithmetic import (
    DESIGN_LAW,
    KINDS,
    LAWS,
    READINGS,
    Sample,
    arithmetic_sample,
    heldout_problems,
    is_heldout,
)
from delcore.data import (
    Encoded,
    align,
    choose_pad,
    collate,
    count_step,
    encode_sample,
    micro_batches,
    pad_id,
    tally_samples,
)
from delcore.digits import IGNORE, DigitVocab
from delcore.losses import LOSSES, numeric_loss
from delcore.models import byte_tokenizer
from tests import tokenizers_for_tests as tokenizers
from tests.models_for_tests import tiny_model


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


@pytest.mark.parametrize("name", OFFLINE)
def test_special_token_spelled_out_in_a_text_stays_text(name):
    tokenizer = OFFLINE[name]()
    end = tokenizer.eos_token or tokenizer.unk_token
    encoded = encode_sample(tokenizer, Sample(f"What is {end}? ", f"It is {end}."))
    assert encoded.input_ids.count(tokenizer.convert_tokens_to_ids(end)) == 1
    assert encoded.input_ids[-1] == tokenizer.eos_token_id
    assert tokenizer(end, add_special_tokens=False)["input_ids"] == [tokenizer.convert_tokens_to_ids(end)]


@pytest.mark.network
@pytest.mark.parametrize("name", ["qwen", "mistral", "llama2", "gpt2"])
def test_special_token_spelled_out_stays_text_to_real_tokenizers(name):
    tokenizer = REAL[name]()
    end = tokenizer.eos_token
    encoded = encode_sample(tokenizer, Sample(f"What is {end}? ", f"It is {end}."))
    assert encoded.input_ids.count(tokenizer.eos_token_id) == 1
    assert tokenizer.decode(supervised_ids(encoded)[:-1]).strip() == f"It is {end}."


def test_encoding_leaves_the_tokenizer_as_it_was(tmp_path):
    tokenizer = byte_tokenizer()
    for rendered in (True, False):
        encode_sample(tokenizer, Sample("<|end|>", "1", rendered=rendered))
        assert tokenizer.split_special_tokens
        assert tokenizer("<|end|>")["input_ids"] == [1, *tokenizer("<|end|>", add_special_tokens=False)["input_ids"]]
        assert 2 not in tokenizer("<|end|>")["input_ids"]


def test_rendered_text_gets_no_second_start_and_no_second_end():
    tokenizer = byte_tokenizer()
    assert encode_sample(tokenizer, Sample("<|begin|>1+2=", "3<|end|>", rendered=True)) == encode_sample(
        tokenizer, Sample("1+2=", "3")
    )
    # The end of a turn that is not the end token is followed by it.
    other = encode_sample(tokenizer, Sample("<|begin|>1+2=", "3<|pad|>", rendered=True))
    assert supervised_ids(other)[-2:] == [tokenizer.pad_token_id, tokenizer.eos_token_id]
    # A turn that the prompt ends is not the end of the response.
    empty = encode_sample(tokenizer, Sample("<|begin|>1<|end|>", "", rendered=True))
    assert supervised_ids(empty) == [tokenizer.eos_token_id]


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


def test_tally_counts_what_encoding_met():
    samples = [
        Encoded([5, 6, 7], [IGNORE, 6, 7]),
        Encoded([5, 6], [IGNORE, IGNORE], cut=3),
        Encoded([5, 6], [5, IGNORE], split_seam=True),  # its one label is the first, which nothing predicts
    ]
    assert collate(samples, pad_id=1).n_supervised == 2
    assert tally_samples(samples) == (1, 2, 1)


def test_response_that_is_cut_away_counts_as_unsupervised():
    tokenizer = tokenizers.grouping_tokenizer()
    encoded = encode_sample(tokenizer, Sample("abcd", "ef"), max_length=4)
    assert (encoded.labels, encoded.cut) == ([IGNORE] * 4, 3)
    assert collate([encoded], 0).n_supervised == 0
    assert tally_samples([encoded]) == (1, 1, 0)


# ---------------------------------------------------------------- one step


def ragged(count: int, seed: int = 0) -> list[Encoded]:
    """Samples of 1 to 12 tokens over `V12`, with prompts and responses of any length."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, size: int) -> list[int]:
        return torch.randint(low, high, (size,), generator=generator).tolist()

    samples = []
    for _ in range(count):
        ids = draw(0, 12, draw(1, 13, 1)[0])
        seam = draw(0, len(ids) + 1, 1)[0]
        samples.append(Encoded(ids, [IGNORE] * seam + ids[seam:]))
    return samples


def rows_of(batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    lengths = batch.attention_mask.sum(1).tolist()
    pairs = zip(batch.input_ids.tolist(), batch.labels.tolist(), lengths, strict=True)
    return [(tuple(ids[:n]), tuple(labels[:n])) for ids, labels, n in pairs]


@pytest.mark.parametrize(("size", "ranks"), [(1, 1), (3, 1), (24, 1), (100, 1), (1, 2), (5, 2), (4, 3), (2, 24)])
def test_micro_batches_of_all_ranks_hold_every_sample_once(size, ranks):
    step = ragged(24)
    dealt = [micro_batches(step, size, 11, rank=rank, ranks=ranks) for rank in range(ranks)]
    assert len({len(batches) for batches in dealt}) == 1
    assert max(len(batch.input_ids) for batches in dealt for batch in batches) <= size
    found = Counter(row for batches in dealt for batch in batches for row in rows_of(batch))
    assert found == Counter((tuple(sample.input_ids), tuple(sample.labels)) for sample in step)


def test_micro_batches_pad_little_and_begin_with_the_longest():
    step = ragged(64)
    lengths = [len(sample.input_ids) for sample in step]
    batches = micro_batches(step, 8, 11)
    assert batches[0].input_ids.shape[1] == max(lengths)
    padded = sum(batch.input_ids.numel() for batch in batches)
    as_they_come = sum(8 * max(lengths[i : i + 8]) for i in range(0, 64, 8))
    assert sum(lengths) < padded < 1.15 * sum(lengths) < as_they_come


def test_micro_batches_are_dealt_in_turn_so_that_no_rank_waits_for_another():
    step = [Encoded([1] * n, [1] * n) for n in (5, 8, 1, 7, 2, 6, 4, 3)]
    lengths = [
        [row.sum().item() for batch in micro_batches(step, 2, 0, rank=rank, ranks=2) for row in batch.input_ids]
        for rank in range(2)
    ]
    assert lengths == [[8, 6, 4, 2], [7, 5, 3, 1]]


def test_micro_batches_of_equal_lengths_keep_their_order():
    step = [Encoded([i, i], [i, i]) for i in range(6)]
    assert [batch.input_ids[:, 0].tolist() for batch in micro_batches(step, 2, 0)] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(("count", "ranks"), [(8, 3), (1, 4), (0, 3)])
def test_micro_batches_that_cannot_be_dealt_evenly_are_filled_up_with_unsupervised_samples(count, ranks):
    step = [Encoded([n] * n, [n] * n) for n in range(2, 2 + count)]
    dealt = [micro_batches(step, 2, 0, rank=rank, ranks=ranks) for rank in range(ranks)]
    assert len({tuple(len(batch.input_ids) for batch in mine) for mine in dealt}) == 1
    labels = [row[row != IGNORE].tolist() for mine in dealt for batch in mine for row in batch.labels]
    assert sorted(row for row in labels if row) == sorted(sample.labels for sample in step)


@pytest.mark.parametrize(("size", "ranks"), [(16, 1), (3, 1), (1, 1), (2, 2), (5, 4)])
def test_step_counts_are_those_the_loss_makes_of_its_batches(size, ranks):
    vocab = DigitVocab(range(10), dot=10)
    step = ragged(16, seed=size)
    tokens = digits = 0
    for rank in range(ranks):
        for batch in micro_batches(step, size, 11, rank=rank, ranks=ranks):
            output = numeric_loss("del", *align(torch.zeros(*batch.labels.shape, 12), batch.labels), vocab)
            tokens, digits = tokens + int(output.n_tokens), digits + int(output.n_digits)
    assert count_step(step, vocab) == (tokens, digits)
    assert 0 < digits < tokens


def test_step_counts_leave_out_the_first_position_and_the_masked_ones():
    vocab = DigitVocab(range(10), dot=10)
    step = [Encoded([1, 2, 11], [1, 2, 11]), Encoded([3, 4], [IGNORE, IGNORE]), Encoded([5], [5])]
    assert count_step(step, vocab) == (2, 1)
    assert count_step([], vocab) == (0, 0)


def gradient(step: list[Encoded], loss: str, size: int, ranks: int) -> torch.Tensor:
    """Gradient of one optimiser step on a tiny model, all its parameters in a row, in float64."""
    model, vocab = tiny_model(16, context=16).double(), DigitVocab(range(10), dot=10)
    n_tokens, n_digits = count_step(step, vocab)
    embedding = model.get_output_embeddings().weight.detach().clone()
    for rank in range(ranks):
        for batch in micro_batches(step, size, 11, rank=rank, ranks=ranks):
            logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
            counts = {"step_tokens": n_tokens, "step_digits": n_digits, "embedding": embedding}
            numeric_loss(loss, *align(logits, batch.labels), vocab, **counts).total.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "del_released"])  # its weight grows with the cut
def test_gradient_of_a_step_does_not_depend_on_the_cut(loss):
    step = ragged(12)
    whole = gradient(step, loss, 12, 1)
    assert whole.abs().max() > 1e-3
    for size, ranks in ((5, 1), (1, 1), (4, 2), (2, 3)):
        torch.testing.assert_close(gradient(step, loss, size, ranks), whole, rtol=0, atol=1e-8)


# ---------------------------------------------------------------- a token to pad with


def padding_case(special: dict[str, str], *extra: str):
    pieces = [*"0123456789", ".", *extra, *special.values()]
    return tokenizers._word_level({p: i for i, p in enumerate(dict.fromkeys(pieces))}, r"<[^>]*>|[\s\S]", **special)


UNK, EOS = {"unknown": "<unk>"}, {"eos_token": "</s>"}


@pytest.mark.parametrize(
    ("tokenizer", "chosen"),
    [
        (byte_tokenizer(), "<|pad|>"),
        (padding_case({**UNK, **EOS}, "<|reserved_7|>", "<pad>"), "<pad>"),
        (padding_case({**UNK, **EOS}, "<paddle>", "[PAD]"), "[PAD]"),
        (padding_case({**UNK, **EOS}, "<|finetune_right_pad_id|>"), "<|finetune_right_pad_id|>"),
        (padding_case({**UNK, **EOS}, "<unused1>", "<unused0>"), "<unused1>"),
        (padding_case({**UNK, **EOS}, "unused", "<used>"), "<unk>"),
        (tokenizers.llama_style_tokenizer(), "<unk>"),
        (tokenizers.gpt2_style_tokenizer(), "<|endoftext|>"),
    ],
)
def test_pad_is_a_token_that_exists_and_is_saved_with_the_tokenizer(tmp_path, tokenizer, chosen):
    size, ids = len(tokenizer), tokenizer("1 + 2.5 = 3.5")["input_ids"]
    pad = choose_pad(tokenizer, tiny_model(size).config)
    assert (tokenizer.pad_token, tokenizer.pad_token_id, pad_id(tokenizer)) == (chosen, pad, pad)
    assert choose_pad(tokenizer, tiny_model(size).config) == pad
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert (again.pad_token_id, len(again)) == (pad, size)
    assert again("1 + 2.5 = 3.5")["input_ids"] == ids


def test_pad_that_the_model_cannot_read_is_passed_over():
    tokenizer = tokenizers.gpt2_style_tokenizer()
    size = len(tokenizer)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    assert tokenizer.pad_token_id == size
    assert choose_pad(tokenizer, tiny_model(size).config) == tokenizer.eos_token_id < size
    assert tokenizer.pad_token == tokenizer.eos_token


def test_pad_of_a_tokenizer_without_any_special_token_is_none_of_its_own():
    tokenizer = tokenizers.lookalike_tokenizer()
    tokenizer.unk_token = None
    assert choose_pad(tokenizer, tiny_model(len(tokenizer)).config) == 0
    assert tokenizer.pad_token is None


def test_end_stays_supervised_where_it_is_the_pad_too():
    tokenizer = tokenizers.gpt2_style_tokenizer()
    pad = choose_pad(tokenizer, tiny_model(len(tokenizer)).config)
    assert pad == tokenizer.eos_token_id
    batch = collate(
        [encode_sample(tokenizer, Sample("1+2=", "3")), encode_sample(tokenizer, Sample("a b c d ", "4"))], pad
    )
    assert (batch.labels == pad).sum(1).tolist() == [1, 1]
    assert batch.attention_mask.sum(1).tolist() == [6, 10]


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "chosen"),
    [("qwen", "<|endoftext|>"), ("mistral", "<unk>"), ("llama2", "<unk>"), ("gpt2", "<|endoftext|>")],
)
def test_pad_of_real_tokenizers_grows_nothing(name, chosen):
    tokenizer = copy.deepcopy(REAL[name]())
    size = len(tokenizer)
    choose_pad(tokenizer, SimpleNamespace(vocab_size=size))
    assert (tokenizer.pad_token, len(tokenizer)) == (chosen, size)


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


def test_heldout_problems_are_different_and_as_many_as_there_are():
    products = heldout_problems("product", 500)
    pairs = [(a, b) for a in range(2, 20) for b in range(2, 20) if is_heldout(f"{a}*{b}")]
    assert {sample.prompt for sample in products} == {f"{a} * {b} = " for a, b in pairs}
    assert len(products) == len(pairs) == 30
    drawn = [arithmetic_sample(i, 0, "heldout", "decimal") for i in range(100)]
    assert heldout_problems("decimal", 50) == list({sample.prompt: sample for sample in drawn}.values())[:50]


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
