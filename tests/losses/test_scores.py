"""Cross-entropy and columns read off full logits a block at a time equal PyTorch's own, in value and gradient."""

import pytest
import torch
import torch.nn.functional as F

from delcore.digits import IGNORE, DigitVocab
from delcore.losses import _scores, numeric_loss
from delcore.losses._scores import read_scores
from delcore.losses.lean import lean_loss

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


# ---------------------------------------------------------------- second derivatives


def test_scores_pass_gradgradcheck():
    logits, labels, _ = draw(1, 3)
    labels[0, 1] = IGNORE
    assert torch.autograd.gradgradcheck(lambda z: read_scores(z, labels, IDS), logits)


def plain_loss(name, logits, labels):
    """The composite of PyTorch's own parts, for labels of which every one is a digit or no number at all."""
    flat, flat_labels = logits.flatten(0, 1), labels.flatten()
    total = F.cross_entropy(flat, flat_labels, ignore_index=IGNORE)
    if name == "mle":
        return total
    is_true = flat_labels.unsqueeze(-1) == IDS[:10]
    at_digits = is_true.any(-1)
    digits, is_true = flat.index_select(-1, IDS[:10])[at_digits], is_true[at_digits]
    if name == "ntl_was":
        cost = (torch.arange(10) - is_true.long().argmax(-1, keepdim=True)).abs()
        return total + 0.3 * (digits.softmax(-1) * cost).sum(-1).mean()
    per_class = F.binary_cross_entropy_with_logits(digits, is_true.double(), reduction="none")
    return total + 0.1 * (digits.softmax(-1) * per_class).sum(-1).mean()


@pytest.mark.parametrize(("name", "options"), [("mle", {}), ("ntl_was", {}), ("del", {"place": "none"})])
def test_hessian_of_a_loss_equals_that_of_its_plain_composite(name, options):
    logits = draw(2, 3)[0].detach()
    labels = torch.tensor([[12, 4, IGNORE], [15, 3, 6]])  # two digits among them
    vocab = DigitVocab(IDS[:10].tolist(), dot=int(IDS[10]))
    found = torch.autograd.functional.hessian(
        lambda z: numeric_loss(name, z, labels, vocab, **options).total, logits, strict=True
    )
    expected = torch.autograd.functional.hessian(lambda z: plain_loss(name, z, labels), logits)
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- precision at any level of the logits


@pytest.mark.parametrize("offset", [0.0, 20.0, 1000.0, 1e4, -1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("path", ["full", "lean"])
def test_cross_entropy_at_any_level_is_as_exact_as_pytorchs(path, dtype, offset):
    """Value and gradient, judged against float64 of the same rounded logits."""
    generator = torch.Generator().manual_seed(5)
    spread = torch.randn(1, 40, 60, dtype=torch.float64, generator=generator) * torch.linspace(0.1, 8, 40).view(-1, 1)
    logits = (spread + offset).to(dtype)
    # The most probable token as label: its small cross-entropy is what a large logit swallows.
    labels = torch.where(torch.arange(40) % 2 == 0, logits.float().argmax(-1), torch.arange(40))
    truth = torch_cross_entropy(logits.double(), labels)
    naive = torch_cross_entropy(logits, labels)
    found = (full_cross_entropy if path == "full" else lean_cross_entropy)(logits, labels)
    for mine, theirs, exact in zip(found, naive, truth, strict=True):
        ulp = torch.finfo(torch.float32).eps * exact.abs().max()
        assert (mine.double() - exact).abs().max() <= 2 * (theirs.double() - exact).abs().max() + ulp


def torch_cross_entropy(logits, labels):
    """Cross-entropy of each position, and the gradient of its mean by the logits."""
    logits = logits.clone().requires_grad_()
    dtype = torch.promote_types(logits.dtype, torch.float32)
    values = F.cross_entropy(logits[0].to(dtype), labels[0], reduction="none")
    return values.detach(), torch.autograd.grad(values.mean(), logits)[0]


def full_cross_entropy(logits, labels):
    logits = logits.clone().requires_grad_()
    out = numeric_loss("mle", logits, labels, DigitVocab(range(10)))
    return out.per_position[0].detach(), torch.autograd.grad(out.total, logits)[0]


def lean_cross_entropy(logits, labels):
    """With unit vectors for states the scores are the head itself, and so are their gradients."""
    states, head = torch.eye(logits.shape[1], dtype=logits.dtype).unsqueeze(0), logits[0].T.clone().requires_grad_()
    out = lean_loss("mle", states, head, labels, DigitVocab(range(10)))
    return out.per_position[0].detach(), torch.autograd.grad(out.total, head)[0].T.unsqueeze(0)


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, RuntimeError])
def test_no_room_for_the_gradient_is_told_with_its_arithmetic_and_the_remedy(monkeypatch, kind):
    """B19: 4 × 1024 × 151936 in bfloat16 are 1.16 GiB."""

    def full(*_, **__):
        raise kind("out of memory")

    logits = torch.zeros(4, 1024, 151_936, dtype=torch.bfloat16, device="meta", requires_grad=True)
    total = read_scores(logits, torch.zeros(4, 1024, dtype=torch.long, device="meta"), IDS.to("meta"))[0].sum()
    monkeypatch.setattr(_scores.torch, "empty_like", full)
    with pytest.raises(kind, match=r"4 × 1024 × 151936 × 2 bytes = 1\.16 GiB in bfloat16.*`lean_loss`"):
        total.backward()
