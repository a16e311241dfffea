"""The losses: one registry, one signature, one place that normalises.

>>> import torch
>>> from delcore import DigitVocab, numeric_loss
>>> uniform = torch.zeros(1, 1, 10)
>>> numeric_loss("ntl_was", uniform, torch.tensor([[0]]), DigitVocab(range(10)), alpha=1.0).digit_term.item()
4.5
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses._checks import check_counts, check_inputs, normalise
from delcore.losses._positions import Positions, Terms, check_embedding, positions_from_logits
from delcore.losses.digit_entropy import del_released, digit_entropy
from delcore.losses.dist2 import dist2
from delcore.losses.emo import emo
from delcore.losses.mixce import mixce
from delcore.losses.mle import mle
from delcore.losses.ntl import ntl_mse, ntl_was

__all__ = ["LOSSES", "Loss", "LossOutput", "numeric_loss"]


@dataclass(frozen=True)
class Loss:
    """An entry of `LOSSES`: a function of the batch's positions, and what a user should know of it.

    Args:
        name: its key, the same in code, command line, tests and figures.
        title: as the papers write it.
        function: from `Positions` and options to `Terms`.
        alpha: default weight of the digit term; None for a loss without one.
        place: default place rule of the digit term; None for a loss without one.
        options: the options that the function takes, with their defaults.
        per_batch: the digit term is averaged over the batch at hand, not over the whole optimiser step.
        sees_level: adding a constant to all logits changes the loss (by default).
        has_value: its gradient is that of its value; False where a factor is stopped.
    """

    name: str
    title: str
    function: Callable[..., Terms]
    alpha: float | None = None
    place: str | None = None
    per_batch: bool = False
    sees_level: bool = False
    has_value: bool = True
    options: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Read the options that this loss takes, with their defaults, off the function's signature."""
        parameters = inspect.signature(self.function).parameters.values()
        options = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        object.__setattr__(self, "options", MappingProxyType(options))

    @property
    def counts_digits(self) -> bool:
        """Whether the digit term is divided by the digits of the whole step."""
        return self.alpha is not None and not self.per_batch

    def __call__(self, positions: Positions, **options: Any) -> Terms:
        """Check that the options fit, then compute the loss's terms."""
        self.check_options(options)
        return self.function(positions, **options)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse an option that this loss does not take."""
        unknown = [name for name in options if name not in self.options]
        if unknown:
            fitting = ", ".join(f"`{name}`" for name in self.options) or "no options"
            raise InputError(f"`{self.name}` does not take `{unknown[0]}`; it takes {fitting}.")
        for name, value in options.items():
            kind = type(self.options[name])
            if kind is bool and not isinstance(value, bool):
                raise InputError(f"`{name}` must be true or false; got {value!r}.")
            if kind is float and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise InputError(f"`{name}` must be a number; got {value!r}.")
            if kind in (str, NoneType) and not isinstance(value, str | NoneType):
                raise InputError(f"`{name}` must be text; got {value!r}.")

    def check_values(self, options: Mapping[str, Any], *, has_dot: bool = True) -> None:
        """Refuse options that do not fit or are out of range, by computing the loss of an empty batch with them."""
        self.check_options(options)
        if not torch.compiler.is_compiling():  # a graph cannot read a cache; the loss itself checks there
            _try_options(self.name, has_dot, tuple(options.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle an entry of the registry by its name."""
        return get_loss, (self.name,)

    def resolve_alpha(self, alpha: float | None) -> float:
        """The weight of the digit term: `alpha`, or the default; 0 for a loss without such a term."""
        if self.alpha is None:
            if alpha is not None:
                raise InputError(f"`alpha` weighs a digit term, and `{self.name}` has none. Leave it out.")
            return 0.0
        if alpha is None:
            return self.alpha
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha < math.inf:
            raise InputError(f"`alpha` must be a finite number, 0 or above; got {alpha!r}.")
        return float(alpha)


LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        loss.name: loss
        for loss in (
            Loss("mle", "MLE", mle),
            Loss("mixce", "MixCE", mixce, has_value=False),
            Loss("emo", "EMO", emo, has_value=False),
            Loss("ntl_was", "NTL-WAS", ntl_was, alpha=0.3, place="none"),
            Loss("ntl_mse", "NTL-MSE", ntl_mse, alpha=0.3, place="none"),
            Loss("dist2", "DIST2Loss", dist2, alpha=0.1, place="none"),
            Loss("del", "DEL", digit_entropy, alpha=0.1, place="decimal", sees_level=True),
            Loss(
                "del_released",
                "DEL (as released)",
                del_released,
                alpha=0.01,
                place="released",
                per_batch=True,
                sees_level=True,
            ),
        )
    }
)


