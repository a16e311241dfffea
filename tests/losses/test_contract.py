"""What every loss in the registry keeps, whatever the batch, the cut and the precision: cases B11–B20, B40, B41."""

import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from delcore.digits import IGNORE, DigitVocab
from delcore.losses import LOSSES, LossOutput, numeric_loss
from delcore.losses.lean import lean_loss
from tests.losses.reference_losses import slow_loss
from tests.tokenizers_for_tests import V12

VOCAB = DigitVocab(range(10), dot=10)
LETTER = V12["a"]

VARIANTS = [
    *((name, {}) for name in LOSSES),
    ("mixce", {"eta": 0.0}),
    ("mixce", {"eta": 1.0}),
    ("emo", {"cap": 0.7}),
    ("emo", {"form": "uncapped"}),
    ("emo", {"form": "anchored"}),
    ("ntl_was", {"form": "released"}),
    ("ntl_was", {"form": "reweighed", "alpha": 0.5}),
    ("ntl_was", {"place": "decimal", "distance": "permuted:3"}),
    ("ntl_mse", {"form": "released"}),
    ("ntl_mse", {"form": "reweighed"}),
    ("ntl_mse", {"place": "integer", "distance": "permuted:4"}),
    ("dist2", {"tau": 0.25, "alpha": 2.0}),
    ("dist2", {"softmax": "vocabulary"}),
    ("dist2", {"form": "released"}),
    ("dist2", {"place": "decimal", "distance": "permuted:5"}),
    ("del", {"alpha": 0.0}),
    ("del", {"place": "none", "bce": "conditional"}),
    ("del", {"place": "integer", "distance": "l1"}),
    ("del", {"place": "released", "criterion": "entropy"}),
    ("del", {"criterion": "cross_entropy", "alpha": 1.0}),
    ("del", {"integer_factor": 3.0, "decimal_base": 1.3, "distance": "l1", "bce": "conditional"}),
    ("del", {"dot": True}),
    ("del", {"dot": True, "distance": "l1", "place": "none"}),
    ("del", {"dot": True, "bce": "conditional", "place": "integer"}),
    ("del", {"dot": True, "criterion": "entropy"}),
]
"""Each loss as it is, and with its options; the contract holds for all of them."""

STOPPED = ("mixce", "emo")
"""Losses with a factor that has no gradient."""


def named(variant) -> str:
    name, options = variant
    return "-".join([name, *(f"{key}={value}" for key, value in options.items())])


every_loss = pytest.mark.parametrize("name", LOSSES)
every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=named)


# ---------------------------------------------------------------- batches


@dataclass(frozen=True)
class Batch:
    logits: torch.Tensor
    labels: torch.Tensor
    vocab: DigitVocab = VOCAB
    segments: torch.Tensor | None = None
    embedding: torch.Tensor | None = None


def written(*texts: str, width: int = 12, seed: int = 0, scale: float = 2.0, dtype=torch.float64) -> Batch:
    """One character a position, as `V12` reads it ("_" is masked), with random logits."""
    length = max(map(len, texts))
    labels = [[IGNORE if c == "_" else V12.get(c, LETTER) for c in text.ljust(length)] for text in texts]
    labels = torch.tensor(labels).reshape(len(texts), length)
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(*labels.shape, width, generator=generator, dtype=torch.float64)
    embedding = torch.randn(width, 5, generator=generator, dtype=torch.float64)
    return Batch(logits.to(dtype), labels, embedding=embedding.to(dtype))


def renamed(batch: Batch, order: torch.Tensor) -> Batch:
    """The same batch with token `i` called `order[i]`."""
    back = order.argsort()
    labels = torch.where(batch.labels == IGNORE, IGNORE, order[batch.labels.clamp(min=0)])
    vocab = DigitVocab(order[list(batch.vocab.ids)].tolist(), dot=int(order[batch.vocab.dot]))
    return replace(batch, logits=batch.logits[..., back], labels=labels, vocab=vocab, embedding=batch.embedding[back])


@st.composite
def recipes(draw) -> dict:
    """Any shape, text, packing, head width and order of the vocabulary; `built` makes a batch of it.

    (Plain values only: the type checks of a test run draw random numbers, which a strategy must not.)
    """
    rows, length = draw(st.integers(1, 3)), draw(st.integers(1, 8))
    character = st.sampled_from("0123456789" + "." * 6 + "a" * 2 + "_" * 2)
    border = st.lists(st.sampled_from([0, 0, 0, 1]), min_size=length, max_size=length)
    return {
        "texts": [draw(st.text(character, min_size=length, max_size=length)) for _ in range(rows)],
        "segments": [draw(border) for _ in range(rows)] if draw(st.booleans()) else None,
        "width": draw(st.integers(12, 18)),
        "seed": draw(st.integers(0, 2**32 - 1)),
        "scale": draw(st.sampled_from([0.1, 1.0, 4.0])),
    }


def built(recipe: dict) -> Batch:
    width, seed = recipe["width"], recipe["seed"]
    batch = written(*recipe["texts"], width=width, seed=seed, scale=recipe["scale"])
    if recipe["segments"]:
        batch = replace(batch, segments=torch.tensor(recipe["segments"]))
    return renamed(batch, torch.randperm(width, generator=torch.Generator().manual_seed(seed)))


def loss_of(variant, batch: Batch, **step) -> LossOutput:
    name, options = variant
    embedding = batch.embedding if name == "emo" else None
    return numeric_loss(
        name, batch.logits, batch.labels, batch.vocab, segments=batch.segments, embedding=embedding, **step, **options
    )


def slow_loss_of(variant, batch: Batch, **extra):
    name, options = variant
    return slow_loss(
        name,
        batch.logits,
        batch.labels,
        batch.vocab,
        segments=batch.segments,
        embedding=batch.embedding,
        **extra,
        **options,
    )


