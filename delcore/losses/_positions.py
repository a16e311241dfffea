"""What every loss sees of a batch: cross-entropy and ten digit logits per position, and nothing larger.

A loss never touches `[batch, seq, vocab]` itself. It is a function of a `Positions`, made once per batch;
so the path from full logits and any leaner path give the same mathematics.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from delcore.digits import IGNORE, DigitVocab, decimal_points, place_weights
from delcore.errors import InputError
from delcore.losses._scores import read_scores

EPS = 1e-10
"""EMO's guard against division by zero, as published."""


class Terms(NamedTuple):
    """What a loss adds at each position, before any average.

    Args:
        token: [batch, seq] term of every supervised position (cross-entropy or what replaces it).
        digit: [batch, seq] u·ℓ of every digit position, without α; None where the loss has no such term.
    """

    token: Tensor
    digit: Tensor | None = None


@dataclass(frozen=True)
class Targets:
    """What the labels alone say of a batch: which positions count, their digits and their places.

    Args:
        supervised: [batch, seq], where the label is not `IGNORE`.
        digit: [batch, seq], the true digit; 0 where there is none.
        is_digit: [batch, seq].
        place_weight: from a place rule (and its named constants) to the weights u, [batch, seq].
        is_point: from nothing to [batch, seq], where the label is a decimal point; raises without a dot.
    """

    supervised: Tensor
    digit: Tensor
    is_digit: Tensor
    place_weight: Callable[..., Tensor]
    is_point: Callable[[], Tensor]

    @classmethod
    def from_labels(cls, labels: Tensor, vocab: DigitVocab, segments: Tensor | None, dtype: torch.dtype) -> "Targets":
        """Read the labels once; places are computed when a loss first asks for them."""
        digit = vocab.classes(labels)

        def place_weight(rule: str, **constants: float) -> Tensor:
            return place_weights(labels, vocab, rule, segments, **constants).to(dtype)

        def is_point() -> Tensor:
            if vocab.dot is None:
                raise InputError("`dot=True` needs a vocabulary with a dot; `vocab.dot` is None.")
            return decimal_points(labels, vocab, segments)

        if torch.compiler.is_compiling():  # which cannot read a cache, and needs none
            return cls(labels != IGNORE, digit.clamp(min=0), digit >= 0, place_weight, is_point)
        return cls(labels != IGNORE, digit.clamp(min=0), digit >= 0, cache(place_weight), cache(is_point))

    def take(self, index: Int[Tensor, "rows"]) -> "Targets":
        """The positions of a flat index, as one row: [1, rows]."""

        def pick(per_position: Tensor) -> Tensor:
            return per_position.flatten()[index].unsqueeze(0)

        return Targets(
            pick(self.supervised),
            pick(self.digit),
            pick(self.is_digit),
            lambda rule, **constants: pick(self.place_weight(rule, **constants)),
            lambda: pick(self.is_point()),
        )


@dataclass(frozen=True)
class Positions:
    """One aligned batch, reduced to what the losses need; float32 unless the logits were float64.

    Args:
        targets: what the labels say.
        cross_entropy: [batch, seq], −log q[label]; 0 where not supervised.
        columns: [batch, seq, 10 or 11], logits of the ten digits and, if the vocabulary has one, the dot.
        cost: from nothing to EMO's e, [batch, seq]; raises without an embedding.
    """

    targets: Targets
    cross_entropy: Tensor
    columns: Tensor
    cost: Callable[[], Tensor]

    @property
    def supervised(self) -> Bool[Tensor, "batch seq"]:
        """Where the label is not `IGNORE`."""
        return self.targets.supervised

    @property
    def digit(self) -> Int[Tensor, "batch seq"]:
        """The true digit; 0 where there is none."""
        return self.targets.digit

    @property
    def is_digit(self) -> Bool[Tensor, "batch seq"]:
        """Where the label is a digit."""
        return self.targets.is_digit

    @property
    def digit_logits(self) -> Float[Tensor, "batch seq 10"]:
        """The digit logits a; 0 where the label is no digit, so that nothing there can become NaN."""
        return torch.where(self.is_digit.unsqueeze(-1), self.columns[..., :10], 0.0)

    def with_dot(self) -> tuple[Float[Tensor, "batch seq 11"], Bool[Tensor, "batch seq"]]:
        """Logits of the digits and the dot at digits and decimal points (0 elsewhere), and where the points are."""
        is_point = self.targets.is_point()
        return torch.where((self.is_digit | is_point).unsqueeze(-1), self.columns, 0.0), is_point

    @property
    def digit_log_probs(self) -> Float[Tensor, "batch seq 10"]:
        """Logarithm of p̂, the probability of each digit given that the token is one."""
        return self.digit_logits.log_softmax(-1)

    @property
    def digit_probs(self) -> Float[Tensor, "batch seq 10"]:
        """p̂, the probability of each digit given that the token is one."""
        return self.digit_log_probs.exp()

    @property
    def is_true_digit(self) -> Bool[Tensor, "batch seq 10"]:
        """Where k is the true digit c."""
        return self.digit.unsqueeze(-1) == torch.arange(10, device=self.digit.device)

    @property
    def log_mass(self) -> Float[Tensor, "batch seq"]:
        """Log m at digit positions, 0 elsewhere: CE = −log p̂[c] − log m, and m is at most 1."""
        true_log_prob = self.digit_log_probs.gather(-1, self.digit.unsqueeze(-1)).squeeze(-1)
        # A label at −inf makes both sides infinite and does not tell m: it counts as 1 there.
        known = self.is_digit & ~self.cross_entropy.isinf()
        log_mass = -self.cross_entropy.masked_fill(~known, 0.0) - true_log_prob.masked_fill(~known, 0.0)
        return torch.where(known, log_mass, 0.0)

    def values(self, distance: str) -> tuple[Tensor, Tensor]:
        """The number each digit class stands for, [10], and that of the true digit, [batch, seq].

        `distance` is "numeric", or "permuted:SEED" for the control whose distances mean nothing.
        """
        values = _digit_values(distance, self.digit.device).to(self.digit_logits.dtype)
        return values, values[self.digit]

    def at_digits(self, per_position: Tensor) -> Tensor:
        """`per_position` where the label is a digit, 0 elsewhere (without NaN in the gradient)."""
        return torch.where(self.is_digit, per_position, 0.0)