def get_loss(name: str) -> Loss:
    """Look a loss up by its name, or say which names there are."""
    if name not in LOSSES:
        raise InputError(f"`loss` must be one of {', '.join(LOSSES)}; got {name!r}.")
    return LOSSES[name]


@lru_cache(maxsize=256)
def _try_options(name: str, has_dot: bool, options: tuple[tuple[str, Any], ...]) -> None:
    vocab = DigitVocab(range(10), dot=10 if has_dot else None)
    nothing, none = torch.zeros(0, 0, 11), torch.zeros(0, 0, dtype=torch.long)
    positions = positions_from_logits(nothing, none, vocab, embedding=torch.ones(11, 1))
    LOSSES[name].function(positions, **dict(options))


class LossOutput(NamedTuple):
    """A loss and its parts; total = token_term + digit_term.

    Args:
        total: scalar to call `backward` on, attached to the graph even without digits.
        token_term: sum of the token terms over `step_tokens`.
        digit_term: α times the sum of u·ℓ over `step_digits`; exactly 0 without digits.
        n_tokens: supervised positions in this batch.
        n_digits: digit positions in this batch.
        digit_mass: mean of m over this batch's digit positions, from 0 to 1; 0 without digits; detached.
        digit_entropy_nats: mean entropy of p̂ over them, likewise.
        digit_accuracy: share of them whose most probable digit is the true one, likewise.
        per_position: [batch, seq], token term + α·u·ℓ before the division by the counts; 0 where not supervised.
    """

    total: Tensor
    token_term: Tensor
    digit_term: Tensor
    n_tokens: Tensor
    n_digits: Tensor
    digit_mass: Tensor
    digit_entropy_nats: Tensor
    digit_accuracy: Tensor
    per_position: Tensor


def numeric_loss(
    name: str,
    logits: Float[Tensor, "batch seq vocab"],
    labels: Int[Tensor, "batch seq"],
    vocab: DigitVocab,
    *,
    alpha: float | None = None,
    step_tokens: int | Tensor | None = None,
    step_digits: int | Tensor | None = None,
    segments: Int[Tensor, "batch seq"] | None = None,
    embedding: Float[Tensor, "rows width"] | None = None,
    validate: bool | None = None,
    **options: Any,
) -> LossOutput:
    """One of the `LOSSES` of one batch, (1/M) Σ token terms + α (1/N) Σ u·ℓ.

    Position t of `logits` predicts position t of `labels`; `delcore.align` makes them so.

    Args:
        name: key of `LOSSES`.
        logits: raw scores, any float dtype, at least as wide as the tokenizer.
        labels: token ids; `IGNORE` (−100) where not supervised. Moved to the device of `logits`.
        vocab: the ten digit ids.
        alpha: weight of the digit term; None for the loss's default.
        step_tokens: M, supervised positions of the whole optimiser step, over all its micro-batches and ranks;
            None if this batch is the whole step.
        step_digits: N, its digit positions, likewise.
        segments: packed sample of each position; numbers do not cross its borders.
        embedding: output embedding, [at least vocab, width]; `emo` needs it and never trains it.
        validate: look for labels out of range; by default on the CPU only, as it makes a GPU wait.
        **options: what this loss takes; see its function, or `LOSSES[name].options`.

    Raises:
        InputError: an unknown loss, an option that does not fit it or is out of range, shapes that differ,
            digit ids beyond the head, labels out of range.
        TypeError: integer logits or floating labels.

    Under `torch.compile(fullgraph=True)`: one graph for any number of digits; another shape compiles anew.
    `torch.func` transforms are not supported.

    Source: for each loss in its own file. The normalisation is that of arXiv:2605.20369's cross-entropy,
    applied to both terms; the released code averages the digit term per micro-batch (`del_released`).
    """
    call = check_call(
        name, logits, labels, vocab, options, alpha, (step_tokens, step_digits), segments, embedding, validate
    )
    positions = positions_from_logits(logits, call.labels, vocab, segments=call.segments, embedding=embedding)
    terms = call.loss(positions, **options)
    return reduce_terms(positions, terms, call.alpha, step_tokens, None if call.loss.per_batch else step_digits)