def gradient_of(variant, batch: Batch, field: str = "total", **step) -> torch.Tensor:
    logits = batch.logits.clone().requires_grad_()
    getattr(loss_of(variant, replace(batch, logits=logits), **step), field).backward()
    return logits.grad


def assert_same(out: LossOutput, slow, *, rtol: float, atol: float) -> None:
    for name in LossOutput._fields:
        found, expected = getattr(out, name), torch.tensor(getattr(slow, name), dtype=torch.float64)
        torch.testing.assert_close(found.detach().double(), expected, rtol=rtol, atol=atol, msg=lambda m, n=name: n + m)


# ---------------------------------------------------------------- values

LN2, LN10, LN12 = math.log(2), math.log(10), math.log(12)

# One digit 3 under twelve equal logits, so p̂ = 0.1 and q = 1/12; every embedding at a right angle to the others.
BY_HAND = {
    "mle": LN12,
    "mixce": (0.5 + 0.5 / 12) * LN12,
    "emo": LN12,  # e = 11/12 and CE/e = 2.71 is under the cap of 3
    "ntl_was": LN12 + 0.3 * 2.7,  # distances 3 2 1 0 1 2 3 4 5 6, a tenth each
    "ntl_mse": LN12 + 0.3 * (4.5 - 3) ** 2,
    "dist2": LN12 + 0.1 * 1.231139,  # case B41
    "del": LN12 + 0.1 * 2 * LN2,  # ten times p̂ · ln 2; units weigh 2
    "del_released": LN12 + 0.01 * 2 * LN2 / 10,
}


@every_loss
def test_value_of_one_uniform_digit_matches_the_hand_value(name):
    batch = Batch(torch.zeros(1, 1, 12), torch.tensor([[3]]), embedding=torch.eye(12))
    out = loss_of((name, {}), batch)
    assert out.total.item() == pytest.approx(BY_HAND[name], rel=1e-6)
    assert out.per_position.tolist() == [[pytest.approx(BY_HAND[name], rel=1e-6)]]
    assert out.digit_entropy_nats.item() == pytest.approx(LN10, rel=1e-6)
    assert out.digit_mass.item() == pytest.approx(10 / 12, rel=1e-6)


# Worked by hand for the label 3 as above, each with α = 1; the digit term only.
OPTIONS_BY_HAND = [
    ("ntl_was", {"form": "released"}, 0.27),  # note S2
    ("ntl_was", {"form": "paper"}, 2.7),
    ("ntl_mse", {"form": "paper"}, 2.25),
    ("ntl_was", {"form": "reweighed"}, 10 / 12 * 2.7 + 1.01 * 9 * 2 / 12),
    ("ntl_mse", {"form": "reweighed"}, 10 / 12 * 2.25 + 1.01 * 81 * 2 / 12),
    ("ntl_was", {"place": "decimal"}, 2 * 2.7),
    ("dist2", {"softmax": "vocabulary"}, 1.231139 + math.log(1.2)),
    ("del", {"place": "none"}, LN2),
    ("del", {"distance": "l1", "place": "none"}, 2.7 * LN2),
    ("del", {"criterion": "entropy", "place": "none"}, LN10),
    ("del", {"criterion": "cross_entropy", "place": "none"}, LN10),
    ("del", {"bce": "conditional", "place": "none"}, 0.1 * LN10 + 0.9 * math.log(10 / 9)),
    ("del", {"integer_factor": 5.0}, 5 * LN2),
    ("del", {"dot": True, "place": "none"}, LN2),  # eleven classes now, but they still add up to 1
    ("del", {"dot": True, "criterion": "entropy", "place": "none"}, math.log(11)),
]


@pytest.mark.parametrize(("name", "options", "expected"), OPTIONS_BY_HAND, ids=lambda value: str(value))
def test_digit_term_of_one_uniform_digit_matches_the_hand_value(name, options, expected):
    batch = Batch(torch.zeros(1, 1, 12), torch.tensor([[3]]))
    assert loss_of((name, {"alpha": 1.0, **options}), batch).digit_term.item() == pytest.approx(expected, rel=1e-6)


def test_digit_term_of_a_decimal_point_weighs_a_half_and_is_at_no_distance_from_itself():
    batch = replace(written("1.5"), logits=torch.zeros(1, 3, 12))
    point = loss_of(("del", {"dot": True, "alpha": 1.0}), batch).per_position[0, 1].item() - LN12
    assert point == pytest.approx(0.5 * LN2, rel=1e-6)
    far = loss_of(("del", {"dot": True, "distance": "l1", "alpha": 1.0}), batch).per_position[0, 1].item() - LN12
    assert far == pytest.approx(0.5 * 10 * 10 / 11 * LN2, rel=1e-6)  # ten digits, each ten steps away


@every_variant
@settings(deadline=None, max_examples=12)
@given(recipe=recipes())
def test_output_in_float64_equals_the_slow_loop(variant, recipe):
    batch = built(recipe)
    # Place weights are float32, hence the tolerance.
    assert_same(loss_of(variant, batch), slow_loss_of(variant, batch), rtol=3e-7, atol=1e-9)


@every_variant
def test_output_in_float32_equals_the_slow_loop(variant):
    batch = replace(written("3.14, 42. .5", "1.2.3_99a_07", dtype=torch.float32), segments=torch.zeros(2, 12).long())
    assert_same(loss_of(variant, batch), slow_loss_of(variant, batch), rtol=2e-5, atol=1e-6)


@every_variant
def test_total_is_token_term_plus_digit_term(variant):
    out = loss_of(variant, written("3.14a", "_12__"))
    assert torch.equal(out.total, out.token_term + out.digit_term)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v[0] != "del_released"], ids=named)
