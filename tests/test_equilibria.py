"""Where each loss leads: the table of the paper's design, and a check by numerical derivatives of the slow losses."""

import math

import numpy as np
import pytest
import torch

from delcore.equilibria import Equilibrium, equilibrium
from delcore.errors import InputError
from delcore.losses import LOSSES
from tests.losses.reference_losses import DEFAULT_ALPHA, digit_term, token_term

LAW = (0.01, 0.01, 0.01, 0.01, 0.01, 0.05, 0.20, 0.60, 0.09, 0.01)
UNIFORM = (0.1,) * 10
ONE_HOT = (0.0,) * 7 + (1.0, 0.0, 0.0)
WITH_ZEROS = (0.5, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, 0.2)

TABLE = [
    ("mle", {}, 1.2712),
    ("mixce", {"eta": 0.5}, 1.0464),
    ("mixce", {"eta": 0.0}, 0.0),
    ("ntl_was", {}, 1.0848),
    ("emo", {}, 1.0526),
    ("ntl_mse", {}, 1.2712),
    ("del", {}, 1.2885),
    ("del", {"u": 2.0}, 1.3065),
    ("del", {"u": 4.0}, 1.3442),
    ("del", {"u": 6.0}, 1.3845),
    ("dist2", {}, 1.3093),
    ("dist2", {"alpha": 1.0}, 1.4586),
    ("del", {"alpha": 0.128}, 1.2935),
    ("del", {"alpha": 0.5}, 1.3640),
]
OTHERS = [
    ("mixce", {"eta": 1.0}),
    ("emo", {"form": "uncapped"}),
    ("emo", {"cap": 1.0}),
    ("ntl_was", {"distance": "permuted:3"}),
    ("ntl_was", {"form": "released", "u": 3.0}),
    ("ntl_was", {"form": "reweighed"}),
    ("ntl_mse", {"form": "reweighed", "alpha": 1.0}),
    ("dist2", {"tau": 0.3}),
    ("dist2", {"softmax": "vocabulary"}),
    ("del", {"bce": "conditional"}),
    ("del", {"criterion": "entropy"}),
    ("del", {"criterion": "cross_entropy"}),
    ("del", {"alpha": 2.0}),
    ("del_released", {}),
    ("del_released", {"u": 6.0, "alpha": 0.1}),
]
ATTAINED = [(name, options) for name, options, _ in TABLE if options != {"eta": 0.0}] + OTHERS
WITHOUT_STOPPED = [(name, options) for name, options in ATTAINED if name not in ("mixce", "emo")]


def named(case) -> str:
    return str(case)


def entropy(probabilities) -> float:
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def divergence(law, probabilities) -> float:
    return sum(q * math.log(q / p) for q, p in zip(law, probabilities, strict=True) if q > 0)


def expected_loss(name: str, options: dict, law, logits: np.ndarray, stopped_at: np.ndarray | None = None) -> float:
    """Expected loss over the law by the slow implementation; eleven logits, the last of a token that is never right."""
    options = dict(options)
    alpha, u = options.pop("alpha", DEFAULT_ALPHA.get(name, 0.0)), options.pop("u", 1.0)
    z, z_stopped = list(logits), list(logits if stopped_at is None else stopped_at)
    total = 0.0
    for digit, probability in enumerate(law):
        if probability:
            token = token_term(name, z, digit, z_stopped, np.eye(11), options)
            total += probability * (token + alpha * u * digit_term(name, z, digit, list(range(10)), None, options))
    return total


def with_other_token(result: Equilibrium) -> np.ndarray:
    digits = np.array(result.logits)
    return np.append(digits, np.log(np.exp(digits).sum()) - 40)


def expected_gradient(name: str, options: dict, law, point: np.ndarray, h: float = 1e-3) -> np.ndarray:
    """By five points in each digit logit, the stopped factors frozen at `point`."""
    gradient = np.zeros(10)
    for k in range(10):
        step = h * np.eye(11)[k]
        f = [expected_loss(name, options, law, point + j * step, stopped_at=point) for j in (-2, -1, 1, 2)]
        gradient[k] = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    return gradient


