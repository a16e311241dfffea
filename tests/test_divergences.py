"""Forward and reverse KL of a digit's law, and the one hump that each prefers; how hard each loss pulls."""

import math

import numpy as np
import pytest

from delcore.analysis import compare_laws, fit_hump, scan_pull
from delcore.analysis.divergences import WIDTHS
from delcore.arithmetic import DESIGN_LAW, LAWS
from delcore.errors import InputError

TWO_NEEDLES = (0.002, 0.02, 0.12, 0.34, 0.016, 0.004, 0.016, 0.34, 0.12, 0.022)
DIGITS = np.arange(10)


def test_divergences_are_the_hand_computed_ones():
    found = compare_laws((0.5, 0.5, *[0.0] * 8), (0.75, 0.25, *[0.0] * 8))
    assert found.forward == pytest.approx(0.5 * math.log(4 / 3))
    assert found.reverse == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    assert compare_laws(DESIGN_LAW, DESIGN_LAW).forward == compare_laws(DESIGN_LAW, DESIGN_LAW).reverse == 0


def test_excluding_what_happens_is_infinite_forwards_and_predicting_the_impossible_backwards():
    half, sure = (0.5, 0.5, *[0.0] * 8), (1.0, *[0.0] * 9)
    excluded, impossible = compare_laws(half, sure), compare_laws(sure, half)
    assert excluded.forward == math.inf and excluded.reverse == pytest.approx(math.log(2))
    assert impossible.forward == pytest.approx(math.log(2)) and impossible.reverse == math.inf


def test_forward_fit_matches_mean_and_variance():
    """What the maximum-likelihood member of this exponential family does, up to the grid's step."""
    law, fit = np.array(TWO_NEEDLES), fit_hump(TWO_NEEDLES)
    p = np.array(fit.probabilities)
    mean, variance = law @ DIGITS, law @ (DIGITS - law @ DIGITS) ** 2
    assert p @ DIGITS == pytest.approx(mean, abs=0.03)
    assert p @ (DIGITS - p @ DIGITS) ** 2 == pytest.approx(variance, rel=0.02)


def test_forward_fit_covers_both_peaks_and_reverse_fit_takes_one():
    forward, reverse = fit_hump(TWO_NEEDLES), fit_hump(TWO_NEEDLES, forward_share=0.0)
    assert np.argmax(forward.probabilities) == 5 and min(forward.probabilities) > 0.02
    assert np.argmax(reverse.probabilities) == 7 and reverse.probabilities[3] < 1e-6
    assert forward.divergences.forward < reverse.divergences.forward
    assert reverse.divergences.reverse < forward.divergences.reverse


def test_a_hump_is_found_again_under_either_direction():
    truth = np.exp(-0.5 * ((DIGITS - 4.5) / WIDTHS[100]) ** 2)
    for share in (1.0, 0.5, 0.0):
        found = fit_hump((truth / truth.sum()).tolist(), forward_share=share)
        assert (found.centre, found.width) == pytest.approx((4.5, WIDTHS[100]))
        assert found.divergences.forward == pytest.approx(0, abs=1e-12)


def test_what_cannot_be_fitted_is_named():
    with pytest.raises(InputError, match="`forward_share` must be from 0 to 1"):
        fit_hump(DESIGN_LAW, forward_share=1.5)
    certain = (1.0, *[0.0] * 9)
    assert np.argmax(fit_hump(certain).probabilities) == 0
    with pytest.raises(InputError, match="`law` must give every digit"):
        fit_hump(certain, forward_share=0.5)
    with pytest.raises(InputError, match="ten probabilities"):
        compare_laws(LAWS["flat"], (1.0,))


def test_pull_of_mixce_and_emo_grows_with_the_models_own_belief():
    """η + (1 − η)·q for MixCE; ½(1 + w·q) for EMO with orthogonal directions, w = min(CE/(1 − q), 3)."""
    q = np.array([0.01, 0.1, 0.5, 0.9])
    found = scan_pull(["mle", "mixce", "emo"], q.tolist())
    assert found.values[0] == pytest.approx(np.ones(4))
    assert found.values[1] == pytest.approx(0.5 + 0.5 * q, abs=1e-6)
    assert found.values[2] == pytest.approx(0.5 * (1 + np.minimum(-np.log(q) / (1 - q), 3) * q), abs=1e-6)
    assert [axis.name for axis in found.axes] == ["loss", "probability of the true digit"]
    with pytest.raises(InputError, match="`probabilities`"):
        scan_pull(["mle"], [0.0])
