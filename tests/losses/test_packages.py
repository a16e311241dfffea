"""Random inputs through the published packages `ntloss` 0.3.2 and `EMOLoss` 0.0.3, and through delcore: the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from delcore.data import align
from delcore.digits import IGNORE, DigitVocab
from delcore.losses import numeric_loss
from tests.tokenizers_for_tests import gpt2_style_tokenizer, v12_tokenizer

emo_package = pytest.importorskip("emo")
ntloss = pytest.importorskip("ntloss")

CHARACTERS = "0123456789.a_"


@st.composite
def inputs(draw) -> tuple[list[str], int, float]:
    rows, length = draw(st.integers(1, 3)), draw(st.integers(2, 8))
    texts = [draw(st.text(CHARACTERS, min_size=length, max_size=length)) for _ in range(rows)]
    return texts, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.1, 1.0, 5.0]))


def tensors(drawn, width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Float64 logits, labels and an embedding; the packages keep that precision."""
    texts, seed, scale = drawn
    generator = torch.Generator().manual_seed(seed)
    ids = [[IGNORE if c == "_" else CHARACTERS.index(c) for c in text] for text in texts]
    logits = scale * torch.randn(len(ids), len(ids[0]), width, generator=generator, dtype=torch.float64)
    embedding = torch.randn(width, 6, generator=generator, dtype=torch.float64)
    return logits, torch.tensor(ids), embedding


def value_and_gradient(function, logits: torch.Tensor) -> tuple[float, torch.Tensor]:
    logits = logits.clone().requires_grad_()
    value = function(logits)
    if not value.requires_grad:  # ntloss without digits
        return value.item(), torch.zeros_like(logits)
    (gradient,) = torch.autograd.grad(value, logits)
    return value.item(), gradient


def assert_same(found: tuple, expected: tuple) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-6, abs=1e-9)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("reweigh", [False, True])
@pytest.mark.parametrize(("name", "package_class"), [("ntl_was", "NTLoss"), ("ntl_mse", "NTLossDotProduct")])
@settings(deadline=None, max_examples=25)
@given(drawn=inputs())
def test_ntl_equals_ntloss(name, package_class, reweigh, drawn):
    logits, labels, _ = tensors(drawn, width=12)
    package_loss = getattr(ntloss, package_class)(v12_tokenizer(), reweigh=reweigh)
    form = "reweighed" if reweigh else "paper"
    vocab = DigitVocab(range(10), dot=10)
    # ntloss scales in place, so it gets tensors of its own.
    expected = value_and_gradient(lambda z: package_loss(z.clone(), labels.clone()), logits)
    found = value_and_gradient(lambda z: numeric_loss(name, z, labels, vocab, alpha=1.0, form=form).digit_term, logits)
    assert_same(found, expected)


def test_ntl_equals_ntloss_on_digit_ids_of_a_real_layout():
    tokenizer = gpt2_style_tokenizer()
    vocab = DigitVocab.from_tokenizer(tokenizer)
    package_loss = ntloss.NTLoss(gpt2_style_tokenizer(), reweigh=True)
    logits = torch.randn(2, 9, len(tokenizer), generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([tokenizer.convert_tokens_to_ids(list(text)) for text in ("3.14159xy", "271828182")])
    expected = package_loss(logits.clone(), labels.clone()).item()
    found = numeric_loss("ntl_was", logits, labels, vocab, alpha=1.0, form="reweighed").digit_term.item()
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("mode", "form"), [(1, "capped"), (2, "anchored")])
@settings(deadline=None, max_examples=40)
@given(drawn=inputs())
def test_emo_equals_emoloss(mode, form, drawn):
    logits, labels, embedding = tensors(drawn, width=14)
    vocab = DigitVocab(range(10), dot=10)
    # EMOLoss shifts by itself: here `align` does.
    expected = value_and_gradient(
        lambda z: emo_package.EMOLoss(z, labels.clone(), embedding.clone(), mode=mode), logits
    )
    found = value_and_gradient(
        lambda z: numeric_loss("emo", *align(z, labels), vocab, embedding=embedding, form=form).total, logits
    )
    assert_same(found, expected)
