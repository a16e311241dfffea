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
from torch.autograd.function import once_differentiable

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
        flat = F.cross_entropy(logits.flatten(0, 1).to(dtype), labels.flatten(), ignore_index=IGNORE, reduction="none")
        return flat.unflatten(0, labels.shape), logits.index_select(-1, column_ids).to(dtype)
    cross_entropy, columns = _ReadScores.apply(logits, labels, column_ids, dtype)
    return cross_entropy, columns


class _ReadScores(torch.autograd.Function):
    """`read_scores`; the derivative of the cross-entropy by the logits is q − 1[label]."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, column_ids: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return both, and keep the logits and the logarithm of each position's softmax sum."""
        log_sum = torch.empty(labels.shape, dtype=dtype, device=logits.device)
        for block in _blocks(logits, dtype):
            torch.logsumexp(logits[block].to(dtype), -1, out=log_sum[block])
        supervised = labels != IGNORE
        label_logit = logits.gather(-1, _column_of(labels)).squeeze(-1).to(dtype)
        cross_entropy = torch.where(supervised, log_sum - label_logit, 0.0)
        ctx.save_for_backward(logits, labels, column_ids, log_sum)
        return cross_entropy, logits.index_select(-1, column_ids).to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_cross_entropy: Tensor, d_columns: Tensor) -> tuple[Tensor | None, ...]:
        """Return the logits' gradient, [batch, seq, vocab] in their dtype."""
        logits, labels, column_ids, log_sum = ctx.saved_tensors
        supervised, log_sum = (labels != IGNORE).unsqueeze(-1), log_sum.unsqueeze(-1)
        by_position = d_cross_entropy.unsqueeze(-1).masked_fill(~supervised, 0)
        label_ids = _column_of(labels)
        d_logits = torch.empty_like(logits, memory_format=torch.contiguous_format)
        for block in _blocks(logits, log_sum.dtype):
            whole = d_logits[block]
            part = whole if whole.dtype == log_sum.dtype else torch.empty_like(whole, dtype=log_sum.dtype)
            torch.sub(logits[block].to(part.dtype), log_sum[block], out=part).exp_().mul_(by_position[block])
            part.scatter_add_(-1, label_ids[block], -by_position[block])
            part.masked_fill_(~supervised[block], 0)  # where 0 may have met NaN or infinity
            part.index_add_(-1, column_ids, d_columns[block])
            if part is not whole:
                whole.copy_(part)
        return d_logits, None, None, None


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
