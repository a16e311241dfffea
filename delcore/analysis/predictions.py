"""Every digit of some right responses with what a model expected there: the raw material of the digit measures."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from delcore.analysis.results import Provenance
from delcore.arithmetic import Sample
from delcore.errors import InputError
from delcore.evaluate import iterate_digits
from delcore.fingerprints import fingerprint_texts
from delcore.models import LoadedModel

SPAN_KINDS = ("number", "date", "identifier")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}")


@dataclass(frozen=True, eq=False)
class DigitPredictions:
    """Predictions under teacher forcing, one row per digit.

    Args:
        probabilities: p̂ of the digits 0 … 9, [digits, 10].
        mass: share of the full softmax on the ten digits, [digits].
        digit: the true digit, [digits].
        place: 0 for units, −1 for tenths …, as the training loss reads the response, [digits].
        kind: one of `SPAN_KINDS`, [digits].
        sample: which text the digit belongs to, [digits]; digits of one text are not independent.
        provenance: model and data.
    """

    probabilities: NDArray[np.float64]
    mass: NDArray[np.float64]
    digit: NDArray[np.int64]
    place: NDArray[np.int64]
    kind: NDArray[Any]
    sample: NDArray[np.int64]
    provenance: Provenance

    def __post_init__(self) -> None:
        """Refuse what is no table of digit predictions.

        Raises:
            InputError: columns of different lengths, or rows that are no probabilities.
        """
        n = len(self.digit)
        columns = (self.mass, self.place, self.kind, self.sample)
        if self.probabilities.shape != (n, 10) or any(len(column) != n for column in columns):
            raise InputError(f"`probabilities` must be [digits, 10] and every other column [digits]; got {n} digits.")
        if n and not np.allclose(self.probabilities.sum(-1), 1, atol=1e-6):
            raise InputError("`probabilities` must sum to 1 in every row.")

    def __len__(self) -> int:
        """How many digits."""
        return len(self.digit)


def predict_digits(
    loaded: LoadedModel, samples: Sequence[Sample], *, data: str, seed: int | None = None
) -> DigitPredictions:
    """Let a model read the right responses, and keep what it expected at each digit.

    Args:
        loaded: the model.
        samples: texts with the responses to read.
        data: what they are, in words, for the record.
        seed: they were drawn with.

    Raises:
        InputError: no digit in any response.
    """
    parts = list(iterate_digits(loaded, samples))
    if not sum(len(part.digit) for part in parts):
        raise InputError("`samples` hold no digit in any response, so there is nothing to measure.")
    order = torch.cat([part.sample for part in parts]).argsort(stable=True)

    def column(name: str) -> NDArray:
        values = [getattr(part if name in part._fields else part.readout, name) for part in parts]
        return torch.cat(values).cpu()[order].numpy()

    sample = column("sample")
    kinds = np.array([span_kind(one) for one in samples])
    return DigitPredictions(
        probabilities=np.exp(column("log_probs")),
        mass=column("mass"),
        digit=column("digit"),
        place=column("place"),
        kind=kinds[sample],
        sample=sample,
        provenance=Provenance(loaded.card.name, loaded.card.revision, data, fingerprint_texts(samples), seed),
    )


def span_kind(sample: Sample) -> str:
    """What the digits of a response stand for: a number, a date, or an identifier.

    The generator says what it wrote; of other texts only a date is told by its look, and the rest counts as numbers.
    """
    if sample.kind in SPAN_KINDS:
        return sample.kind
    return "date" if _DATE.search(sample.response) else "number"