def test_per_position_adds_up_to_the_total_over_the_steps_counts(variant):
    batch = written("3.14a", "_12__")
    out = loss_of(variant, batch, step_tokens=1, step_digits=1)
    torch.testing.assert_close(out.per_position.sum(), out.total)
    assert torch.equal(
        out.per_position[batch.labels == IGNORE], torch.zeros(4).double()[: int((batch.labels < 0).sum())]
    )


# ---------------------------------------------------------------- derivatives


class SurrogateLoss(torch.autograd.Function):
    """Forward: the slow loop, its stopped factor frozen at `point`. Backward: the gradient that delcore gives there.

    So `gradcheck` compares delcore's gradient with numerical derivatives of what that gradient is meant to be of.
    """

    @staticmethod
    def forward(context, logits, point, variant, batch):
        context.variant, context.batch = variant, replace(batch, logits=logits.detach())
        return torch.tensor(slow_loss_of(variant, context.batch, stopped_at=point).total, dtype=torch.float64)

    @staticmethod
    def backward(context, gradient):
        with torch.enable_grad():
            return gradient_of(context.variant, context.batch) * gradient, None, None, None


@every_variant
def test_gradient_passes_gradcheck(variant):
    batch = written("1.5")
    logits = batch.logits.clone().requires_grad_()
    if variant[0] in STOPPED:
        assert torch.autograd.gradcheck(lambda z: SurrogateLoss.apply(z, batch.logits, variant, batch), logits)
    else:
        assert torch.autograd.gradcheck(
            lambda z: loss_of(variant, replace(batch, logits=z)).total, logits, fast_mode=True
        )


@pytest.mark.parametrize(
    "variant", [("mixce", {}), ("emo", {"form": "uncapped"}), ("emo", {"form": "anchored"})], ids=named
)
def test_gradient_of_a_stopped_factor_is_not_that_of_the_value(variant):
    batch = written("1.5", scale=0.5)
    logits = batch.logits.clone().requires_grad_()
    assert not torch.autograd.gradcheck(
        lambda z: loss_of(variant, replace(batch, logits=z)).total, logits, raise_exception=False, fast_mode=True
    )


@every_variant
def test_gradient_equals_the_five_point_derivative(variant):
    batch = written("3.14a", "_12__", seed=1)
    gradient = gradient_of(variant, batch)
    generator = torch.Generator().manual_seed(2)
    h = 1e-3
    for _ in range(4):
        direction = torch.randn(batch.logits.shape, generator=generator, dtype=torch.float64)
        f = [
            slow_loss_of(
                variant, replace(batch, logits=batch.logits + k * h * direction), stopped_at=batch.logits
            ).total
            for k in (-2, -1, 1, 2)
        ]
        derivative = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
        assert (gradient * direction).sum().item() == pytest.approx(derivative, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0])
def test_gradient_of_mixce_is_that_of_cross_entropy_times_the_stopped_factor(eta):
    batch = written("3", seed=3)
    q = batch.logits.softmax(-1)[0, 0, 3]
    expected = (eta + (1 - eta) * q) * gradient_of(("mle", {}), batch)
    torch.testing.assert_close(gradient_of(("mixce", {"eta": eta}), batch), expected)


# ---------------------------------------------------------------- what must not change a loss


@every_variant
def test_padding_changes_nothing(variant):
    batch = written("3.14, 42.", "1.2.3_99a")
    garbage = replace(written("_" * 13, "_" * 13, "_" * 13, seed=5, scale=1e3), embedding=batch.embedding)
    garbage.logits[:2, :9], garbage.labels[:2, :9] = batch.logits, batch.labels
    padded, plain = loss_of(variant, garbage), loss_of(variant, batch)
    for field in ("total", "token_term", "digit_term", "n_tokens", "n_digits", "digit_mass", "digit_entropy_nats"):
        torch.testing.assert_close(getattr(padded, field), getattr(plain, field))
    gradient = gradient_of(variant, garbage)
    torch.testing.assert_close(gradient[:2, :9], gradient_of(variant, batch))
    gradient[:2, :9] = 0
    assert not gradient.any()


@every_variant
def test_packing_samples_into_one_row_changes_nothing(variant):
    apart = written("3.14", "1599", ".5a_")
    packed = replace(
        apart,
        logits=apart.logits.flatten(0, 1).unsqueeze(0),
        labels=apart.labels.flatten().unsqueeze(0),
        segments=torch.arange(3).repeat_interleave(4).unsqueeze(0),
    )
    torch.testing.assert_close(loss_of(variant, packed).total, loss_of(variant, apart).total)
    torch.testing.assert_close(gradient_of(variant, packed), gradient_of(variant, apart).flatten(0, 1).unsqueeze(0))


@pytest.mark.parametrize("variant", [("del", {}), ("del_released", {}), ("dist2", {"form": "released"})], ids=named)
def test_packing_without_segments_would_join_the_numbers(variant):
    batch = written("31599")
    with_borders = replace(batch, segments=torch.tensor([[0, 0, 1, 1, 1]]))
    assert loss_of(variant, batch).total != loss_of(variant, with_borders).total


@every_variant
def test_order_of_rows_changes_nothing(variant):
    batch = written("3.14", "1599", ".5a_")
    order = torch.tensor([2, 0, 1])
    turned = replace(batch, logits=batch.logits[order], labels=batch.labels[order])
    torch.testing.assert_close(loss_of(variant, turned).total, loss_of(variant, batch).total)
    torch.testing.assert_close(gradient_of(variant, turned), gradient_of(variant, batch)[order])


