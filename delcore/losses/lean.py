"""The losses from hidden states, without the [tokens, vocab] logits in memory.

A loss is separable over positions once its two counts are known, and a `Positions` of a few rows is all it needs.
So the head is applied to a chunk of supervised positions at a time, the loss is evaluated and differentiated on that
chunk alone, and only the gradients of the hidden states and of the head outlive it.

Source: gradients made in the forward pass are the idea of Liger-Kernel (arXiv:2410.10989). Departures: only
supervised positions are projected, and any loss of the registry stands on top.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses import LossOutput, check_call, reduce_terms
from delcore.losses._checks import normalise
from delcore.losses._chunks import LeanBatch, LeanLoss, TransportCost
from delcore.losses._positions import Positions, Targets


def lean_loss(
    name: str,
    hidden: Float[Tensor, "batch seq width"],
    head_weight: Float[Tensor, "vocab width"],
    labels: Int[Tensor, "batch seq"],
    vocab: DigitVocab,
    *,
    head_bias: Float[Tensor, "vocab"] | None = None,
    alpha: float | None = None,
    step_tokens: int | Tensor | None = None,
    step_digits: int | Tensor | None = None,
    n_supervised: int | None = None,
    segments: Int[Tensor, "batch seq"] | None = None,
    embedding: Float[Tensor, "rows directions"] | None = None,
    validate: bool | None = None,
    **options: Any,
) -> LossOutput:
    """`numeric_loss` of `hidden @ head_weight.T + head_bias`, in value and gradient, in little memory.

    Position t of `hidden` predicts position t of `labels`: pass `hidden[:, :-1]` and `labels[:, 1:]`. Logits that a
    model scales or caps before its loss are not those of this function.

    Args:
        name: key of `LOSSES`.
        hidden: what the model hands to its head, aligned with `labels`.
        head_weight: of the output layer; a tied one receives its gradient as usual.
        labels: token ids; `IGNORE` where not supervised.
        vocab: the ten digit ids.
        head_bias: of the output layer.
        alpha: as in `numeric_loss`, like all that is not named here.
        step_tokens: likewise.
        step_digits: likewise.
        n_supervised: supervised positions of this batch, if the caller knows them; else a GPU is asked once.
        segments: as in `numeric_loss`.
        embedding: likewise.
        validate: likewise.
        **options: likewise.

    Returns:
        The numbers of `numeric_loss`. Only `total` carries a gradient, and `backward` can run through it once.

    Raises:
        InputError: as `numeric_loss`, a head of another width, or a count that is not this batch's.
        RuntimeError: a second `backward`, or one with `create_graph=True`.

    Not for `torch.compile(fullgraph=True)`. Under DDP or FSDP call it within the wrapped module's forward, as
    `delcore.loss_model.LossModel` does: only there are the head's gradients added up over processes.
    """
    check_head(hidden, head_weight, head_bias)
    if head_weight.dtype != hidden.dtype and not torch.is_autocast_enabled(hidden.device.type):
        raise InputError(
            f"`hidden` and `head_weight` must share a dtype outside autocast; got {hidden.dtype}, {head_weight.dtype}."
        )
    loss, weight, labels, segments, directions, validate = check_call(
        name,
        hidden,
        labels,
        vocab,
        options,
        alpha,
        (step_tokens, step_digits),
        segments,
        embedding,
        validate,
        argument="hidden",
        columns=head_weight.shape[0],
    )
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    targets = Targets.from_labels(labels, vocab, segments, dtype)
    index = _supervised_index(targets.supervised, n_supervised, validate)
    tokens = targets.supervised.sum() if step_tokens is None else step_tokens
    digits = targets.is_digit.sum() if step_digits is None or loss.per_batch else step_digits

    def total_of(positions: Positions) -> Tensor:
        token, digit = loss(positions, **options)
        total = normalise(token.sum(), tokens)
        return total if digit is None else total + normalise((weight * digit).sum(), digits)

    cost = None if directions is None else TransportCost.of(directions.to(hidden.device), dtype)
    batch = LeanBatch(targets, labels.flatten(), index, vocab.index(hidden.device, with_dot=True), cost, total_of)
    total, *rows = LeanLoss.apply(batch, torch.is_grad_enabled(), hidden, head_weight, head_bias)
    positions = batch.positions(*rows)
    return reduce_terms(positions, loss(positions, **options), weight, tokens, digits)._replace(total=total)


def check_head(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Refuse a head that cannot be applied to these states."""
    if weight.ndim != 2 or weight.shape[1] != hidden.shape[-1]:
        raise InputError(
            f"`head_weight` must be [vocab, width] with the width of `hidden`, {hidden.shape[-1]}; "
            f"got {list(weight.shape)}."
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise InputError(f"`head_bias` must be [{weight.shape[0]}], as `head_weight` is; got {list(bias.shape)}.")


LOGIT_CHANGES = (
    *("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap"),
    *("logit_scale", "logits_scaling", "lm_head_multiplier"),
)
"""Entries of a model's configuration that change its logits after the head, unless they are None or 1."""


def head_of(model: Any) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a causal model's head, for `lean_loss`.

    Args:
        model: a Hugging Face model; a LoRA-wrapped one too, as long as its head is not adapted.

    Raises:
        InputError: a head that is no plain linear layer (an adapter or a hook on it), or a model that scales or caps
            its logits after the head (the configuration's entry, named): `lean_loss` would train other logits.
    """
    if not hasattr(model, "get_output_embeddings"):
        raise InputError(f"{type(model).__name__} wraps a model: pass the model within it.")
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear or head._forward_hooks or head._forward_pre_hooks:
        kind = f"{type(head).__module__}.{type(head).__name__}" + (" with hooks" if type(head) is nn.Linear else "")
        raise InputError(
            f"`lean_loss` needs a plain linear head; this model's is {kind}. Use `numeric_loss` on its logits."
        )
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    for name in LOGIT_CHANGES:
        if getattr(config, name, None) not in (None, 1, 1.0):
            raise InputError(
                f"`lean_loss` cannot follow `{name}` = {getattr(config, name)} of this model, which changes its "
                "logits after the head. Use `numeric_loss` on its logits."
            )
    return head.weight, head.bias


def _supervised_index(supervised: Tensor, count: int | None, validate: bool) -> Int[Tensor, "rows"]:
    if count is None:
        return supervised.flatten().nonzero().squeeze(-1)
    if validate and count != int(supervised.sum()):
        raise InputError(f"`n_supervised` must be this batch's, {int(supervised.sum())}; got {count}.")
    torch._assert_async(supervised.sum() == count, "`n_supervised` is not this batch's.")  # without waiting for it
    return torch.nonzero_static(supervised.flatten(), size=count).squeeze(-1)
