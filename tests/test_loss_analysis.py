"""Analyses of the losses themselves: equilibria, place weights at the point, criterion × distance, strength."""

import math

import numpy as np
import pytest
import torch

from delcore import equilibrium
from delcore.analysis import (
    match_alphas,
    measure_loss_at,
    measure_place_weights,
    measure_strength,
    scan_equilibria,
    temper_law,
)
from delcore.analysis.criteria import fit_criteria
from delcore.analysis.outcomes import EXACT
from delcore.arithmetic import DESIGN_LAW, LAWS, Sample, arithmetic_sample
from delcore.errors import InputError
from delcore.losses import LOSSES, entropy_nats, kl_nats
from tests.models_for_tests import tiny_loaded

# ---------------------------------------------------------------- entropy and KL with zeros (B40, B41)


@pytest.mark.parametrize(
    ("logits", "entropy"),
    [
        (torch.tensor([0.0, -math.inf]), 0.0),
        (torch.tensor([0.0, 0.0, -math.inf]), 0.693147),
        (torch.tensor([65504.0, -65504.0], dtype=torch.float16), 0.0),
        (torch.zeros(10), 2.302585),
    ],
)
def test_entropy_at_probability_zero_and_its_gradient_are_finite(logits, entropy):
    logits = logits.requires_grad_()
    found = entropy_nats(logits.float().log_softmax(-1))
    found.backward()
    assert found.item() == pytest.approx(entropy, abs=1e-6)
    assert bool(logits.grad.isfinite().all())


@pytest.mark.parametrize(
    ("target", "log_probs", "kl"),
    [
        ([1.0, 0.0], [0.0, -5.0], 0.0),
        ([1.0, 0.0], [0.0, -math.inf], 0.0),
        ([0.5, 0.5], [0.0, -math.inf], math.inf),
        ([0.5, 0.5], [math.log(0.5)] * 2, 0.0),
    ],
)
def test_kl_with_zeros_is_a_number_or_infinite_and_its_gradient_finite(target, log_probs, kl):
    prediction = torch.tensor(log_probs).requires_grad_()
    found = kl_nats(torch.tensor(target), prediction)
    found.backward()
    assert found.item() == pytest.approx(kl, abs=1e-6)
    assert bool(prediction.grad.isfinite().all())


def test_dist2_is_the_divergence_of_its_target():
    first = torch.tensor([6.96193e-05, 0.0103324, 0.207532, 0.564131, 0.207532, 0.0103324])
    target = torch.zeros(10)
    target[:6], target[6] = first, 6.96193e-05
    assert measure_loss_at("dist2", (0.1,) * 10, 3, alpha=1.0).digit_term == pytest.approx(1.231139, abs=1e-6)
    here = torch.tensor(DESIGN_LAW)
    found = measure_loss_at("dist2", DESIGN_LAW, 3, alpha=1.0).digit_term
    assert found == pytest.approx(float(kl_nats(target, here.log())), abs=1e-4)


def test_entropy_of_a_law_is_computed_and_not_solved_for():
    found = scan_equilibria(["mle"], {"two": (0.5, 0.5, *(0.0,) * 8), "design": DESIGN_LAW})
    exact = -sum(p * math.log(p) for p in DESIGN_LAW)
    assert found.law_entropy_nats == pytest.approx([math.log(2), exact], abs=1e-12)


def test_equilibrium_of_a_law_with_zeros_has_a_number_and_never_nan():
    law = (0.5, 0.5, *(0.0,) * 8)
    found = equilibrium("mle", law)
    assert found.entropy_nats == pytest.approx(math.log(2), abs=1e-6) and found.kl_nats == pytest.approx(0, abs=1e-6)
    one = equilibrium("mixce", law, eta=0.0)
    assert not math.isnan(one.kl_nats)


@pytest.mark.parametrize("name", LOSSES)
def test_one_hot_predictions_and_laws_give_finite_numbers(name):
    one_hot = tuple(float(k == 1) for k in range(10))
    for true in (1, 0, one_hot):
        found = measure_loss_at(name, one_hot, true)
        assert all(map(math.isfinite, (found.value, *found.gradient)))


