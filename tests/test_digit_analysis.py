"""Measures over digits: hand-worked values and known answers on made-up predictions."""

import math

import numpy as np
import pytest

from delcore.analysis import (
    DigitPredictions,
    Provenance,
    judge_gap,
    measure_calibration,
    measure_confusion,
    measure_digits_by,
    measure_gap_by,
    measure_law_gap,
    measure_offsets,
    predict_digits,
)
from delcore.analysis.predictions import span_kind
from delcore.arithmetic import DESIGN_LAW, READINGS, Sample, arithmetic_sample
from delcore.errors import InputError
from delcore.evaluate import ReadingMeasure, measure_digits
from delcore.intervals import Interval
from tests.models_for_tests import tiny_loaded

WHERE = Provenance("made up", "0", "made up")


def made_up(probabilities, digit, *, place=None, kind=None, sample=None, mass=None):
    n = len(digit)
    return DigitPredictions(
        np.asarray(probabilities, float),
        np.full(n, 0.5) if mass is None else np.asarray(mass, float),
        np.asarray(digit),
        np.zeros(n, int) if place is None else np.asarray(place),
        np.array(["number"] * n if kind is None else kind),
        np.arange(n) if sample is None else np.asarray(sample),
        WHERE,
    )


def one_hot(digits):
    return np.eye(10)[digits]