class Call(NamedTuple):
    """The checked arguments that `numeric_loss` and `lean_loss` share, on the device of the logits or states.

    Args:
        loss: the entry of `LOSSES`.
        alpha: weight of its digit term.
        labels: [batch, seq], as int64.
        segments: [batch, seq] or None.
        directions: EMO's embedding, a row for each column; None for the others.
        validate: whether values may be looked at.
    """

    loss: Loss
    alpha: float
    labels: Tensor
    segments: Tensor | None
    directions: Tensor | None
    validate: bool


def check_call(
    name: str,
    inputs: Tensor,
    labels: Tensor,
    vocab: DigitVocab,
    options: Mapping[str, Any],
    alpha: float | None,
    counts: tuple[int | Tensor | None, int | Tensor | None],
    segments: Tensor | None,
    embedding: Tensor | None,
    validate: bool | None,
    *,
    argument: str = "logits",
    columns: int | None = None,
) -> Call:
    """Refuse what no loss can be computed of, before anything is.

    Args: as `numeric_loss`; `inputs` are what `argument` calls them, `columns` the width of a head beside them.
    """
    loss = get_loss(name)
    weight = loss.resolve_alpha(alpha)
    loss.check_values(options, has_dot=vocab.dot is not None)
    check_counts(*counts, needs_digits=loss.counts_digits)
    labels = labels.to(inputs.device)
    segments = None if segments is None else segments.to(inputs.device)
    if validate is None:  # a graph cannot look into its labels
        validate = inputs.device.type == "cpu" and not torch.compiler.is_compiling()
    check_inputs(inputs, labels, vocab, segments, validate, name=argument, columns=columns)
    directions = check_embedding(embedding, columns or inputs.shape[-1]) if name == "emo" else None
    return Call(loss, weight, labels.long(), segments, directions, validate)


def reduce_terms(
    positions: Positions,
    terms: Terms,
    alpha: float,
    step_tokens: int | Tensor | None,
    step_digits: int | Tensor | None,
) -> LossOutput:
    """Divide the terms by their counts, this batch's own where none are given, and measure the digits."""
    n_tokens, n_digits = positions.supervised.sum(), positions.is_digit.sum()
    # A loss without a digit term has one of exactly 0, attached to the graph like any other.
    digit = 0 * terms.token.nan_to_num(0, 0, 0) if terms.digit is None else alpha * terms.digit
    token_term = normalise(terms.token.sum(), n_tokens if step_tokens is None else step_tokens)
    digit_term = normalise(digit.sum(), n_digits if step_digits is None else step_digits)
    with torch.no_grad():
        entropy, correct = digit_statistics(positions.digit_logits, positions.digit)
        mass = positions.log_mass.exp().clamp(max=1)
        digit_mass, digit_entropy_nats, digit_accuracy = (
            normalise(positions.at_digits(measure).sum(), n_digits) for measure in (mass, entropy, correct)
        )
    return LossOutput(
        total=token_term + digit_term,
        token_term=token_term,
        digit_term=digit_term,
        n_tokens=n_tokens,
        n_digits=n_digits,
        digit_mass=digit_mass,
        digit_entropy_nats=digit_entropy_nats,
        digit_accuracy=digit_accuracy,
        per_position=terms.token + digit,
    )


def entropy_nats(log_probs: Float[Tensor, "*shape classes"]) -> Float[Tensor, "*shape"]:
    """Entropy over the last axis; a class of probability 0 adds nothing."""
    return -(log_probs.exp() * log_probs.masked_fill(log_probs.isinf(), 0.0)).sum(-1)


def kl_nats(
    target: Float[Tensor, "*shape classes"], log_probs: Float[Tensor, "*shape classes"]
) -> Float[Tensor, "*shape"]:
    """KL(target ‖ prediction) over the last axis; infinite where a possible class has no probability, never NaN.

    A class that the target gives nothing adds nothing, whatever its log-probability, and gets no gradient.
    """
    logs = log_probs.masked_fill(target == 0, 0.0)
    return (torch.xlogy(target, target) - target * logs).sum(-1)


def digit_statistics(
    digit_logits: Float[Tensor, "*shape 10"], digit: Int[Tensor, "*shape"]
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Entropy of p̂ in nats, and 1 where the most probable digit is `digit`."""
    return entropy_nats(digit_logits.log_softmax(-1)), (digit_logits.argmax(-1) == digit).to(digit_logits.dtype)
