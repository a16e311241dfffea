"""The losses: one registry, one signature, one place that normalises.

>>> import torch
>>> from delcore import DigitVocab, numeric_loss
>>> uniform = torch.zeros(1, 1, 10)
>>> numeric_loss("ntl_was", uniform, torch.tensor([[0]]), DigitVocab(range(10)), alpha=1.0).digit_term.item()
4.5
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from delcore.digits import DigitVocab
from delcore.losses._checks import check_counts, check_inputs, normalise
from delcore.losses._positions import Positions, Terms, check_embedding, positions_from_logits
from delcore.losses.registry import LOSSES, Loss, get_loss

__all__ = ["LOSSES", "Loss", "LossOutput", "get_loss", "numeric_loss"]


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
