"""What each place rule weighs along a number, and how far it jumps at the decimal point."""

from collections.abc import Sequence

import numpy as np
import torch

from delcore.analysis.outcomes import PlaceWeights
from delcore.digits import PLACE_RULES, DigitVocab, place_weights
from delcore.errors import InputError

_CHARACTERS = "0123456789."


def measure_place_weights(text: str = "123.456", rules: Sequence[str] = PLACE_RULES) -> PlaceWeights:
    """Weigh one number by some rules, through the function that training uses.

    Args:
        text: digits with at most one point.
        rules: of `delcore.place_weights`.

    Raises:
        InputError: something else than a number, or an unknown rule.

    >>> measure_place_weights("3.14", ["decimal"]).values.round(4).tolist()
    [[2.0, nan, 0.9612, 0.9423]]
    """
    if text.count(".") > 1 or set(text) - set(_CHARACTERS) or not text.strip("."):
        raise InputError(f'`text` must be digits with at most one point, such as "123.456"; got {text!r}.')
    labels = torch.tensor([[_CHARACTERS.index(character) for character in text]])
    vocab = DigitVocab(range(10), dot=10)
    values = np.stack([place_weights(labels, vocab, rule)[0].double().numpy() for rule in rules])
    point = text.find(".")
    if point >= 0:
        values[:, point] = np.nan
    unknown = np.full(len(rules), np.nan)
    between = 0 < point < len(text) - 1
    before, after = (values[:, point - 1], values[:, point + 1]) if between else (unknown, unknown)
    digits = np.delete(values, point, 1) if point >= 0 else values
    return PlaceWeights(
        text, tuple(rules), values, after - before, after / before, np.asarray((np.diff(digits) <= 0).all(-1))
    )