# ---------------------------------------------------------------- the table


def test_law_of_the_table_has_its_entropy():
    assert entropy(LAW) == pytest.approx(1.2712, abs=5e-5)


@pytest.mark.parametrize(("name", "options", "expected"), TABLE)
def test_entropy_of_the_table_is_reproduced(name, options, expected):
    result = equilibrium(name, LAW, **options)
    assert result.entropy_nats == pytest.approx(expected, abs=1e-3)
    assert result.attained


def test_del_with_the_distance_term_has_no_equilibrium():
    result = equilibrium("del", LAW, distance="l1")
    assert not result.attained
    # Its penalty is driven to zero by lowering every logit: what is left is cross-entropy.
    assert result.probabilities == pytest.approx(LAW, abs=1e-3)
    lower = [expected_loss("del", {"distance": "l1"}, LAW, np.append(np.log(LAW) - by, -60.0)) for by in (0, 3, 6, 9)]
    assert lower == sorted(lower, reverse=True)
    assert lower[-1] == pytest.approx(entropy(LAW), abs=1e-4)


@pytest.mark.parametrize("case", ATTAINED, ids=named)
def test_result_describes_its_own_logits(case):
    name, options = case
    result = equilibrium(name, LAW, **options)
    logits = np.array(result.logits)
    probabilities = np.exp(logits) / np.exp(logits).sum()
    assert result.attained
    assert result.probabilities == pytest.approx(probabilities.tolist(), abs=1e-12)
    assert result.entropy_nats == pytest.approx(entropy(probabilities), abs=1e-10)
    assert result.kl_nats == pytest.approx(divergence(LAW, probabilities), abs=1e-10)
    if name not in ("del", "del_released"):
        assert np.log(np.exp(logits).sum()) == pytest.approx(0, abs=1e-12)


# ---------------------------------------------------------------- it really is one


@pytest.mark.parametrize("case", ATTAINED, ids=named)
def test_expected_gradient_of_the_slow_loss_vanishes_there_and_not_elsewhere(case):
    name, options = case
    point = with_other_token(equilibrium(name, LAW, **options))
    assert np.abs(expected_gradient(name, options, LAW, point)).max() < 1e-8
    elsewhere = point + np.append(np.linspace(-0.5, 0.5, 10), 0)
    assert np.abs(expected_gradient(name, options, LAW, elsewhere)).max() > 1e-3


@pytest.mark.parametrize("case", WITHOUT_STOPPED, ids=named)
def test_equilibrium_without_stopped_gradient_is_a_minimiser(case):
    name, options = case
    point = with_other_token(equilibrium(name, LAW, **options))
    least = expected_loss(name, options, LAW, point)
    generator = np.random.default_rng(0)
    for size in (0.03, 0.3, 1.0):
        for _ in range(4):
            moved = point + size * np.append(generator.standard_normal(10), 0)
            assert expected_loss(name, options, LAW, moved) > least


@pytest.mark.parametrize("name", ["mixce", "emo"])
def test_equilibrium_with_a_stopped_gradient_is_stable(name):
    point = with_other_token(equilibrium(name, LAW))
    generator = np.random.default_rng(0)
    for _ in range(4):
        away = 0.05 * generator.standard_normal(10)
        away -= away.mean()  # adding a constant to all digits changes nothing
        gradient = expected_gradient(name, {}, LAW, point + np.append(away, 0))
        assert gradient @ away > 0  # descent leads back


# ---------------------------------------------------------------- other laws


def test_dist2_equilibrium_is_the_mixture_of_law_and_targets():
    # (1 + α) p̂ = π + α Σ_c π_c g_c, from the gradients q − π and α(p̂ − g).
    targets = torch.softmax(-((torch.arange(10.0).double()[:, None] - torch.arange(10.0).double()) ** 2), -1)
    for law in (LAW, UNIFORM, ONE_HOT, WITH_ZEROS):
        for alpha in (0.1, 1.0):
            pi = torch.tensor(law, dtype=torch.float64)
            expected = (pi + alpha * pi @ targets) / (1 + alpha)
            result = equilibrium("dist2", law, alpha=alpha)
            assert result.attained
            assert result.probabilities == pytest.approx(expected.tolist(), abs=1e-6)