@every_variant
@settings(deadline=None, max_examples=5)
@given(order=st.permutations(range(12)))
def test_order_of_the_vocabulary_changes_nothing(variant, order):
    batch, order = written("3.14, 42.", "1.2.3_99a"), torch.tensor(order)
    turned = renamed(batch, order)
    torch.testing.assert_close(loss_of(variant, turned).total, loss_of(variant, batch).total)
    torch.testing.assert_close(gradient_of(variant, turned)[..., order], gradient_of(variant, batch))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
@every_loss
def test_integer_type_of_the_labels_changes_nothing(name, dtype):
    batch = written("3.1a_")
    narrow = replace(batch, labels=batch.labels.to(dtype))
    assert torch.equal(loss_of((name, {}), narrow).total, loss_of((name, {}), batch).total)


# ---------------------------------------------------------------- one step cut into micro-batches: case B13

EIGHT = ("3.14a", "2024a", "a____", "_____", "7aaaa", "aaaa_", "1.2.3", "_12.5")


def linear_batch(dtype=torch.float64) -> tuple[Batch, torch.Tensor, torch.Tensor]:
    """Eight samples whose logits come from hidden states and one weight, as in a model."""
    batch = written(*EIGHT, seed=7, dtype=dtype)
    generator = torch.Generator().manual_seed(8)
    hidden = torch.randn(*batch.labels.shape, 6, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(6, 12, generator=generator, dtype=torch.float64).to(dtype)
    return batch, hidden, weight


def step_gradient(variant, sizes: int, dtype=torch.float64, *, lean: bool = False) -> tuple[float, torch.Tensor]:
    """Loss and gradient of the weight over one optimiser step, `sizes` samples at a time."""
    batch, hidden, weight = linear_batch(dtype)
    weight.requires_grad_()
    counts = {"step_tokens": (batch.labels != IGNORE).sum(), "step_digits": VOCAB.is_digit(batch.labels).sum()}
    value = 0.0
    for start in range(0, len(EIGHT), sizes):
        rows = slice(start, start + sizes)
        part = replace(batch, logits=hidden[rows] @ weight, labels=batch.labels[rows])
        out = (
            lean_loss_of(variant, part, hidden[rows], weight.T, **counts) if lean else loss_of(variant, part, **counts)
        )
        out.total.backward()
        value += out.total.item()
    return value, weight.grad


@pytest.mark.parametrize("lean", [False, True], ids=["full", "lean"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v[0] != "del_released"], ids=named)
def test_micro_batches_of_any_size_give_the_same_loss_and_gradient(variant, dtype, lean):
    batch, hidden, weight = linear_batch(dtype)
    weight.requires_grad_()
    whole = loss_of(variant, replace(batch, logits=hidden @ weight)).total  # no counts: this is the whole step
    whole.backward()
    for sizes in (8, 4, 2, 1):
        value, gradient = step_gradient(variant, sizes, dtype, lean=lean)
        assert value == pytest.approx(whole.item(), rel=1e-5)
        torch.testing.assert_close(gradient, weight.grad, rtol=1e-6, atol=1e-6)


def test_micro_batches_of_the_released_del_add_up_their_digit_terms():
    batch = written("12a", "34a", "7.5", "a90")
    two_of_four = gradient_of(("del_released", {}), batch, "digit_term")
    for sizes in (1, 2, 4):
        total = torch.zeros_like(batch.logits)
        for start in range(0, 4, sizes):
            rows = slice(start, start + sizes)
            part = replace(batch, logits=batch.logits[rows], labels=batch.labels[rows])
            counts = {"step_tokens": 12, "step_digits": 8}
            total[rows] = gradient_of(("del_released", {}), part, "digit_term", **counts)
            token = gradient_of(("del_released", {}), part, "token_term", **counts)
            torch.testing.assert_close(token, gradient_of(("mle", {}), batch)[rows])
        torch.testing.assert_close(total, (4 // sizes) * two_of_four)


def logits_with_cross_entropy(*values: float) -> torch.Tensor:
    """Logits at which the token 11 of twelve costs exactly these cross-entropies."""
    logits = torch.zeros(1, len(values), 12, dtype=torch.float64)
    logits[0, :, 11] = torch.tensor([-math.log((math.exp(value) - 1) / 11) for value in values], dtype=torch.float64)
    return logits


def test_two_micro_batches_cost_two_and_a_half_not_three_nor_six():
    parts = [logits_with_cross_entropy(4.0), logits_with_cross_entropy(2.0, 2.0, 2.0)]
    batches = [Batch(logits, torch.full(logits.shape[:2], 11)) for logits in parts]
    assert [loss_of(("mle", {}), batch).total.item() for batch in batches] == [pytest.approx(4), pytest.approx(2)]
    found = sum(loss_of(("mle", {}), batch, step_tokens=4).total.item() for batch in batches)
    assert found == pytest.approx(2.5, rel=1e-12)


def test_digit_term_is_averaged_over_the_digits_of_the_window():
    # Uniform logits: labels 0 and 3 are 4.5 and 2.7 digits away, letters count as tokens only.
    parts = [
        Batch(torch.zeros(1, 2, 12), torch.tensor([[0, 11]])),
        Batch(torch.zeros(1, 3, 12), torch.tensor([[3, 3, 3]])),
    ]
    found = [loss_of(("ntl_was", {"alpha": 1.0}), part, step_tokens=5, step_digits=4).digit_term for part in parts]
    assert sum(found).item() == pytest.approx((4.5 + 3 * 2.7) / 4, rel=1e-6)


# ---------------------------------------------------------------- two processes: cases B11 and B13


def start(*calls: str) -> list[subprocess.Popen]:
    """Start a Python process for each call of a function of this module."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    code = "from tests.losses.test_contract import *; "
    root = Path(__file__).parents[2]
    return [
        subprocess.Popen([sys.executable, "-c", code + call], cwd=root, env=environment, stderr=subprocess.PIPE)
        for call in calls
    ]


def finish(processes: list[subprocess.Popen]) -> None:
    try:
        errors = [process.communicate(timeout=120)[1].decode()[-3000:] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(errors)


def train_one_step(rank: int, folder: str) -> None:
    """One step of every variant on one of two ranks; its gradients go to a file."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    gradients = {
        f"{case} {named(variant)}": rank_gradient(rank, case, variant)
        for variant in VARIANTS
        for case in ("eight", "B11")
    }
    torch.save(gradients, f"{folder}/{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def rank_gradient(rank: int, case: str, variant) -> torch.Tensor:
    """The gradient with real DistributedDataParallel, which averages over ranks."""
    batch, hidden, weight = linear_batch(torch.float32)
    if case == "eight":
        rows = slice(0, 3) if rank == 0 else slice(3, 8)  # other numbers of rows, tokens and digits
        hidden, labels = hidden[rows], batch.labels[rows]
    else:
        hidden, labels = hidden[rank : rank + 1, :1], torch.tensor([[[3], [11]][rank]])
    head = torch.nn.Linear(6, 12, bias=False)
    head.weight.data = weight.T.contiguous()
    model = torch.nn.parallel.DistributedDataParallel(head)
    counts = torch.stack([(labels != IGNORE).sum(), VOCAB.is_digit(labels).sum()])
    torch.distributed.all_reduce(counts)
    part = Batch(model(hidden), labels, embedding=batch.embedding)
    loss = loss_of(variant, part, step_tokens=counts[0], step_digits=counts[1]).total
    (2 * loss).backward()  # twice, because the gradients of the two ranks are averaged
    return head.weight.grad


@pytest.mark.slow
def test_two_processes_give_the_gradient_of_one(tmp_path):
    finish(start(*(f"train_one_step({rank}, {str(tmp_path)!r})" for rank in (0, 1))))
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    for variant in VARIANTS:
        for case in ("eight", "B11"):
            key = f"{case} {named(variant)}"
            assert torch.equal(first[key], second[key])  # no rank waits, both end with the same
            batch, hidden, weight = linear_batch(torch.float32)
            labels = batch.labels
            if case == "B11":
                hidden, labels = hidden[:2, :1], torch.tensor([[3], [11]])
            weight.requires_grad_()
            parts, counts = [slice(0, None)], {}
            if variant[0] == "del_released":  # averaged on each rank
                counts = {"step_tokens": int((labels != IGNORE).sum())}
                parts = [slice(0, 3), slice(3, 8)] if case == "eight" else [slice(0, 1), slice(1, 2)]
            for rows in parts:
                part = replace(batch, logits=hidden[rows] @ weight, labels=labels[rows])
                loss_of(variant, part, **counts).total.backward()
            torch.testing.assert_close(first[key], weight.grad.T, rtol=1e-5, atol=1e-6, msg=lambda m, k=key: k + m)


# ---------------------------------------------------------------- little or nothing to learn from: B11 and B12


@every_variant
def test_batch_without_digits_costs_its_token_term(variant):
    batch = written("aa.", dtype=torch.float32)
    out, slow = loss_of(variant, batch), slow_loss_of(variant, batch)
    assert out.digit_term.item() == 0.0
    assert out.digit_term.dtype == torch.float32
    assert torch.equal(out.total, out.token_term)
    assert out.total.item() == pytest.approx(slow.total, rel=1e-5)
    assert all(x.item() == 0 for x in (out.n_digits, out.digit_mass, out.digit_entropy_nats, out.digit_accuracy))
    assert torch.equal(gradient_of(variant, batch, "digit_term"), torch.zeros(1, 3, 12))
    assert gradient_of(variant, batch).isfinite().all()


@every_variant
def test_batch_without_supervision_costs_nothing_and_moves_nothing(variant):
    batch = written("_____", dtype=torch.float32)
    out = loss_of(variant, batch)
    assert [out.total.item(), out.token_term.item(), out.digit_term.item(), out.n_tokens.item()] == [0] * 4
    assert torch.equal(gradient_of(variant, batch), torch.zeros(1, 5, 12))


@every_variant
@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_batch_without_positions_costs_nothing(variant, shape):
    batch = Batch(torch.zeros(*shape, 12), torch.zeros(*shape).long(), embedding=torch.eye(12))
    out = loss_of(variant, batch)
    assert out.total.item() == 0
    assert out.per_position.shape == shape
    assert gradient_of(variant, batch).shape == (*shape, 12)


@every_variant
def test_batch_of_one_digit_equals_the_slow_loop(variant):
    batch = written("_7_", dtype=torch.float32)
    assert_same(loss_of(variant, batch), slow_loss_of(variant, batch), rtol=1e-5, atol=1e-6)
    gradient = gradient_of(variant, batch)
    assert gradient.isfinite().all()
    assert gradient[:, 1].abs().sum() > 0


# ---------------------------------------------------------------- extreme logits: cases B40 and B41


OFFSETS = (20.0, 1000.0, 1e4, -1e4)
"""Added to all logits at once, which changes no probability."""


def extreme_batches() -> dict[str, Batch]:
    right, wrong, spread = (torch.zeros(1, 3, 12) for _ in range(3))
    labels = torch.tensor([[3, 10, 5]])
    wrong[...] = 1e4
    spread[...] = torch.linspace(-1e4, 1e4, 12)
    for t, label in enumerate(labels[0]):
        right[0, t], right[0, t, label] = -1e4, 1e4
        wrong[0, t, label] = -1e4
    some, all_others = torch.zeros(1, 3, 12), torch.full((1, 3, 12), -math.inf)
    some[..., [0, 2, 11]] = -math.inf
    for t, label in enumerate(labels[0]):
        all_others[0, t, label] = 0.5
    cases = {"right": right, "wrong": wrong, "spread": spread, "some": some, "all others": all_others}
    plain = written("3.5", scale=3.0, dtype=torch.float32).logits
    cases |= {f"{offset:+g}": plain + offset for offset in OFFSETS}
    embedding = written("a", dtype=torch.float32).embedding
    return {name: Batch(logits, labels, embedding=embedding) for name, logits in cases.items()}


@every_variant
@pytest.mark.parametrize("case", ["right", "wrong", "spread", "some", "all others", *(f"{x:+g}" for x in OFFSETS)])
def test_extreme_logits_give_the_right_value_and_a_finite_gradient(variant, case):
    """±1e4, minus infinity off the label (at some other tokens, or at all of them), and all logits raised together."""
    batch = extreme_batches()[case]
    out, slow = loss_of(variant, batch), slow_loss_of(variant, batch)
    # The digit mass m = exp(−CE − log p̂) is as exact as float32 is at a cross-entropy of 20,000.
    exact = out._replace(digit_mass=torch.tensor(slow.digit_mass)) if case == "wrong" else out
    rtol = 5e-3 if case == "wrong" and "reweighed" in variant[1].values() else 1e-5
    assert_same(exact, slow, rtol=rtol, atol=1e-6)
    assert out.digit_mass.item() == pytest.approx(slow.digit_mass, abs=2e-3)
    assert gradient_of(variant, batch).isfinite().all()


@pytest.mark.parametrize(
    ("values", "entropy"), [([0.0], 0.0), ([0.0, 0.0], LN2), ([0.0] * 3, math.log(3)), ([2.5] * 10, LN10)]
)
def test_entropy_of_impossible_digits_is_that_of_the_possible_ones(values, entropy):
    digits = torch.tensor([*values, *[-math.inf] * (10 - len(values))])
    batch = Batch(torch.cat([digits, torch.zeros(2)]).view(1, 1, 12), torch.tensor([[0]]))
    variant = ("del", {"criterion": "entropy", "place": "none", "alpha": 1.0})
    out = loss_of(variant, batch)
    assert out.digit_entropy_nats.item() == pytest.approx(entropy, abs=1e-6)
    assert out.digit_term.item() == pytest.approx(entropy, abs=1e-6)
    assert gradient_of(variant, batch).isfinite().all()


def test_entropy_of_the_widest_float16_logits_is_zero():
    logits = torch.full((1, 1, 12), -65504.0, dtype=torch.float16)
    logits[0, 0, 0] = 65504.0
    out = loss_of(("del", {"criterion": "entropy"}), Batch(logits, torch.tensor([[0]])))
    assert out.digit_entropy_nats.item() == 0
    assert out.total.item() == 0
    assert gradient_of(("del", {"criterion": "entropy"}), Batch(logits, torch.tensor([[0]]))).isfinite().all()


def test_divergence_from_a_target_that_the_model_rules_out_is_clipped_not_nan():
    logits = torch.zeros(1, 1, 12)
    logits[0, 0, 2] = -math.inf
    batch = Batch(logits, torch.tensor([[3]]))
    out = loss_of(("dist2", {"alpha": 1.0}), batch)
    assert out.digit_term.item() == pytest.approx(0.207532 * 1e5, rel=1e-3)
    assert gradient_of(("dist2", {}), batch).isfinite().all()


# ---------------------------------------------------------------- a head wider than the tokenizer: case B16


@every_variant
def test_columns_beyond_the_tokenizer_enter_the_cross_entropy_only(variant):
    wide = written("3.14, 42.", width=16)
    narrow = replace(wide, logits=wide.logits[..., :12], embedding=wide.embedding[:12])
    out = loss_of(variant, wide)
    assert_same(out, slow_loss_of(variant, wide), rtol=3e-7, atol=1e-9)
    assert gradient_of(variant, wide).isfinite().all()
    assert out.digit_entropy_nats == loss_of(variant, narrow).digit_entropy_nats
    if "reweighed" not in variant[1].values() and "vocabulary" not in variant[1].values():
        torch.testing.assert_close(out.digit_term, loss_of(variant, narrow).digit_term)
    if variant[0] not in STOPPED:
        torch.testing.assert_close(out.token_term, F.cross_entropy(wide.logits[0], wide.labels[0]))


def test_embedding_rows_beyond_the_head_are_left_out():
    batch = written("3.14")
    longer = replace(batch, embedding=torch.cat([batch.embedding, torch.ones(4, 5).double()]))
    assert torch.equal(loss_of(("emo", {}), longer).total, loss_of(("emo", {}), batch).total)


def test_embedding_is_not_trained():
    batch = written("3.14")
    embedding = batch.embedding.requires_grad_()
    numeric_loss("emo", batch.logits.requires_grad_(), batch.labels, VOCAB, embedding=embedding).total.backward()
    assert embedding.grad is None


# ---------------------------------------------------------------- devices, inference mode, compile: B18 and B20


@every_variant
@pytest.mark.parametrize("elsewhere", [False, True], ids=["all on meta", "labels, segments and embedding on cpu"])
def test_loss_of_meta_logits_is_a_meta_tensor(variant, elsewhere):
    # A meta tensor holds no values: whatever reads one, or meets a tensor made on the default device, raises.
    device = "cpu" if elsewhere else "meta"
    batch = Batch(
        torch.zeros(2, 5, 12, device="meta", requires_grad=True),
        torch.zeros(2, 5, dtype=torch.long, device=device),
        segments=torch.zeros(2, 5, dtype=torch.long, device=device),
        embedding=torch.zeros(12, 3, device=device),
    )
    out = loss_of(variant, batch)
    assert {tensor.device.type for tensor in out} == {"meta"}
    assert (out.total.shape, out.per_position.shape) == ((), (2, 5))
    out.total.backward()


@pytest.mark.xfail(
    raises=(NotImplementedError, RuntimeError), reason="the lean path counts its rows, a value of the labels"
)
def test_lean_loss_of_meta_states_is_a_meta_tensor():
    hidden = torch.zeros(2, 5, 4, device="meta", requires_grad=True)
    batch = Batch(hidden, torch.zeros(2, 5, dtype=torch.long, device="meta"))
    assert lean_loss_of(("del", {}), batch, hidden, torch.zeros(12, 4, device="meta")).total.is_meta


@every_variant
def test_loss_in_inference_mode_leaves_training_possible(variant):
    name, options = variant
    if "permuted" in str(options):
        options = {**options, "distance": f"permuted:{abs(hash(named(variant))) % 10**6}"}  # one nothing remembers
    batch = written("3.1", dtype=torch.float32)
    _forget_what_was_made()
    with torch.inference_mode():
        evaluated = loss_of((name, options), batch).total.item()
    assert gradient_of((name, options), batch).isfinite().all()
    assert loss_of((name, options), batch).total.item() == evaluated


def _forget_what_was_made() -> None:
    from delcore import digits
    from delcore.losses import _positions

    for module in (digits, _positions):
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()


COMPILED = [
    *((name, {}) for name in LOSSES),
    ("emo", {"form": "anchored"}),
    ("ntl_was", {"form": "reweighed", "distance": "permuted:3"}),
    ("dist2", {"form": "released", "softmax": "vocabulary"}),
    ("del", {"dot": True, "bce": "conditional", "distance": "l1"}),
]


def compile_and_compare() -> None:
    # In a process of its own: the type checks of a test run wrap functions in what `torch.compile` cannot read.
    for name, options in COMPILED:
        torch.compiler.reset()
        graphs = []

        def counting_backend(graph, example_inputs, graphs=graphs):
            graphs.append(graph)
            return graph.forward

        @torch.compile(fullgraph=True, backend=counting_backend)
        def compiled(logits, labels, embedding, name=name, options=options):
            return numeric_loss(name, logits, labels, VOCAB, embedding=embedding, **options)

        for n_digits in range(20):
            text = "3.14159265358979323846"[: n_digits + (n_digits > 1)].ljust(21, "a")
            batch = written(text, dtype=torch.float32, seed=n_digits)
            logits = batch.logits.clone().requires_grad_()
            out = compiled(logits, batch.labels, batch.embedding)
            assert out.n_digits.item() == n_digits
            expected = loss_of((name, options), batch).total
            torch.testing.assert_close(out.total, expected, rtol=1e-6, atol=1e-6)
            out.total.backward()
            torch.testing.assert_close(logits.grad, gradient_of((name, options), batch), rtol=1e-6, atol=1e-6)
        assert len(graphs) == 1, f"{name} {options}: {len(graphs)} graphs"


@pytest.mark.slow
def test_loss_under_compile_equals_eager_with_one_graph_for_any_number_of_digits():
    finish(start("compile_and_compare()"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_variant
def test_loss_on_cuda_equals_cpu_also_with_labels_elsewhere(variant):
    batch = replace(written("3.14, 42.", "1.2.3_99a", dtype=torch.float32), segments=torch.zeros(2, 9).long())
    expected = loss_of(variant, batch).total
    assert torch.allclose(loss_of(variant, replace(batch, logits=batch.logits.cuda())).total.cpu(), expected, atol=1e-6)


# ---------------------------------------------------------------- half precision


@pytest.mark.parametrize("offset", [0.0, *OFFSETS])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_variant
def test_half_precision_logits_are_as_exact_as_naive_float32(variant, dtype, offset):
    texts = ("3.14159a", "1,234.5_", "2024-05-", "a7b8.9.1", ".5 42. 0")
    batch = written(*texts, width=24, scale=3.0, dtype=torch.float32)
    batch = replace(batch, logits=(batch.logits + offset).to(dtype))
    truth, naive = (
        torch.tensor(slow_loss_of(variant, batch, dtype=kind).per_position, dtype=torch.float64)
        for kind in (np.float64, np.float32)
    )
    out = loss_of(variant, batch)
    assert {out.total.dtype, out.token_term.dtype, out.digit_term.dtype, out.per_position.dtype} == {torch.float32}
    error, error_of_naive = (out.per_position.double() - truth).norm(), (naive - truth).norm()
    assert error <= 2 * error_of_naive + torch.finfo(torch.float32).eps * truth.norm()
    gradient = gradient_of(variant, batch)
    assert gradient.dtype == dtype
    assert gradient.isfinite().all()


@every_loss
def test_float64_logits_stay_float64(name):
    assert loss_of((name, {}), written("3.14")).total.dtype == torch.float64


# ---------------------------------------------------------------- relations between the losses


@settings(deadline=None, max_examples=30)
@given(recipes())
def test_uncapped_emo_has_the_value_of_cross_entropy(recipe):
    batch = built(recipe)
    emo = ("emo", {"form": "uncapped"})
    torch.testing.assert_close(loss_of(emo, batch).per_position, loss_of(("mle", {}), batch).per_position)


def test_uncapped_emo_has_another_gradient_than_cross_entropy():
    batch = written("3a7")
    difference = gradient_of(("emo", {"form": "uncapped"}), batch) - gradient_of(("mle", {}), batch)
    assert difference.abs().max() > 1e-3


@settings(deadline=None, max_examples=30)
@given(recipes())
def test_mixce_with_eta_one_is_mle(recipe):
    batch = built(recipe)
    assert torch.equal(loss_of(("mixce", {"eta": 1.0}), batch).total, loss_of(("mle", {}), batch).total)
    assert torch.equal(gradient_of(("mixce", {"eta": 1.0}), batch), gradient_of(("mle", {}), batch))


@settings(deadline=None, max_examples=30)
@given(recipes())
def test_mixce_with_eta_zero_is_dft(recipe):
    batch = built(recipe)
    # TRL's `dft`: −sg(p) · log p of each supervised token, over their number.
    logits = batch.logits.clone().requires_grad_()
    supervised = batch.labels != IGNORE
    log_p = logits.log_softmax(-1).gather(-1, batch.labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    dft = (-(log_p.detach().exp() * log_p) * supervised).sum() / supervised.sum().clamp(min=1)
    torch.testing.assert_close(loss_of(("mixce", {"eta": 0.0}), batch).total, dft.detach())
    torch.testing.assert_close(gradient_of(("mixce", {"eta": 0.0}), batch), torch.autograd.grad(dft, logits)[0])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_cross_entropy_of_a_digit_is_that_of_the_digit_and_of_the_mass(digit, seed):
    batch = written(str(digit), seed=seed)
    cross_entropy = loss_of(("mle", {}), batch).total
    out = loss_of(("del", {"criterion": "cross_entropy", "place": "none", "alpha": 1.0}), batch)
    torch.testing.assert_close(cross_entropy, out.digit_term - out.digit_mass.log())


@pytest.mark.parametrize(("digit", "entropy"), [(5, 1.0714), (0, 0.6457), (9, 0.6457)])
def test_dist2_target_has_the_known_entropy(digit, entropy):
    # KL(g ‖ uniform) = ln 10 − H(g).
    batch = Batch(torch.zeros(1, 1, 12), torch.tensor([[digit]]))
    out = loss_of(("dist2", {"alpha": 1.0}), batch)
    assert LN10 - out.digit_term.item() == pytest.approx(entropy, abs=5e-5)


def test_dist2_of_its_own_target_is_zero():
    target = torch.tensor([-((k - 3.0) ** 2) for k in range(10)] + [0.0, 0.0]).view(1, 1, 12)
    out = loss_of(("dist2", {"alpha": 1.0}), Batch(target, torch.tensor([[3]])))
    assert out.digit_term.item() == pytest.approx(0, abs=1e-6)


def test_released_del_of_one_uniform_seven_has_the_known_value():
    out = loss_of(("del_released", {}), Batch(torch.zeros(1, 1, 12), torch.tensor([[7]])))
    assert out.digit_term.item() == pytest.approx(0.00138629, rel=1e-5)  # note S3


@pytest.mark.parametrize("name", ["ntl_was", "ntl_mse", "dist2"])
def test_permuted_distance_is_the_numeric_one_between_renamed_digits(name):
    batch = written("31415", seed=4)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(6))
    found = loss_of((name, {"distance": "permuted:6"}), batch).digit_term
    renamed_vocab = DigitVocab(order.argsort().tolist(), dot=10)
    torch.testing.assert_close(found, loss_of((name, {}), replace(batch, vocab=renamed_vocab)).digit_term)
    assert not torch.allclose(found, loss_of((name, {}), batch).digit_term)
    assert not torch.allclose(found, loss_of((name, {"distance": "permuted:7"}), batch).digit_term)


def test_sigmoid_bce_moves_with_all_logits_and_the_conditional_does_not():
    batch = written("3.14")
    raised = replace(batch, logits=batch.logits + 1)
    for bce, moves in (("sigmoid", True), ("conditional", False)):
        one, other = (loss_of(("del", {"bce": bce}), b).digit_term for b in (batch, raised))
        assert torch.allclose(one, other) != moves


# These stay finite: the first because its weight is q = 0, the second because its value is e.
FINITE_WHERE_IMPOSSIBLE = (("mixce", {"eta": 0.0}), ("emo", {"form": "anchored"}))


every_variant_at_impossible = pytest.mark.parametrize("variant", VARIANTS, ids=named)


@every_variant_at_impossible
def test_impossible_label_costs_infinity_and_never_nan(variant):
    """A label at −inf beside one that is not: no value is NaN, and the other position keeps its gradient."""
    batch = impossible_batch()
    assert_infinite_without_nan(variant, loss_of(variant, batch))
    gradient = gradient_of(variant, batch)
    assert not gradient.isnan().any()
    assert gradient[0, 1].abs().sum() > 0


@every_variant_at_impossible
def test_impossible_label_costs_infinity_and_never_nan_on_the_lean_path(variant):
    batch = impossible_batch()
    bias = batch.logits[0, 0].clone().requires_grad_()
    out = lean_loss_of(variant, batch, torch.zeros(1, 2, 4), torch.zeros(12, 4), head_bias=bias)
    assert_infinite_without_nan(variant, out)
    out.total.backward()
    assert not bias.grad.isnan().any()
    assert bias.grad.abs().sum() > 0


def impossible_batch() -> Batch:
    batch = written("37", dtype=torch.float32)
    logits = batch.logits[:, :1].repeat(1, 2, 1)
    logits[..., 3] = -math.inf
    return replace(batch, logits=logits)


def assert_infinite_without_nan(variant, out: LossOutput) -> None:
    assert out.per_position[0].isinf().tolist() == [variant not in FINITE_WHERE_IMPOSSIBLE, False]
    assert [name for name, value in out._asdict().items() if value.isnan().any() and name != "digit_mass"] == []


def test_digit_mass_beside_an_impossible_label_is_a_number():
    assert not loss_of(("mle", {}), impossible_batch()).digit_mass.isnan()


def lean_loss_of(variant, batch: Batch, hidden: torch.Tensor, weight: torch.Tensor, **step) -> LossOutput:
    name, options = variant
    given = {"segments": batch.segments, "embedding": batch.embedding if name == "emo" else None}
    return lean_loss(name, hidden, weight, batch.labels, batch.vocab, **given, **step, **options)
