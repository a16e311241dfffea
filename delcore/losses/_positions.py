"""What every loss sees of a batch: cross-entropy and ten digit logits per position, and nothing larger.

A loss never touches `[batch, seq, vocab]` itself. It is a function of a `Positions`, made once per batch;
so the path from full logits and any leaner path give the same mathematics.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from delcore.digits import IGNORE, DigitVocab, decimal_points, place_weights
from delcore.errors import InputError

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
class Positions:
    """One aligned batch, reduced to what the losses need; float32 unless the logits were float64.

    Args:
        cross_entropy: [batch, seq], −log q[label]; 0 where not supervised.
        digit_logits: [batch, seq, 10]; 0 where the label is no digit, so that nothing there can be NaN.
        digit: [batch, seq], the true digit; 0 where there is none.
        is_digit: [batch, seq].
        place_weight: from a place rule (and its named constants) to the weights u, [batch, seq].
        expected_cost: from nothing to EMO's e, [batch, seq]; raises without an embedding.
        with_dot: from nothing to ([batch, seq, 11] logits of the digits and the dot at digits and decimal points,
            0 elsewhere; [batch, seq] where the label is a decimal point); raises without a dot.
        supervised: [batch, seq], where the label is not `IGNORE`.
    """

    cross_entropy: Tensor
    digit_logits: Tensor
    digit: Tensor
    is_digit: Tensor
    place_weight: Callable[..., Tensor]
    expected_cost: Callable[[], Tensor]
    with_dot: Callable[[], tuple[Tensor, Tensor]]
    supervised: Tensor

    @cached_property
    def digit_log_probs(self) -> Float[Tensor, "batch seq 10"]:
        """Logarithm of p̂, the probability of each digit given that the token is one."""
        return self.digit_logits.log_softmax(-1)

    @cached_property
    def digit_probs(self) -> Float[Tensor, "batch seq 10"]:
        """p̂, the probability of each digit given that the token is one."""
        return self.digit_log_probs.exp()

    @cached_property
    def is_true_digit(self) -> Bool[Tensor, "batch seq 10"]:
        """Where k is the true digit c."""
        return self.digit.unsqueeze(-1) == torch.arange(10, device=self.digit.device)

    @cached_property
    def log_mass(self) -> Float[Tensor, "batch seq"]:
        """Log m at digit positions, 0 elsewhere: CE = −log p̂[c] − log m, and m is at most 1."""
        true_log_prob = self.digit_log_probs.gather(-1, self.digit.unsqueeze(-1)).squeeze(-1)
        log_mass = -self.cross_entropy - true_log_prob
        return torch.where(self.is_digit, log_mass, 0.0)

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
    digit = vocab.classes(labels)
    is_digit = digit >= 0
    columns = logits.index_select(-1, vocab.index(logits.device)).to(dtype)  # [batch, seq, 10]

    def expected_cost() -> Tensor:
        return expected_transport_cost(logits, labels, embedding)

    def with_dot() -> tuple[Tensor, Tensor]:
        if vocab.dot is None:
            raise InputError("`dot=True` needs a vocabulary with a dot; `vocab.dot` is None.")
        is_point = decimal_points(labels, vocab, segments)
        eleven = torch.cat([columns, logits[..., vocab.dot, None].to(dtype)], -1)
        return torch.where((is_digit | is_point).unsqueeze(-1), eleven, 0.0), is_point

    return Positions(
        cross_entropy=_cross_entropy(logits, labels, dtype),
        digit_logits=torch.where(is_digit.unsqueeze(-1), columns, 0.0),
        digit=digit.clamp(min=0),
        is_digit=is_digit,
        place_weight=lambda rule, **constants: place_weights(labels, vocab, rule, segments, **constants).to(dtype),
        expected_cost=expected_cost,
        with_dot=with_dot,
        supervised=labels != IGNORE,
    )


def _cross_entropy(logits: Tensor, labels: Tensor, dtype: torch.dtype) -> Tensor:
    flat = F.cross_entropy(logits.flatten(0, 1).to(dtype), labels.flatten(), ignore_index=IGNORE, reduction="none")
    return flat.unflatten(0, labels.shape)


def expected_transport_cost(
    logits: Float[Tensor, "batch seq vocab"],
    labels: Int[Tensor, "batch seq"],
    embedding: Float[Tensor, "rows width"] | None,
) -> Float[Tensor, "batch seq"]:
    """EMO's e = 1 − Σ_v q_v cos(E[label], E_v): what it costs to move the prediction onto the label.

    Source: Ren et al., EMO (arXiv:2310.04691), and the package EMOLoss 0.0.3. `embedding` is not trained.
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    if embedding is None:
        raise InputError("`emo` needs `embedding`, a frozen copy of the output embedding, [vocab, width].")
    if embedding.shape[0] < logits.shape[-1]:
        raise InputError(
            f"`embedding` must have a row for each of the {logits.shape[-1]} logits; got {embedding.shape[0]} rows."
        )
    directions = F.normalize(embedding[: logits.shape[-1]].detach().to(dtype), dim=-1)
    expected = logits.to(dtype).softmax(-1) @ directions  # [batch, seq, width]
    label_directions = directions[labels.clamp(min=0)]
    return 1 - (expected * label_directions).sum(-1)


@lru_cache(maxsize=64)
def _digit_values(distance: str, device: torch.device) -> Tensor:
    kind, _, seed = distance.partition(":")
    if distance == "numeric":
        return torch.arange(10.0, device=device)
    if kind == "permuted" and seed.isdecimal():
        order = torch.randperm(10, generator=torch.Generator().manual_seed(int(seed)))
        return order.float().to(device)
    raise InputError(f'`distance` must be "numeric" or "permuted:SEED" with a whole number; got {distance!r}.')
