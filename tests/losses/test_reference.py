"""The published functions' own values, on the literal tensors of `tests/data/loss_vectors.json`."""

import json
from pathlib import Path

import pytest
import torch

from delcore.digits import DigitVocab
from delcore.losses import LossOutput, numeric_loss

CASES = json.loads((Path(__file__).parents[1] / "data" / "loss_vectors.json").read_text(encoding="utf-8"))["cases"]
WITH_DIGITS = [case for case in CASES if case["expected"]["n_digit_positions"]]

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"])
every_case_with_digits = pytest.mark.parametrize("case", WITH_DIGITS, ids=lambda case: case["text"])


def loss_of(case: dict, name: str, *, requires_grad: bool = False, **options) -> tuple[LossOutput, torch.Tensor]:
    """The loss of one case in float32, as the published functions computed it, and its logits."""
    logits = torch.tensor([case["logits"]], requires_grad=requires_grad)
    ids = case["digit_ids"]
    vocab = DigitVocab([ids[digit] for digit in "0123456789"], dot=ids["."])
    if name == "emo":
        options["embedding"] = torch.tensor(case["cost_embedding"])
    return numeric_loss(name, logits, torch.tensor([case["labels"]]), vocab, **options), logits


def close(expected):
    return pytest.approx(expected, rel=1e-5, abs=1e-8)


def at_digits(case: dict, per_position: torch.Tensor) -> list[float]:
    digits = {case["digit_ids"][digit] for digit in "0123456789"}
    return [value for value, label in zip(per_position[0].tolist(), case["labels"], strict=True) if label in digits]


def test_cases_are_six_and_one_has_no_digits():
    assert len(CASES) == 6
    assert len(WITH_DIGITS) == 5


@every_case
def test_cross_entropy_matches_per_token(case):
    out, _ = loss_of(case, "mle")
    expected = case["expected"]["cross_entropy_per_token"]
    assert out.per_position[0].tolist() == close(expected)
    assert out.total.item() == close(sum(expected) / len(expected))


@every_case
def test_counts_match(case):
    out, _ = loss_of(case, "mle")
    assert out.n_tokens.item() == len(case["labels"])
    assert out.n_digits.item() == case["expected"]["n_digit_positions"]


@every_case
@pytest.mark.parametrize(("eta", "key"), [(0.5, "mixce_eta_0.5_mean"), (0.0, "mixce_eta_0_mean")])
def test_mixce_matches(case, eta, key):
    assert loss_of(case, "mixce", eta=eta)[0].total.item() == close(case["expected"][key])


@every_case
@pytest.mark.parametrize(("form", "key"), [("capped", "emo_wheel_mode1"), ("anchored", "emo_wheel_mode2")])
def test_emo_matches_both_modes_of_the_package(case, form, key):
    assert loss_of(case, "emo", form=form)[0].total.item() == close(case["expected"][key])


@every_case_with_digits
def test_released_del_matches_with_its_gradient(case):
    expected = case["expected"]
    out, logits = loss_of(case, "del_released", requires_grad=True)
    assert out.digit_term.item() == close(expected["del_released"])
    out.digit_term.backward()
    assert logits.grad.norm().item() == close(expected["del_released_grad_norm"])
    ids = [case["digit_ids"][digit] for digit in "0123456789"]
    first = next(row for row, label in enumerate(case["labels"]) if label in ids)
    row = logits.grad[0, first]
    assert row[ids].tolist() == close(expected["del_released_grad_first_digit_row_digits"])
    assert torch.equal(row.index_fill(0, torch.tensor(ids), 0), torch.zeros_like(row))


@every_case_with_digits
def test_released_ntl_matches(case):
    out, _ = loss_of(case, "ntl_was", form="released", alpha=1.0)
    assert out.digit_term.item() == close(case["expected"]["ntl_was_released"])


@every_case_with_digits
@pytest.mark.parametrize(("form", "key"), [("paper", "ntloss_paper"), ("reweighed", "ntloss_reweighed_default")])
@pytest.mark.parametrize(("name", "short"), [("ntl_was", "was"), ("ntl_mse", "mse")])
def test_ntl_matches_the_package(case, name, short, form, key):
    out, _ = loss_of(case, name, form=form, alpha=1.0)
    assert out.digit_term.item() == close(case["expected"][key][short])


@every_case_with_digits
def test_released_dist2_matches_per_position(case):
    out, _ = loss_of(case, "dist2", form="released", alpha=1.0)
    cross_entropy, _ = loss_of(case, "mle")
    found = at_digits(case, out.per_position - cross_entropy.per_position)
    expected = case["expected"]["dist2_released_vector"]
    # The difference of two float32 sums: its error is that of the larger one.
    assert found == pytest.approx(expected, rel=1e-5, abs=4e-6)
    assert out.digit_term.item() == close(sum(expected) / len(expected))


@every_case_with_digits
def test_released_dist2_matches_each_position_alone(case):
    """To full precision: all other positions masked, but the place weight that the whole row gives."""
    expected = iter(case["expected"]["dist2_released_vector"])
    digits = [case["digit_ids"][digit] for digit in "0123456789"]
    labels = case["labels"]
    for position, label in enumerate(labels):
        if label in digits:
            run = position
            while run + 1 < len(labels) and labels[run + 1] in digits:
                run += 1
            alone = {**case, "logits": [case["logits"][position]], "labels": [label]}
            out, _ = loss_of(alone, "dist2", place="none", alpha=1.0)
            assert out.digit_term.item() * (run - position + 1) == close(next(expected))


def test_case_without_digits_has_no_digit_term():
    (case,) = [case for case in CASES if case not in WITH_DIGITS]
    mle = loss_of(case, "mle")[0].total
    for name in ("ntl_was", "ntl_mse", "dist2", "del", "del_released"):
        out, logits = loss_of(case, name, requires_grad=True)
        assert out.digit_term.item() == 0.0
        assert torch.equal(out.total.detach(), mle)
        out.digit_term.backward()
        assert not logits.grad.any()