def draw(seed, n=20_000, sharpen=1.0):
    """Predictions p̂ whose true digits are drawn from p̂ ** sharpen: calibrated at 1."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(10, 0.3), size=n)
    law = p**sharpen / (p**sharpen).sum(-1, keepdims=True)
    digit = (law.cumsum(-1) < generator.random((n, 1))).sum(-1).clip(0, 9)
    return made_up(p, digit)


# ---------------------------------------------------------------- means by group


def test_one_hot_predictions_have_no_entropy_and_ten_equal_ones_the_most():
    sharp = measure_digits_by(made_up(one_hot([3, 4]), [3, 4]), "entropy_nats", "all")
    flat = measure_digits_by(made_up(np.full((2, 10), 0.1), [3, 4]), "entropy_nats", "all")
    assert sharp.values[0] == 0 and not np.signbit(sharp.values[0])
    assert flat.values[0] == pytest.approx(2.302585, abs=1e-6)
    assert flat.unit == "nats" and flat.axes[0].values == ("all",)


def test_means_by_place_digit_and_kind_are_worked_by_hand():
    p = made_up(
        [DESIGN_LAW, DESIGN_LAW, (0.1,) * 10], [7, 6, 0], place=[1, 0, -1], kind=["number", "number", "date"],
        mass=[0.9, 0.7, 0.5], sample=[0, 0, 1],
    )  # fmt: skip
    by_place = measure_digits_by(p, "entropy_nats", "place")
    assert by_place.axes[0].values == (1, 0, -1) and by_place.counts.tolist() == [1, 1, 1]
    assert by_place.values == pytest.approx([1.2712, 1.2712, math.log(10)], abs=1e-4)
    by_kind = measure_digits_by(p, "mass", "kind")
    assert by_kind.axes[0].values == ("number", "date") and by_kind.values == pytest.approx([0.8, 0.5])
    by_digit = measure_digits_by(p, "neighbour_mass", "digit")
    assert by_digit.axes[0].values == (0, 6, 7)
    assert by_digit.values == pytest.approx([0.1, 0.65, 0.29])
    assert measure_digits_by(p, "accuracy", "all").values == pytest.approx([2 / 3])
    expected = np.dot(DESIGN_LAW, range(10))
    distance = measure_digits_by(p, "distance", "all").values[0]
    assert distance == pytest.approx((abs(expected - 7) + abs(expected - 6) + 4.5) / 3)
    assert measure_digits_by(p, "true_probability", "digit").values == pytest.approx([0.1, 0.2, 0.6])


def test_interval_covers_the_mean_and_needs_two_texts():
    p = draw(0, 200)
    found = measure_digits_by(p, "entropy_nats", "all", draws=200)
    assert found.low[0] < found.values[0] < found.high[0]
    alone = measure_digits_by(made_up(p.probabilities, p.digit, sample=np.zeros(200, int)), "mass", "all", draws=20)
    assert np.isnan(alone.low[0]) and np.isnan(alone.high[0])


def test_rows_hold_axes_values_counts_and_ends():
    (row,) = measure_digits_by(made_up(one_hot([1, 2]), [1, 3]), "accuracy", "all").rows()
    assert (row["all"], row["digit accuracy"], row["n"]) == ("all", 0.5, 2) and row["low"] <= 0.5 <= row["high"]


def test_offsets_sum_to_one_and_the_first_is_the_true_digit():
    found = measure_offsets(made_up([DESIGN_LAW], [7]))
    assert found.values.sum() == pytest.approx(1) and found.values[:2] == pytest.approx([0.6, 0.29])
    assert found.counts.tolist() == [1] * 8 + [0] * 2


def test_confusion_rows_are_mean_predictions_by_true_digit():
    p = made_up([DESIGN_LAW, (0.1,) * 10, one_hot([2])[0]], [7, 7, 2], place=[0, 0, 1])
    soft = measure_confusion(p)
    assert soft.values[7] == pytest.approx((np.array(DESIGN_LAW) + 0.1) / 2)
    assert soft.values[2] == pytest.approx(one_hot([2])[0])
    assert np.isnan(soft.values[0]).all() and soft.counts[7].tolist() == [2] * 10
    assert measure_confusion(p, hard=True).values[7] == pytest.approx(one_hot([7])[0] / 2 + one_hot([0])[0] / 2)
    assert np.isnan(measure_confusion(p, place=1).values[7]).all()
    with pytest.raises(InputError, match="`place` 5 does not occur.*0, 1"):
        measure_confusion(p, place=5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: measure_digits_by(p, "nope"), "`measure` must be one of"),
        (lambda p: measure_digits_by(p, "mass", "week"), "`by` must be one of"),
        (lambda p: measure_calibration(p, bins=0), "`bins`"),
        (lambda p: made_up(p.probabilities[:1], [1, 2]), "`probabilities` must be"),
        (lambda p: made_up(p.probabilities * 2, p.digit), "sum to 1"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call(made_up(one_hot([1, 2]), [1, 2]))


# ---------------------------------------------------------------- gaps


def test_identical_models_have_a_gap_of_zero_with_zero_inside():
    p = draw(1, 100)
    found = measure_gap_by(p, p, draws=100)
    assert found.values[0] == 0 and found.low[0] <= 0 <= found.high[0]


def test_sharpened_predictions_are_over_sharp_against_their_origin():
    p = draw(2, 300)
    sharp = p.probabilities**2 / (p.probabilities**2).sum(-1, keepdims=True)
    found = measure_gap_by(made_up(sharp, p.digit), p, "all", draws=200)
    interval = Interval(float(found.values[0]), float(found.low[0]), float(found.high[0]), 300)
    assert judge_gap(interval) == "over-sharp"
    assert judge_gap(Interval(0.1, -0.1, 0.3, 2)) == judge_gap(Interval(0.1, None, None, 1)) == "not told apart"
    assert judge_gap(Interval(0.2, 0.1, 0.3, 2)) == "over-flat"


def test_gap_needs_the_same_digits():
    with pytest.raises(InputError, match="same samples"):
        measure_gap_by(made_up(one_hot([1]), [1]), made_up(one_hot([1]), [2]))


def reading(prompt, place, gap, law="flat"):
    return ReadingMeasure(prompt, place, 1.0, law, 2.0, 2.0 + gap, 0.0, 1.0, 0.0)


def test_law_gap_is_the_mean_over_digits_integers_and_decimals_apart():
    readings = [reading("a", 0, -0.1), reading("a", -1, -0.3), reading("b", 0, -0.2)]
    found = {group: measure_law_gap(readings, WHERE, group, draws=200) for group in ("all", "integer", "decimal")}
    assert found["all"].gap.mean == pytest.approx(-0.2) and found["all"].verdict == "over-sharp"
    assert found["integer"].gap.mean == pytest.approx(-0.15) and found["integer"].gap.count == 2
    assert (found["decimal"].gap.low, found["decimal"].verdict) == (None, "not told apart")
    with pytest.raises(InputError, match="`group`"):
        measure_law_gap(readings, WHERE, "dates")
    with pytest.raises(InputError, match="hold no digit"):
        measure_law_gap(readings[:1], WHERE, "decimal")


def test_model_that_repeats_the_law_has_no_gap():
    readings = [reading(r.prompt, place, 0.0) for r in READINGS for place in r.places]
    found = measure_law_gap(readings, WHERE)
    assert (found.gap.mean, found.gap.low, found.gap.high) == (0, 0, 0) and found.verdict == "not told apart"


# ---------------------------------------------------------------- calibration


def test_calibrated_predictor_has_an_ece_near_zero_and_a_sharpened_one_has_not():
    fair, overconfident = measure_calibration(draw(3), draws=50), measure_calibration(draw(4, sharpen=0.3), draws=50)
    assert fair.ece < 0.012 < 0.1 < overconfident.ece
    assert (overconfident.confidence > overconfident.accuracy)[overconfident.counts > 100].all()
    assert fair.counts.sum() == 20_000
    assert overconfident.ece > 5 * overconfident.ece_by_chance


def test_calibrated_predictor_has_the_ece_of_its_chance_level():
    found = [measure_calibration(draw(seed, 300), draws=1) for seed in range(40)]
    assert np.mean([one.ece for one in found]) == pytest.approx(np.mean([one.ece_by_chance for one in found]), rel=0.05)
    assert found[0].ece_by_chance == measure_calibration(draw(0, 300), draws=1).ece_by_chance > 0.01


def test_chance_level_is_worked_by_hand():
    p = np.full((1, 10), 0.2 / 9)
    p[:, 5] = 0.8
    found = measure_calibration(made_up(p, [5]), draws=1)
    assert found.ece_by_chance == pytest.approx(0.8 * 0.2 + 0.2 * 0.8, abs=0.1)  # off by 0.2 if right, by 0.8 if not
    assert measure_calibration(made_up(one_hot([5]), [5]), draws=1).ece_by_chance == 0


def test_calibration_is_worked_by_hand():
    p = np.full((4, 10), 0.2 / 9)
    p[:, 5] = 0.8
    found = measure_calibration(made_up(p, [5, 5, 5, 0]), bins=5, draws=20)
    assert found.counts.tolist() == [0, 0, 0, 4, 0]  # a border belongs to the bin below it
    assert (found.confidence[3], found.accuracy[3]) == (pytest.approx(0.8), 0.75)
    assert np.isnan(found.confidence[0])
    assert found.ece == pytest.approx(0.05)
    right, wrong = 0.2**2 + 9 * (0.2 / 9) ** 2, 0.8**2 + (1 - 0.2 / 9) ** 2 + 8 * (0.2 / 9) ** 2
    assert found.brier.mean == pytest.approx((3 * right + wrong) / 4)


def test_sure_and_right_scores_nothing_sure_and_wrong_the_most():
    right = measure_calibration(made_up(one_hot([1, 2]), [1, 2]), draws=20)
    wrong = measure_calibration(made_up(one_hot([1, 2]), [2, 1]), draws=20)
    assert (right.ece, right.brier.mean) == (0, 0)
    assert (wrong.ece, wrong.brier.mean) == (1, 2)
    alone = measure_calibration(made_up(one_hot([1, 2]), [2, 1], sample=[0, 0]), draws=20)
    assert alone.brier.low is None


# ---------------------------------------------------------------- from a model


def test_predictions_of_a_model_agree_with_the_evaluation():
    loaded = tiny_loaded()
    samples = [arithmetic_sample(i, 0, kind=kind) for i in range(4) for kind in ("addition", "decimal", "symbols")]
    found = predict_digits(loaded, samples, data="generated", seed=0)
    means = measure_digits(loaded, samples)
    assert len(found) == means.count == sum(c.isdigit() for s in samples for c in s.response)
    for name, ours in (("entropy_nats", "entropy_nats"), ("accuracy", "accuracy"), ("mass", "mass")):
        value = measure_digits_by(found, ours, "all", draws=10).values[0]
        assert value == pytest.approx(getattr(means, name))
    assert measure_digits_by(found, "distance", "all", draws=10).values[0] == pytest.approx(means.expected_digit_error)
    assert "".join(map(str, found.digit)) == "".join(c for s in samples for c in s.response if c.isdigit())
    assert set(found.kind) >= {"number"} and set(found.kind) <= {"number", "date", "identifier"}
    assert set(found.place[found.kind == "number"]) >= {0, -1}
    record = found.provenance
    assert (record.model, record.data, record.seed) == ("tiny", "generated", 0)
    assert len(record.data_sha256) == 64 and "torch" in record.versions


def test_samples_without_digits_are_refused():
    with pytest.raises(InputError, match="no digit"):
        predict_digits(tiny_loaded(), [Sample("a", "b")], data="none")


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        (Sample("", "12"), "number"),
        (Sample("", "12", "identifier"), "identifier"),
        (Sample("", "on 2024-05-01."), "date"),
        (Sample("", "01/05/2024"), "date"),
        (Sample("", "3/4"), "number"),
        (Sample("", "7", "reading"), "number"),
    ],
)
def test_kind_of_span(sample, kind):
    assert span_kind(sample) == kind
