"""Cross-entropy and a few columns of full logits, whose two gradients are written into one tensor.

Built from PyTorch's own parts, the columns' gradient is a second [batch, seq, vocab] tensor beside that of the
cross-entropy, which itself keeps a copy of all log-probabilities. Here the logits are read a block at a time, forward
and backward, and nothing of their size is made but their gradient.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from delcore.digits import IGNORE

BLOCK_BYTES = 16 * 2**20
"""About how large one block's logits may be on a CPU, in the dtype of the computation: what its caches hold."""

GPU_BLOCK_BYTES = 512 * 2**20
"""The same on a GPU, which wants few large kernels."""


def read_scores(
    logits: Float[Tensor, "batch seq vocab"], labels: Int[Tensor, "batch seq"], column_ids: Int[Tensor, "columns"]
) -> tuple[Float[Tensor, "batch seq"], Float[Tensor, "batch seq columns"]]:
    """−log q[label], 0 where not supervised, and the logits of `column_ids`; in float32, or float64 if they are."""
    dtype = torch.promote_types(logits.dtype, torch.float32)
    if torch.compiler.is_compiling():  # the compiler joins the two gradients by itself
        return _plain_scores(logits, labels, column_ids, dtype)
    cross_entropy, columns = _ReadScores.apply(logits, labels, column_ids, dtype)
    return cross_entropy, columns


def _plain_scores(logits: Tensor, labels: Tensor, column_ids: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    flat = F.cross_entropy(logits.flatten(0, 1).to(dtype), labels.flatten(), ignore_index=IGNORE, reduction="none")
    return flat.unflatten(0, labels.shape), logits.index_select(-1, column_ids).to(dtype)


class _ReadScores(torch.autograd.Function):
    """`read_scores`; the derivative of the cross-entropy by the logits is q − 1[label]."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, column_ids: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return both, and keep the logits, and each position's largest logit and its sum of powers relative to it."""
        top, total = (torch.empty(labels.shape, dtype=dtype, device=logits.device) for _ in range(2))
        for block in _blocks(logits, dtype):
            part = logits[block].to(dtype)
            torch.amax(part, -1, out=top[block])
            torch.sum((part - top[block].unsqueeze(-1)).exp_(), -1, out=total[block])
        supervised = labels != IGNORE
        label_logit = logits.gather(-1, _column_of(labels)).squeeze(-1).to(dtype)
        # The largest logit goes first: a sum of both would swallow a small logarithm.
        cross_entropy = torch.where(supervised, total.log() - (label_logit - top), 0.0)
        ctx.save_for_backward(logits, labels, column_ids, top, total)
        return cross_entropy, logits.index_select(-1, column_ids).to(dtype)

    @staticmethod
    def backward(ctx: Any, d_cross_entropy: Tensor, d_columns: Tensor) -> tuple[Tensor | None, ...]:
        """Return the logits' gradient, [batch, seq, vocab] in their dtype."""
        logits, labels, column_ids, top, total = ctx.saved_tensors
        if torch.is_grad_enabled():  # `create_graph`: PyTorch's own parts can be differentiated again
            with torch.enable_grad():
                scores = _plain_scores(logits, labels, column_ids, top.dtype)
                found = torch.autograd.grad(scores, logits, (d_cross_entropy, d_columns), create_graph=True)
            return found[0], None, None, None
        supervised, top = (labels != IGNORE).unsqueeze(-1), top.unsqueeze(-1)
        by_position = d_cross_entropy.unsqueeze(-1).masked_fill(~supervised, 0)
        by_power = by_position / total.unsqueeze(-1)
        label_ids = _column_of(labels)
        d_logits = _room_for_gradient(logits)
        for block in _blocks(logits, top.dtype):
            whole = d_logits[block]
            part = whole if whole.dtype == top.dtype else torch.empty_like(whole, dtype=top.dtype)
            torch.sub(logits[block].to(part.dtype), top[block], out=part).exp_().mul_(by_power[block])
            part.scatter_add_(-1, label_ids[block], -by_position[block])
            part.masked_fill_(~supervised[block], 0)  # where 0 may have met NaN or infinity
            part.index_add_(-1, column_ids, d_columns[block])
            if part is not whole:
                whole.copy_(part)
        return d_logits, None, None, None


def _room_for_gradient(logits: Tensor) -> Tensor:
    try:
        return torch.empty_like(logits, memory_format=torch.contiguous_format)
    except RuntimeError as error:  # out of memory, on a GPU or a CPU
        shape, gib = list(logits.shape), logits.numel() * logits.element_size() / 2**30
        raise type(error)(
            f"There is no room for the gradient of {shape} logits, {' × '.join(map(str, shape))} × "
            f"{logits.element_size()} bytes = {gib:.2f} GiB in {str(logits.dtype).removeprefix('torch.')}. Use "
            "`lean_loss`, which makes neither logits nor their gradient, or fewer tokens at a time."
        ) from error


def _column_of(labels: Tensor) -> Int[Tensor, "batch seq 1"]:
    return labels.masked_fill(labels == IGNORE, 0).unsqueeze(-1)


def _blocks(logits: Tensor, dtype: torch.dtype) -> Iterator[tuple[slice, slice]]:
    """Slices of batch and seq whose logits take about `BLOCK_BYTES`; a view is read as it lies, without a copy."""
    batch, seq, columns = logits.shape
    positions = max((BLOCK_BYTES if logits.device.type == "cpu" else GPU_BLOCK_BYTES) // (columns * dtype.itemsize), 1)
    rows, width = (max(positions // max(seq, 1), 1), seq) if seq <= positions else (1, positions)
    for row in range(0, batch, rows):
        for start in range(0, seq, max(width, 1)):
            yield slice(row, row + rows), slice(start, start + width)
