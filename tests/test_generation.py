"""What a model can be given: padding if it knows a mask, and no token ids but its own."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, MambaConfig, MambaForCausalLM, RwkvConfig, RwkvForCausalLM

from delcore import InputError
from delcore.arithmetic import Sample
from delcore.benchmarks.generate import answer_greedily
from delcore.evaluate import measure_exact_match
from delcore.generation import answers_alike
from delcore.models import LoadedModel, load_model
from delcore.probe import probe
from delcore.readout import append_greedily, prompt_ids
from tests.models_for_tests import tiny_loaded

PROMPTS = ["2 + 3 = ", "a much longer prompt, of some forty bytes: ", "x", "10 + 20 = ", "7 + 7 = "]
TEN = prompt_ids(tiny_loaded().tokenizer, "1 + 2 = 3;")


def recurrent(seed: int = 0) -> LoadedModel:
    """A model with a state that runs over every token and knows no mask."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "attention_hidden_size": 32, "num_hidden_layers": 2}
    config = RwkvConfig(vocab_size=259, context_length=256, bos_token_id=1, eos_token_id=2, **sizes)
    return tiny_loaded(context=256)._replace(model=RwkvForCausalLM(config).eval())


def masked(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if name == "gpt2":
        return GPT2LMHeadModel(GPT2Config(vocab_size=259, n_embd=32, n_layer=2, n_head=2, eos_token_id=2)).eval()
    if name == "mamba":
        config = MambaConfig(vocab_size=259, hidden_size=32, num_hidden_layers=2, eos_token_id=2, pad_token_id=0)
        return MambaForCausalLM(config).eval()
    return load_model("embedded").model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["gpt2", "mamba", "embedded"])
def test_model_that_knows_a_mask_answers_alike_in_any_precision(name, dtype):
    assert answers_alike(masked(name).to(dtype), tiny_loaded().tokenizer, TEN)


@pytest.mark.parametrize("seed", range(3))
def test_model_that_answers_alike_for_text_is_found_out(seed):
    assert not answers_alike(recurrent(seed).model, tiny_loaded().tokenizer, TEN)


@pytest.mark.parametrize("batch_size", [2, 5])
def test_recurrent_model_answers_in_any_batch_as_it_does_alone_and_one_line_says_so(batch_size):
    loaded, lines = recurrent(), []
    ids = [prompt_ids(loaded.tokenizer, prompt) for prompt in PROMPTS]
    alone = [append_greedily(*loaded[:2], [row], 6)[0] for row in ids]
    assert append_greedily(*loaded[:2], ids, 6) == alone
    asked = dict(enumerate(PROMPTS))
    settings = {"cut": lambda text: text, "max_new_tokens": 6, "context": 256, "batch_size": batch_size}
    batches = list(answer_greedily(*loaded[:2], asked, say=lines.append, **settings))
    found = {i: answer.output for batch in batches for i, answer in batch}
    assert found == {i: loaded.tokenizer.decode(new, skip_special_tokens=True) for i, new in enumerate(alone)}
    assert {len(batch) for batch in batches} == {1}
    (line,) = lines
    assert "asked one by one" in line


def test_exact_match_of_a_recurrent_model_does_not_depend_on_the_other_samples():
    loaded = recurrent()
    written = loaded.tokenizer.decode(append_greedily(*loaded[:2], [TEN], 6)[0], skip_special_tokens=True)
    samples = [Sample("1 + 2 = 3;", written), *(Sample(prompt, "no") for prompt in PROMPTS)]
    alone = measure_exact_match(loaded, samples[:1])
    assert measure_exact_match(loaded, samples).correct == alone.correct


def test_model_that_answers_alike_says_nothing():
    lines = []
    settings = {"cut": lambda text: text, "max_new_tokens": 2, "context": 64, "batch_size": 5}
    list(answer_greedily(*tiny_loaded()[:2], dict(enumerate(PROMPTS)), say=lines.append, **settings))
    assert lines == []


def test_model_that_mixes_up_the_states_of_a_batch_is_found_out_at_the_second_token(monkeypatch):
    """Without a cache the first token is right, and so is every token that is read anew."""
    loaded = tiny_loaded()
    usual = type(loaded.model).forward

    def forward(self, input_ids=None, **more):
        out = usual(self, input_ids=input_ids, **more)
        if input_ids.shape == (2, 1):
            out.logits = out.logits.flip(0)
        return out

    monkeypatch.setattr(type(loaded.model), "forward", forward)
    assert not answers_alike(*loaded[:2], TEN)


# ---------------------------------------------------------------- token ids


def narrow(rows: int) -> LoadedModel:
    """A model with fewer embedding rows than its tokenizer has tokens."""
    loaded = tiny_loaded()
    loaded.model.resize_token_embeddings(rows)
    return loaded


def test_token_id_beyond_the_embedding_is_one_clear_line():
    loaded = narrow(60)
    high = max(prompt_ids(loaded.tokenizer, "z"))
    words = f"has 60 embedding rows, but its tokenizer writes this text with the token id {high}"
    for ask in (
        lambda: append_greedily(*loaded[:2], [[1, high]], 3),
        lambda: probe("z", {"tiny": loaded}),
        lambda: list(
            answer_greedily(
                *loaded[:2], {0: "1", 1: "z"}, cut=lambda text: text, max_new_tokens=3, batch_size=2, context=64
            )
        ),
    ):
        with pytest.raises(InputError, match=words):
            ask()


def test_pad_token_that_the_model_lacks_is_not_padded_with():
    loaded, other = narrow(150), narrow(150)
    assert other.tokenizer.add_special_tokens({"pad_token": "<|another pad|>"})
    assert other.tokenizer.pad_token_id >= 150
    ids = [prompt_ids(loaded.tokenizer, prompt) for prompt in ("1+1=", "1", "12+1")]
    assert append_greedily(*other[:2], ids, 9) == append_greedily(*loaded[:2], ids, 9)