# ---------------------------------------------------------------- equilibria over families


def test_scan_repeats_the_single_equilibria():
    scan = scan_equilibria(
        ["mle", "del"], {"design": DESIGN_LAW, "even": LAWS["even"]}, alphas=[None, 0.5], us=[1.0, 2.0]
    )
    one = equilibrium("del", LAWS["even"], alpha=0.5, u=2.0)
    assert scan.entropy_nats[1, 1, 1, 1] == pytest.approx(one.entropy_nats)
    assert scan.probabilities[1, 1, 1, 1] == pytest.approx(one.probabilities)
    assert scan.law_entropy_nats[0] == pytest.approx(1.2712, abs=1e-4)
    assert np.ptp(scan.entropy_nats[0, 0]) < 1e-6  # MLE has no digit term, and does not move
    gap = scan.gap
    assert gap.values.shape == (2, 2, 2, 2) and gap.unit == "nats"
    assert gap.values[0] == pytest.approx(np.zeros((2, 2, 2)), abs=1e-5)
    assert [axis.name for axis in gap.axes] == ["loss", "law", "α", "place weight u"]


def test_scan_tells_the_designs_signs_and_what_is_not_attained():
    scan = scan_equilibria(["ntl_was", "ntl_mse", "dist2", "del"], {"design": DESIGN_LAW})
    assert np.sign(scan.gap.values[:, 0, 0, 0].round(4)).tolist() == [-1, 0, 1, 1]
    assert scan.attained.all()
    lowered = scan_equilibria(["del"], {"design": DESIGN_LAW}, options={"del": {"distance": "l1"}})
    assert not lowered.attained.any()


def test_tempering_sharpens_and_flattens():
    assert temper_law(DESIGN_LAW, 1.0) == pytest.approx(DESIGN_LAW)
    sharp, flat = temper_law(DESIGN_LAW, 0.5), temper_law(DESIGN_LAW, 4.0)
    assert sharp[7] == pytest.approx(0.36 / sum(p * p for p in DESIGN_LAW)) and flat[7] < 0.6
    for temperature in (0, -1, math.nan, math.inf):
        with pytest.raises(InputError, match="`temperature`"):
            temper_law(DESIGN_LAW, temperature)


def test_empty_axis_of_a_scan_is_named():
    with pytest.raises(InputError, match="`us` must not be empty"):
        scan_equilibria(["mle"], {"design": DESIGN_LAW}, us=[])


# ---------------------------------------------------------------- places


def test_place_weights_and_jumps_of_every_rule():
    found = measure_place_weights("123.456")
    rows = dict(zip(found.rules, found.values, strict=True))
    assert rows["decimal"] == pytest.approx([6, 4, 2, np.nan, 1.02**-2, 1.02**-3, 1.02**-4], nan_ok=True)
    assert rows["integer"] == pytest.approx([3, 2, 1, np.nan, 3, 2, 1], nan_ok=True)
    assert rows["none"] == pytest.approx([1, 1, 1, np.nan, 1, 1, 1], nan_ok=True)
    jumps = dict(zip(found.rules, found.jumps, strict=True))
    assert jumps["integer"] == 2 and jumps["none"] == 0
    assert jumps["decimal"] == pytest.approx(1.02**-2 - 2)
    assert dict(zip(found.rules, found.ratios, strict=True))["integer"] == 3
    assert dict(zip(found.rules, found.falls, strict=True)) == {
        "decimal": True, "integer": False, "none": True, "released": True,
    }  # fmt: skip


def test_number_without_a_point_between_digits_has_no_jump():
    for text in ("123", ".5", "42."):
        assert np.isnan(measure_place_weights(text).jumps).all()
    for text in ("1.2.3", "", ".", "-1", "1e5"):
        with pytest.raises(InputError, match="`text`"):
            measure_place_weights(text)


# ---------------------------------------------------------------- criterion × distance


@pytest.fixture(scope="module")
def fits():
    return fit_criteria()