@pytest.mark.parametrize("name", ["mle", "mixce", "emo", "ntl_was", "ntl_mse", "del", "del_released"])
def test_one_hot_law_leads_to_that_digit(name):
    result = equilibrium(name, ONE_HOT)
    assert result.probabilities == pytest.approx(ONE_HOT, abs=1e-6)
    assert result.entropy_nats == pytest.approx(0, abs=1e-5)
    assert result.kl_nats == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", ["mle", "mixce", "emo", "ntl_mse", "del", "del_released"])
def test_uniform_law_is_kept(name):
    result = equilibrium(name, UNIFORM)
    assert result.attained
    assert result.probabilities == pytest.approx(UNIFORM, abs=1e-6)
    assert result.entropy_nats == pytest.approx(math.log(10), abs=1e-9)


def test_ntl_was_draws_a_uniform_law_to_the_middle():
    probabilities = equilibrium("ntl_was", UNIFORM).probabilities
    assert probabilities == pytest.approx(probabilities[::-1], abs=1e-6)
    assert list(probabilities[:5]) == sorted(probabilities[:5])
    assert probabilities[4] > 0.11


@pytest.mark.parametrize("name", ["mle", "ntl_mse"])
def test_unbiased_losses_keep_a_law_with_zeros(name):
    result = equilibrium(name, WITH_ZEROS)
    assert result.probabilities == pytest.approx(WITH_ZEROS, abs=1e-6)
    assert math.isfinite(result.entropy_nats)
    assert result.kl_nats == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_law_with_zeros_gives_finite_numbers_of_a_distribution(name):
    result = equilibrium(name, WITH_ZEROS)
    assert sum(result.probabilities) == pytest.approx(1)
    assert all(math.isfinite(value) for value in (*result.probabilities, *result.logits, result.entropy_nats))
    assert result.kl_nats >= -1e-12


def test_law_given_as_tensor_list_or_array_is_the_same():
    results = [
        equilibrium("del", law) for law in (LAW, list(LAW), np.array(LAW), torch.tensor(LAW, dtype=torch.float64))
    ]
    assert all(result == results[0] for result in results)


def test_embedding_of_near_digits_moves_emo():
    angles = torch.linspace(0, 3, 11, dtype=torch.float64)
    near = torch.stack([angles.cos(), angles.sin()], -1)
    assert abs(equilibrium("emo", LAW, embedding=near).entropy_nats - equilibrium("emo", LAW).entropy_nats) > 0.01


# ---------------------------------------------------------------- bad input


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize(
    "pi", [[1.0], [0.1] * 9, [0.1] * 11, [0.2] * 10, [-0.1, 1.1] + [0.0] * 8, [math.nan] + [0.1] * 9, [0.0] * 10]
)
def test_law_that_is_none_is_refused(pi):
    with pytest.raises(InputError, match="`pi` must be ten probabilities that sum to 1"):
        equilibrium("mle", pi)


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("focal", {}, "`loss` must be one of mle"),
        ("mle", {"alpha": 0.1}, "`alpha`"),
        ("mle", {"tau": 1.0}, "`mle` does not take `tau`"),
        ("del", {"alpha": -1.0}, "`alpha` must"),
        ("del", {"place": "none"}, "give the weight `u`"),
        ("del", {"dot": True}, "give the weight `u`"),
        ("del", {"u": -1.0}, "`u` must be 0 or above"),
        ("del", {"u": math.nan}, "`u` must be 0 or above"),
    ],
)
def test_bad_options_are_refused(name, options, match):
    with pytest.raises(InputError, match=match):
        equilibrium(name, LAW, **options)
