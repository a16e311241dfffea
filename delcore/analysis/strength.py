"""How hard a loss pulls on the digit logits beside cross-entropy, and the α at which two losses pull alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from delcore.arithmetic import Sample
from delcore.data import Encoded, align, collate, encode_sample, pad_id
from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses import get_loss, numeric_loss
from delcore.models import LoadedModel

BATCH = 64


@dataclass(frozen=True)
class Strength:
    """The pull of a loss at one model, beside that of cross-entropy.

    Args:
        loss: key of `delcore.LOSSES`.
        alpha: weight of its digit term; None for a loss without one.
        norm: mean over digits of the norm of ∂(loss − CE)/∂a over the ten digit logits; for a loss with a digit term
            that is ∂(α·u·ℓ)/∂a.
        digits: how many it was measured on.
    """

    loss: str
    alpha: float | None
    norm: float
    digits: int


def measure_strength(
    loaded: LoadedModel,
    samples: Sequence[Sample],
    losses: Sequence[str] | Mapping[str, tuple[str, Mapping[str, Any]]],
) -> dict[str, Strength]:
    """The pull of each loss at its default α, on the digits of some responses.

    Before the division by counts: in training a digit term is divided by the step's digits, a token term by its tokens,
    so beside MixCE and EMO the digit terms pull harder by the tokens per digit.

    Args:
        loaded: where it is measured, usually the model before fine-tuning.
        samples: texts that the model would be trained on.
        losses: keys of `delcore.LOSSES`; or any names, each with a key and its options.

    Raises:
        InputError: an unknown loss or option, or samples without a digit.
    """
    model, tokenizer, card = loaded
    vocab = DigitVocab.from_tokenizer(tokenizer)
    encoded = [encode_sample(tokenizer, sample, max_length=card.context) for sample in samples]
    named = losses if isinstance(losses, Mapping) else {name: (name, {}) for name in losses}
    sums, count = dict.fromkeys(named, 0.0), 0
    for start in range(0, len(encoded), BATCH):
        logits, labels = _predict(model, encoded[start : start + BATCH], pad_id(tokenizer))
        digit = vocab.is_digit(labels)
        count += int(digit.sum())
        token = _pull("mle", logits, labels, vocab, model, {})
        for name, (loss, options) in named.items():
            pull = _pull(loss, logits, labels, vocab, model, options) - token
            sums[name] += float(pull[digit].norm(dim=-1).sum())
    if not count:
        raise InputError("`samples` hold no digit in any response, so there is nothing to measure.")
    return {name: Strength(loss, get_loss(loss).alpha, sums[name] / count, count) for name, (loss, _) in named.items()}


def match_alphas(strengths: Mapping[str, Strength], target: str) -> dict[str, float]:
    """The α at which each loss with a digit term pulls as hard as `target` does; the pull is proportional to α.

    Args:
        strengths: as `measure_strength` returns them.
        target: the loss whose strength the others take.

    Raises:
        InputError: a target that was not measured, or a loss that does not pull at all.
    """
    if target not in strengths:
        raise InputError(f"`target` must be one of {', '.join(strengths)}; got {target!r}.")
    goal = strengths[target].norm
    weighted = {name: one for name, one in strengths.items() if one.alpha is not None}
    still = [name for name, one in weighted.items() if one.norm == 0]
    if still:
        raise InputError(f"`{still[0]}` does not pull on any digit here, so no α can match it. Leave it out.")
    return {name: one.alpha * goal / one.norm for name, one in weighted.items() if one.alpha is not None}


@torch.no_grad()
def _predict(model: Any, encoded: Sequence[Encoded], pad: int) -> tuple[Tensor, Tensor]:
    batch = collate(encoded, pad)
    ids, mask, labels = (part.to(model.device) for part in batch[:3])
    logits, labels = align(model(input_ids=ids, attention_mask=mask).logits, labels)
    return logits.double(), labels


def _pull(
    name: str, logits: Tensor, labels: Tensor, vocab: DigitVocab, model: Any, options: Mapping[str, Any]
) -> Tensor:
    """Gradient on the ten digit logits at every position, not yet divided by the counts, [batch, seq, 10]."""
    logits = logits.detach().requires_grad_()
    embedding = model.get_output_embeddings().weight.detach().double() if name == "emo" else None
    output = numeric_loss(name, logits, labels, vocab, embedding=embedding, **options)
    gradient = torch.autograd.grad(output.per_position.sum(), logits)[0]
    return gradient[..., vocab.index(logits.device)]