def positions_from_logits(
    logits: Float[Tensor, "batch seq vocab"],
    labels: Int[Tensor, "batch seq"],
    vocab: DigitVocab,
    *,
    segments: Int[Tensor, "batch seq"] | None = None,
    embedding: Float[Tensor, "rows width"] | None = None,
) -> Positions:
    """Reduce full logits to `Positions`; computed in float32, or float64 if the logits are."""
    dtype = torch.promote_types(logits.dtype, torch.float32)
    cross_entropy, columns = read_scores(logits, labels, vocab.index(logits.device, with_dot=True))
    return Positions(
        targets=Targets.from_labels(labels, vocab, segments, dtype),
        cross_entropy=cross_entropy,
        columns=columns,
        cost=lambda: expected_transport_cost(logits, labels, embedding),
    )


def expected_transport_cost(
    logits: Float[Tensor, "batch seq vocab"],
    labels: Int[Tensor, "batch seq"],
    embedding: Float[Tensor, "rows width"] | None,
) -> Float[Tensor, "batch seq"]:
    """EMO's e = 1 − Σ_v q_v cos(E[label], E_v): what it costs to move the prediction onto the label.

    Source: Ren et al., EMO (arXiv:2310.04691), and the package EMOLoss 0.0.3. `embedding` is not trained.
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    directions = F.normalize(check_embedding(embedding, logits.shape[-1]).to(logits.device, dtype), dim=-1)
    with without_autocast(logits.device):
        expected = logits.to(dtype).softmax(-1) @ directions  # [batch, seq, width]
    label_directions = directions[labels.clamp(min=0)]
    return 1 - (expected * label_directions).sum(-1)


def without_autocast(device: torch.device) -> AbstractContextManager[None]:
    """Keep autocast from lowering the precision of what is computed in float32 on purpose."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if known else nullcontext()


def check_embedding(embedding: Tensor | None, columns: int) -> Float[Tensor, "vocab width"]:
    """EMO's embedding, detached, one row for each column of the head."""
    if embedding is None:
        raise InputError("`emo` needs `embedding`, a frozen copy of the output embedding, [vocab, width].")
    if embedding.shape[0] < columns:
        raise InputError(
            f"`embedding` must have a row for each of the {columns} logits; got {embedding.shape[0]} rows."
        )
    return embedding[:columns].detach()


def _digit_values(distance: str, device: torch.device) -> Tensor:
    values = _values_in_order(distance)
    return torch.tensor(values, device=device) if torch.compiler.is_compiling() else _cached_values(values, device)


@lru_cache(maxsize=64)
def _cached_values(values: tuple[float, ...], device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # what is kept must serve training later
        return torch.tensor(values, device=device)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _values_in_order(distance: str) -> tuple[float, ...]:
    kind, _, seed = distance.partition(":")
    if distance == "numeric":
        return tuple(map(float, range(10)))
    if kind == "permuted" and seed.isdecimal() and int(seed) < 2**63:
        order = torch.randperm(10, generator=torch.Generator().manual_seed(int(seed)))
        return tuple(map(float, order.tolist()))
    raise InputError(f'`distance` must be "numeric" or "permuted:SEED" with a whole number; got {distance!r}.')
