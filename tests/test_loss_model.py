"""What a model has to be like for its logits never to be made, and that all others still train."""

import warnings

import pytest
import torch
from transformers import ElectraConfig, ElectraForCausalLM, MambaConfig, MambaForCausalLM

from delcore import DigitVocab, InputError
from delcore.adapt import add_lora
from delcore.data import align
from delcore.loss_model import LossModel
from delcore.losses import numeric_loss
from delcore.models import byte_tokenizer
from tests.models_for_tests import tiny_model
from tests.test_train import config

VOCAB = DigitVocab.from_tokenizer(byte_tokenizer())


def electra() -> ElectraForCausalLM:
    """Its head has layers of its own between the states and the columns, and another width."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 259, "embedding_size": 8, "hidden_size": 16, "num_attention_heads": 2}
    return ElectraForCausalLM(ElectraConfig(**sizes, num_hidden_layers=1, intermediate_size=16, is_decoder=True)).eval()


def mamba() -> MambaForCausalLM:
    torch.manual_seed(0)
    return MambaForCausalLM(MambaConfig(vocab_size=259, hidden_size=16, state_size=4, num_hidden_layers=1)).eval()


def batch(length: int = 6) -> dict[str, torch.Tensor]:
    ids = torch.tensor([[VOCAB.ids[i % 10] for i in range(length)]])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


@pytest.mark.parametrize("context", [2, 7])
def test_lean_model_with_a_context_below_eight_tokens_is_lean(context):
    model = LossModel(tiny_model(context=context), "del", VOCAB)
    assert model.why_full is None
    assert model(**batch(context)).total.isfinite()


def test_model_whose_head_has_layers_of_its_own_gets_full_logits_without_a_warning():
    model = electra()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss_model = LossModel(model, "del", VOCAB)
    assert "made in full" in loss_model.why_full
    inputs = batch()
    logits = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    expected = numeric_loss("del", *align(logits, inputs["labels"]), VOCAB)
    torch.testing.assert_close(loss_model(**inputs).total, expected.total)


def test_adapters_on_layers_that_do_not_take_them_are_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="--lora-rank") as refused:
        add_lora(mamba(), config(tmp_path, lora_rank=2))
    assert "\n" not in str(refused.value)


def test_rank_above_the_models_width_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"--lora-rank.*16; got 17"):
        add_lora(tiny_model(), config(tmp_path, lora_rank=17))
