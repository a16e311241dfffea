"""A causal model whose forward is a loss: token ids and labels in, `LossOutput` out.

The head and the loss lie inside one module, so whatever wraps it covers them: DDP's hooks, FSDP's gathered weights,
autocast.
"""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from delcore.data import align
from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses import LossOutput, numeric_loss
from delcore.losses.lean import head_of, lean_loss

LEAN_TOLERANCE = 1e-3
"""How far the head's own logits may lie from the model's, relative to their size, for `lean_loss` to stand in."""


class LossModel(nn.Module):
    """A model together with its loss.

    Args:
        model: a Hugging Face causal model, LoRA-wrapped or not.
        name: key of `LOSSES`.
        vocab: the ten digit ids.
        alpha: weight of the digit term; None for the loss's default.
        lean: never make the [tokens, vocabulary] logits, where the model's head allows it.
        **options: of the loss.

    `why_full` says why the logits are made in full, or is None.
    """

    def __init__(
        self, model: Any, name: str, vocab: DigitVocab, *, alpha: float | None = None, lean: bool = True, **options: Any
    ) -> None:
        """Keep EMO's embedding as it is now, which is what the loss is defined with."""
        super().__init__()
        self.model, self.name, self.vocab = model, name, vocab
        self.settings = {"alpha": alpha, **options}
        embedding = model.get_output_embeddings().weight.detach().clone() if name == "emo" else None
        self.register_buffer("embedding", embedding, persistent=False)
        self.why_full = _why_full(model) if lean else "not asked for"
        self._no_split_modules = getattr(model, "_no_split_modules", None)  # what FSDP makes its units of

    def forward(
        self,
        input_ids: Int[Tensor, "batch seq"],
        attention_mask: Int[Tensor, "batch seq"],
        labels: Int[Tensor, "batch seq"],
        *,
        step_tokens: int | None = None,
        step_digits: int | None = None,
        n_supervised: int | None = None,
    ) -> LossOutput:
        """The loss of one micro-batch; `labels` are not shifted yet, counts as in `lean_loss`."""
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "use_cache": False}
        counts = {"step_tokens": step_tokens, "step_digits": step_digits}
        arguments: dict[str, Any] = {**counts, **self.settings, "embedding": self.embedding}
        if self.why_full is not None:
            return numeric_loss(self.name, *align(self.model(**inputs).logits, labels), self.vocab, **arguments)
        hidden, shifted = align(decoder_of(self.model)(**inputs).last_hidden_state, labels)
        weight, bias = head_of(self.model)
        return lean_loss(
            self.name, hidden, weight, shifted, self.vocab, head_bias=bias, n_supervised=n_supervised, **arguments
        )


def decoder_of(model: Any) -> Any:
    """The part of a causal model below its head, adapters included."""
    plain = model.get_base_model() if hasattr(model, "get_base_model") else model
    return plain.base_model


@torch.no_grad()
def _why_full(model: Any) -> str | None:
    """None if the head applied to the decoder's last states gives the model's logits; else why it does not."""
    try:
        weight, bias = head_of(model)
    except InputError as error:
        return str(error)
    length = min(8, getattr(model.config, "max_position_embeddings", None) or 8)
    ids = torch.arange(length, device=weight.device).unsqueeze(0) % weight.shape[0]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    was_training = model.training
    model.eval()
    logits = model(**inputs).logits.float()
    hidden = decoder_of(model)(**inputs).last_hidden_state
    model.train(was_training)
    if hidden.shape[-1] != weight.shape[-1]:
        return "This model changes its states before the head, so the logits are made in full."
    ours = nn.functional.linear(hidden.to(weight.dtype), weight, bias).float()
    scale = logits.abs().max().clamp(min=1)
    if ours.shape == logits.shape and bool(((ours - logits).abs().max() / scale) <= LEAN_TOLERANCE):
        return None
    return "This model changes its logits after the head, so they are made in full."
