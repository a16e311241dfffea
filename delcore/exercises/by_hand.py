"""Exercises 1, 2 and 4 to 6: probabilities, entropy and three losses by hand.

Right answers come from the package's own functions; only the usual mistakes are computed here.
"""

import math
from typing import Any

import torch

from delcore.analysis import entropy_nats
from delcore.digits import DigitVocab
from delcore.exercises.checks import Check, Mistake, check_number, check_word, first_wrong
from delcore.losses import numeric_loss

SCORES = (1, 1, 1, 1, 1, 1, 1, 8, 4, 1)
"""Exercise 1: exp of the ten digit logits."""

OTHER_SCORES = 5
"""Exercise 1: exp of all other logits of the vocabulary, summed."""

UNDECIDED = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.25, 0.0)
"""Exercise 2: p̂ of the ten digits."""

PREDICTED = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.2, 0.0, 0.3)
"""Exercise 4: p̂ of the ten digits, of which 7 is true."""

TRUE_DIGIT = 7
PEAK = 9
"""Exercise 5: the true digit of a DIST2Loss target at τ = 1."""

FAR_BELOW = -30.0
DEL_LOGITS = (FAR_BELOW,) * 6 + (0.0, math.log(3.0), FAR_BELOW, FAR_BELOW)
"""Exercise 6: digit logits, of which 7 is true: p̂ is ¼ for 6 and ¾ for 7."""

_VOCAB = DigitVocab(range(10))


def digit_term(name: str, logits: Any, true_digit: int) -> float:
    """ℓ of a loss at one digit: α = 1, u = 1."""
    scores = torch.as_tensor(logits, dtype=torch.float64)[None, None]
    options: dict[str, Any] = {"place": "none"} if name == "del" else {}
    found = numeric_loss(name, scores, torch.tensor([[true_digit]]), _VOCAB, alpha=1.0, **options)
    return float(found.digit_term)


def check_probability_and_mass(probability: Any, mass: Any) -> Check:
    """Exercise 1: p̂ of digit 7, and the digit mass."""
    digits, seven = sum(SCORES), SCORES[7]
    whole = digits + OTHER_SCORES
    first = check_number(
        probability,
        seven / digits,
        f"p̂(7) = {seven}/{digits}: among digits only.",
        [
            Mistake(seven / whole, "You divided by the whole vocabulary. p̂ is given that a digit comes: divide by 20."),
            Mistake(seven / 10, "You divided by ten, the number of digits. Divide by the sum of their scores."),
            Mistake(seven / OTHER_SCORES, "You divided by the other tokens' scores. Divide by the digits' own sum."),
            Mistake(float(seven), "That is the score itself. Divide it by the sum of the ten digits' scores."),
        ],
        "Divide the score of 7 by the sum of the ten digits' scores.",
    )
    second = check_number(
        mass,
        digits / whole,
        f"The digits hold {digits} of {whole}, so m = {digits / whole:g}.",
        [
            Mistake(OTHER_SCORES / whole, "That is the share of all *other* tokens. The digit mass is what is left."),
            Mistake(digits / OTHER_SCORES, "That is digits against others. A share divides by both together."),
            Mistake(seven / whole, "That is the share of 7 alone. The mass is that of all ten digits together."),
            Mistake(1.0, "p̂ always sums to 1; the mass asks how much of the *whole* softmax the digits have."),
        ],
        "Divide the digits' sum by the sum over the whole vocabulary.",
    )
    return first_wrong({"p̂(7)": first, "digit mass": second})


def check_entropy(nats: Any) -> Check:
    """Exercise 2: entropy of ¼, ½, ¼."""
    right = entropy_nats(UNDECIDED)
    return check_number(
        nats,
        right,
        f"H = −Σ p̂ ln p̂ = 1.5 · ln 2 = {right:.3f} nats.",
        [
            Mistake(right / math.log(2), "These are bits: you took log2. In nats the logarithm is the natural one."),
            Mistake(right / math.log(10), "You took log10. In nats the logarithm is the natural one (math.log)."),
            Mistake(-right, "The sign is missing: logarithms of probabilities are negative, so H = −Σ p̂ ln p̂."),
            Mistake(math.log(3), "That is ln 3, as if the three digits were equally likely; 7 is twice as likely."),
            Mistake(math.log(10), "That is ln 10, as if all ten digits were equally likely; only three are possible."),
            Mistake(math.exp(right), "That is exp H, the number of equally likely digits as undecided as this."),
        ],
        "Sum −p̂ · ln p̂ over the three digits that have a probability.",
    )