def test_three_losses_are_criterion_times_distance(fits):
    assert fits.criterion_of("ntl_was") == "p̂"
    assert fits.criterion_of("dist2") == "−log p̂"
    assert fits.criterion_of("del") == "p̂ · BCE"
    digits = np.arange(10)
    offsets = np.abs(digits[:, None] - digits)
    assert fits.distances[fits.losses.index("ntl_was"), 0] == pytest.approx(offsets, abs=1e-6)
    target = np.exp(-(offsets**2.0))
    target /= target.sum(-1, keepdims=True)
    assert fits.distances[fits.losses.index("dist2"), 1] == pytest.approx(target, abs=1e-6)
    assert fits.distances[fits.losses.index("del"), 2] == pytest.approx(np.ones((10, 10)), abs=1e-6)


def test_the_others_are_not(fits):
    for name in ("ntl_mse", "mixce", "emo"):
        assert fits.criterion_of(name) is None
        assert fits.residual[fits.losses.index(name)].min() > 0.05


def test_mixce_is_one_if_cross_entropy_may_weigh_less(fits):
    """Its gradient is η·CE + (1 − η)·Σ_{k≠c} p̂_k where digits have all the mass."""
    row = fits.losses.index("mixce")
    assert fits.free_residual[row, 0] < EXACT and fits.token_weights[row, 0] == pytest.approx(0.5)
    assert np.isnan(fits.token_weights[:, 1]).all() and np.isfinite(fits.token_weights[:, [0, 2]]).all()
    assert min(fits.free_residual[fits.losses.index(name)].min() for name in ("emo", "ntl_mse")) > 0.02


def test_nothing_to_fit_is_named():
    for losses in (["mle"], []):
        with pytest.raises(InputError, match="`losses`"):
            fit_criteria(losses)


# ---------------------------------------------------------------- strength


def test_strength_is_the_norm_of_the_digit_terms_gradient():
    loaded = tiny_loaded()
    found = measure_strength(loaded, [Sample("1 + 1 = ", "2")], ["ntl_was", "mle", "emo", "del_released"])
    assert found["mle"].norm == 0 and found["emo"].norm > 0 and found["ntl_was"].digits == 1
    ids = loaded.tokenizer("1 + 1 = ", return_tensors="pt")["input_ids"]
    vocab = [loaded.tokenizer.get_vocab()[digit] for digit in "0123456789"]
    a = loaded.model(input_ids=ids).logits[0, -1, vocab].detach().double()
    p, distance = a.softmax(-1), (torch.arange(10) - 2).abs()
    gradient = 0.3 * p * (distance - (p * distance).sum())
    assert found["ntl_was"].norm == pytest.approx(float(gradient.norm()), rel=1e-5)


def test_strength_of_the_released_loss_does_not_depend_on_how_many_digits_there_are():
    loaded = tiny_loaded()
    one = measure_strength(loaded, [Sample("1 + 1 = ", "2")], ["del_released", "del"])
    many = measure_strength(loaded, [Sample("1 + 1 = ", "2")] * 5, ["del_released", "del"])
    assert many["del_released"].digits == 5
    assert many["del_released"].norm == pytest.approx(one["del_released"].norm)
    for text in ("23", "0.25", "12.5"):  # a mean over ten classes is a tenth of the sum
        strengths = measure_strength(loaded, [Sample("1 + 1 = ", text)], ["del_released", "del"])
        assert match_alphas(strengths, "del")["del_released"] == pytest.approx(1.0)


def test_matched_losses_pull_alike():
    loaded = tiny_loaded()
    samples = [arithmetic_sample(i, 0) for i in range(70)]
    strengths = measure_strength(loaded, samples, ["mle", "ntl_was", "dist2", "del"])
    alphas = match_alphas(strengths, "del")
    assert set(alphas) == {"ntl_was", "dist2", "del"} and alphas["del"] == pytest.approx(0.1)
    pulls = [strengths[name].norm * alpha / strengths[name].alpha for name, alpha in alphas.items()]
    assert pulls == pytest.approx([strengths["del"].norm] * 3)
    with pytest.raises(InputError, match="`target`"):
        match_alphas(strengths, "ntl_mse")
    with pytest.raises(InputError, match="no digit"):
        measure_strength(loaded, [Sample("a", "b")], ["mle"])
