"""Cross-entropy and columns read off full logits a block at a time equal PyTorch's own, in value and gradient."""

import pytest
import torch
import torch.nn.functional as F

from delcore.digits import IGNORE
from delcore.losses import _scores
from delcore.losses._scores import read_scores

COLUMNS = 17
IDS = torch.tensor([3, 9, 1, 12, 7, 5, 2, 16, 11, 0, 14])


def draw(batch=3, seq=9, dtype=torch.float64):
    generator = torch.Generator().manual_seed(batch + seq)
    logits = torch.randn(batch, seq, COLUMNS, dtype=torch.float64, generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(0, COLUMNS, (batch, seq), generator=generator)
    labels[torch.rand(batch, seq, generator=generator) < 0.3] = IGNORE
    slopes = torch.randn(batch, seq, generator=generator), torch.randn(batch, seq, len(IDS), generator=generator)
    return logits, labels, [slope.double() for slope in slopes]


def naive_scores(logits, labels):
    dtype = torch.promote_types(logits.dtype, torch.float32)
    flat = F.cross_entropy(logits.flatten(0, 1).to(dtype), labels.flatten(), ignore_index=IGNORE, reduction="none")
    return flat.view(labels.shape), logits[..., IDS].to(dtype)


def gradient(function, logits, labels, slopes):
    total = sum((slope * part).sum() for slope, part in zip(slopes, function(logits, labels), strict=True))
    return torch.autograd.grad(total, logits)[0]


@pytest.mark.parametrize("positions", [1, 4, 9, 20, 10_000], ids=lambda n: f"blocks of {n}")
@pytest.mark.parametrize("shape", [(3, 9), (1, 30), (30, 1), (1, 1)])
def test_scores_in_blocks_equal_pytorchs_in_value_and_gradient(monkeypatch, positions, shape):
    monkeypatch.setattr(_scores, "BLOCK_BYTES", positions * COLUMNS * 8)
    logits, labels, slopes = draw(*shape)
    torch.testing.assert_close(read_scores(logits, labels, IDS), naive_scores(logits, labels), rtol=1e-12, atol=1e-12)
    found = gradient(lambda z, y: read_scores(z, y, IDS), logits, labels, slopes)
    torch.testing.assert_close(found, gradient(naive_scores, logits, labels, slopes), rtol=1e-12, atol=1e-12)


def test_scores_of_a_shifted_view_equal_those_of_its_copy():
    logits, labels, slopes = draw()
    view, shifted, cut = logits[:, :-1], labels[:, 1:], [slope[:, 1:] for slope in slopes]
    assert not view.is_contiguous()
    torch.testing.assert_close(read_scores(view, shifted, IDS), naive_scores(view.contiguous(), shifted))
    found = gradient(lambda z, y: read_scores(z[:, :-1], y, IDS), logits, shifted, cut)
    torch.testing.assert_close(found, gradient(lambda z, y: naive_scores(z[:, :-1], y), logits, shifted, cut))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_of_low_precision_are_float32_and_their_gradient_keeps_the_dtype(dtype):
    logits, labels, slopes = draw(dtype=dtype)
    cross_entropy, columns = read_scores(logits, labels, IDS)
    assert cross_entropy.dtype == columns.dtype == torch.float32
    found = gradient(lambda z, y: read_scores(z, y, IDS), logits, labels, [slope.float() for slope in slopes])
    assert found.dtype == dtype
    exact = gradient(naive_scores, logits.detach().double().requires_grad_(), labels, slopes)
    torch.testing.assert_close(found.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-4)


@pytest.mark.parametrize("junk", [float("nan"), float("inf"), float("-inf")])
def test_scores_where_nothing_is_supervised_pass_no_junk_into_the_gradient(junk):
    logits, labels, slopes = draw()
    dirty = torch.where((labels == IGNORE).unsqueeze(-1), junk, logits.detach()).requires_grad_()
    cross_entropy, columns = read_scores(dirty, labels, IDS)
    assert cross_entropy[labels == IGNORE].eq(0).all()
    assert columns[labels != IGNORE].isfinite().all()
    found = gradient(lambda z, y: read_scores(z, y, IDS)[:1], dirty, labels, slopes[:1])
    clean = gradient(lambda z, y: read_scores(z, y, IDS)[:1], logits, labels, slopes[:1])
    assert torch.equal(found, clean)


def test_scores_with_a_label_out_of_range_raise_instead_of_reading_another_column():
    logits, labels, _ = draw()
    labels[0, 0] = -5
    with pytest.raises((RuntimeError, IndexError)):
        read_scores(logits, labels, IDS)


def test_scores_are_differentiated_once():
    logits, labels, _ = draw()
    total = read_scores(logits, labels, IDS)[0].sum()
    (first,) = torch.autograd.grad(total, logits, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable|does not require grad"):
        first.sum().backward()