def check_ntl_was(value: Any) -> Check:
    """Exercise 4: Σ |k − c| p̂."""
    expected = sum(k * p for k, p in enumerate(PREDICTED))
    right = digit_term("ntl_was", [math.log(p) if p else -1e9 for p in PREDICTED], TRUE_DIGIT)
    squares = sum(p * (k - TRUE_DIGIT) ** 2 for k, p in enumerate(PREDICTED))
    return check_number(
        value,
        right,
        f"ℓ = ½·1 + 0.2·0 + 0.3·2 = {right:.3g} digits.",
        [
            Mistake(abs(expected - TRUE_DIGIT), "That is |E[k] − c|: errors on both sides cancel. Average |k − c|."),
            Mistake((expected - TRUE_DIGIT) ** 2, "That is NTL-MSE, (E[k] − c)². NTL-WAS averages |k − c|."),
            Mistake(squares, "You squared the distances. NTL-WAS takes |k − c| as it is."),
            Mistake(0.3 * right, "That has α = 0.3 in it. ℓ itself is asked here."),
            Mistake(right / 10, "That is a mean over ten classes, as the released code has it. The paper sums."),
            Mistake(1.0, "That is the distance of the most likely digit alone. Weigh every digit by its p̂."),
        ],
        "Multiply each digit's distance from 7 by its p̂, and add up.",
    )


def check_dist2_target(at_9: Any, at_8: Any) -> Check:
    """Exercise 5: the target of a true 9 at τ = 1, at 9 and at its neighbour."""
    scores = [math.exp(-((k - PEAK) ** 2)) for k in range(10)]
    both_sides = 1 + 2 * sum(math.exp(-(d**2)) for d in range(1, 10))
    first = check_number(
        at_9,
        _dist2_target(9),
        f"g(9) = 1 / (1 + e⁻¹ + e⁻⁴ + …) = {_dist2_target(9):.3f}.",
        [
            Mistake(1.0, "These are scores before they are normalised. Divide by the sum over the ten digits."),
            Mistake(1 / both_sides, "You counted neighbours on both sides, but above 9 there is no digit."),
            Mistake(1 / sum(math.exp(-k) for k in range(10)), "You took |k − c|. DIST2Loss squares the distance."),
            Mistake(1 / sum(math.exp(-(k**2) / 2) for k in range(10)), "You halved the square, as a Gaussian does."),
        ],
        "Score every digit by exp(−(k − 9)²), then divide by the sum of the ten scores.",
    )
    second = check_number(
        at_8,
        _dist2_target(8),
        f"g(8) = e⁻¹ · g(9) = {_dist2_target(8):.3f}: more than a quarter of the target lies beside the truth.",
        [
            Mistake(scores[8], "That is the score before it is normalised. Divide by the sum over the ten digits."),
            Mistake(1 - _dist2_target(9), "That is all that is left of 1; the digits below 8 have a little of it."),
            Mistake(0.0, "A target of 0 is that of cross-entropy. DIST2Loss gives neighbours a share on purpose."),
        ],
        "8 is 1 away, so its score is e⁻¹; divide by the same sum.",
    )
    return first_wrong({"g(9)": first, "g(8)": second})


def _dist2_target(k: int) -> float:
    """g(k), read off the gradient p̂ − g of the loss itself at p̂ uniform."""
    logits = torch.zeros(1, 1, 10, dtype=torch.float64, requires_grad=True)
    numeric_loss("dist2", logits, torch.tensor([[PEAK]]), _VOCAB, alpha=1.0).digit_term.backward()
    assert logits.grad is not None
    return 0.1 - float(logits.grad[0, 0, k])


def check_del(term: Any, shifted: Any) -> Check:
    """Exercise 6: Σ p̂ · BCE, and what it does when all digit logits rise by 1."""
    right = digit_term("del", DEL_LOGITS, TRUE_DIGIT)
    true, other = -math.log(0.75), math.log(2)
    first = check_number(
        term,
        right,
        f"ℓ = ¾ · (−ln ¾) + ¼ · ln 2 = {right:.3f} nats.",
        [
            Mistake(true + other, "You added the two BCE terms unweighted. DEL weighs each by its p̂."),
            Mistake(0.75 * true, "You took the true digit alone. DEL also asks 6 to say no: add ¼ · (−ln(1 − σ(0)))."),
            Mistake(true, "That is −ln p̂(7), or BCE on p̂. DEL puts σ on each raw logit, so 6 has σ(0) = ½."),
            Mistake(entropy_nats([0.25, 0.75]), "That is the entropy of p̂. DEL's criterion is BCE with the label."),
            Mistake(2 * right, "That has the place weight u = 2 in it. ℓ itself is asked here."),
            Mistake(right / 10, "That is a mean over ten digits, as the released code has it. The paper sums."),
        ],
        "For each digit: p̂ times −ln σ(a) if it is the true one, else times −ln(1 − σ(a)); then add up.",
    )
    hints = {
        "stays": "p̂ stays, but σ sees the raw logits: σ(1) is no longer ½. Only the conditional variant stays.",
        "falls": "The true digit's part falls, but that of 6 rises by more: −ln(1 − σ(1)) is 1.31.",
    }
    risen = digit_term("del", [logit + 1 for logit in DEL_LOGITS], TRUE_DIGIT)
    direction = "rises" if risen > right else "falls"
    why = f"With 1 added to all ten logits it rises to {risen:.3f}, though p̂ is the same."
    second = check_word(shifted, direction, ("rises", "stays", "falls"), hints.__getitem__, why)
    return first_wrong({"ℓ": first, "ℓ with 1 added": second})
