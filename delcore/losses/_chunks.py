"""The total of a loss made together with its gradients, a chunk of supervised positions at a time (see `lean_loss`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from delcore.losses._positions import Positions, Targets, without_autocast

CHUNK_BYTES = 80 * 2**20
"""About how large one chunk's logits may be, in the dtype of the computation."""

MIN_CHUNK_ROWS = 16
"""Fewer rows make slow matrix products, however wide the vocabulary is."""


class _Rows(NamedTuple):
    """What a loss needs of some positions; with `requires_grad`, the leaves that it is differentiated by."""

    cross_entropy: Tensor  # [rows]
    columns: Tensor  # [rows, 10 or 11]
    cost: Tensor  # [rows]; zeros for a loss that does not ask


class TransportCost(NamedTuple):
    """EMO's cosines between a label and every token, without a normalised copy of the embedding."""

    embedding: Tensor  # [vocab, width]
    lengths: Tensor  # [vocab]

    @classmethod
    def of(cls, embedding: Tensor, dtype: torch.dtype) -> "TransportCost":
        embedding = embedding.to(dtype)
        return cls(embedding, torch.linalg.vector_norm(embedding, dim=-1).clamp(min=1e-12))

    def cosines(self, labels: Tensor) -> Float[Tensor, "rows vocab"]:
        products = self.embedding[labels] @ self.embedding.T
        return products.div_(self.lengths).div_(self.lengths[labels].unsqueeze(-1))


@dataclass(frozen=True)
class LeanBatch:
    """Everything of a call that is not differentiated."""

    targets: Targets
    labels: Tensor  # flat
    index: Tensor  # flat positions that are supervised
    column_ids: Tensor
    cost: TransportCost | None
    total_of: Callable[[Positions], Tensor]

    def chunks(self, columns: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """The flat positions in `index`, cut so that a chunk's logits fit into CHUNK_BYTES."""
        return self.index.split(max(CHUNK_BYTES // (dtype.itemsize * columns), MIN_CHUNK_ROWS))

    def differentiate(self, rows: _Rows, where: Tensor) -> tuple[Tensor, _Rows]:
        """The share of the total that some rows make, and its derivative by what the loss sees of them."""
        with torch.enable_grad():
            leaves = _Rows(*(value.detach().requires_grad_() for value in rows))
            total = self.total_of(self.positions_at(where, leaves))
            found = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
        return total.detach(), _Rows(*found)

    def positions_at(self, where: Tensor, rows: _Rows) -> Positions:
        """Some positions, as one row of a batch."""
        cross_entropy, columns, cost = (value.unsqueeze(0) for value in rows)
        return Positions(self.targets.take(where), cross_entropy, columns, lambda: cost)

    def positions(self, cross_entropy: Tensor, columns: Tensor, cost: Tensor) -> Positions:
        """The whole batch again, from what was kept of each supervised row."""
        shape = self.targets.supervised.shape

        def spread(rows: Tensor) -> Tensor:
            flat = rows.new_zeros((shape.numel(), *rows.shape[1:]))
            return flat.index_copy(0, self.index, rows).unflatten(0, shape)

        return Positions(self.targets, spread(cross_entropy), spread(columns), lambda: spread(cost))


class LeanLoss(torch.autograd.Function):
    """The total, made together with its gradients, chunk by chunk."""

    @staticmethod
    def forward(ctx: Any, batch: LeanBatch, learning: bool, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        """Return the total and, for the statistics, cross-entropy, columns and cost of the supervised rows."""
        device = hidden.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        with without_autocast(hidden.device):
            # Autograd asks for gradients by `requires_grad` alone, under `no_grad` too.
            needed = ctx.needs_input_grad[2:] if learning else (False, False, False)
            return LeanLoss.run(ctx, batch, hidden, weight, bias, low, needed)

    @staticmethod
    def run(
        ctx: Any,
        batch: LeanBatch,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        low: torch.dtype,
        needed: tuple[bool, ...],
    ) -> tuple[Tensor, ...]:
        """The chunks; the head is applied in the dtype `low`, everything after it in float32 at least."""
        gradients = _Gradients.like(hidden, weight, bias, needed)
        flat, weight = hidden.detach().flatten(0, 1).to(low), weight.detach().to(low)
        bias = None if bias is None else bias.detach().to(low)
        dtype = torch.promote_types(low, torch.float32)
        total, kept = hidden.new_zeros((), dtype=dtype), []
        chunks = batch.chunks(weight.shape[0], dtype)
        buffer = weight.new_empty(len(chunks[0]), weight.shape[0])  # one for all chunks, the first is the longest
        for where in chunks:
            states, labels = flat[where], batch.labels[where]
            scores = torch.mm(states, weight.T, out=buffer[: len(where)])  # [rows, vocab]
            if bias is not None:
                scores += bias
            columns = scores[:, batch.column_ids].to(dtype)
            cross_entropy, powers, sums = _softmax(scores.to(dtype), labels)
            del scores
            cosines = batch.cost.cosines(labels) if batch.cost else None
            expected = cross_entropy.new_zeros(len(labels)) if cosines is None else _dot_rows(powers, cosines) / sums
            rows = _Rows(cross_entropy, columns, 1 - expected)
            kept.append(rows)
            if not gradients.wanted:
                total += batch.total_of(batch.positions_at(where, rows))
            else:
                part, slopes = batch.differentiate(rows, where)
                total += part
                d_scores = _score_gradient(powers, sums, labels, cosines, expected, slopes, batch.column_ids)
                # float16 cannot hold 1/M: it gets the gradient in units of a bound of its entries.
                bound = sum(part.abs().amax() for part in slopes) if low == torch.float16 else None
                unit = None if bound is None else torch.as_tensor(bound).clamp(min=1e-30)
                d_scores = d_scores if unit is None else d_scores.div_(unit)
                gradients.add(where, states, weight, d_scores.to(low), unit)
        ctx.gradients = gradients
        measured = [torch.cat(parts) for parts in zip(*kept, strict=True)] if kept else _no_rows(batch, total)
        ctx.mark_non_differentiable(*measured)
        return (total, *measured)

    @staticmethod
    def backward(ctx: Any, d_total: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Hand out the gradients, scaled in place; they are gone afterwards."""
        if torch.is_grad_enabled():  # else a second derivative would silently be 0
            raise RuntimeError("`lean_loss` cannot be differentiated twice (`create_graph=True`): use `numeric_loss`.")
        if ctx.gradients is None:
            raise RuntimeError("`lean_loss` frees its gradients in `backward`, so it can run only once.")
        gradients, ctx.gradients = ctx.gradients, None
        return (None, None, *gradients.scaled(d_total))


def _softmax(scores: Float[Tensor, "rows vocab"], labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """−log q[label], and q as powers to be divided by their sums; the powers take the place of the scores."""
    top = scores.amax(-1, keepdim=True)
    label_score = scores.gather(-1, labels.unsqueeze(-1))
    powers = scores.sub_(top).exp_()
    sums = powers.sum(-1, keepdim=True)
    return (sums.log() - (label_score - top)).squeeze(-1), powers, sums.squeeze(-1)


def _dot_rows(left: Float[Tensor, "rows vocab"], right: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows"]:
    """Σ left·right of each row, without the product in memory."""
    return torch.bmm(left.unsqueeze(1), right.unsqueeze(2)).flatten()


def _score_gradient(
    powers: Tensor,
    sums: Tensor,
    labels: Tensor,
    cosines: Tensor | None,
    expected: Tensor,
    slopes: _Rows,
    column_ids: Tensor,
) -> Float[Tensor, "rows vocab"]:
    """Derivative of the total by the scores, written into `powers`.

    d CE/dz = q − 1[label]; d e/dz = −q·(cos − Σ q·cos), as e = 1 − Σ q·cos.
    """
    by_token = slopes.cross_entropy.unsqueeze(-1)
    if cosines is None:
        d_scores = powers.mul_(by_token / sums.unsqueeze(-1))
    else:
        by_cost = slopes.cost.unsqueeze(-1)
        factors = cosines.sub_(expected.unsqueeze(-1)).mul_(-by_cost).add_(by_token)
        d_scores = powers.mul_(factors).div_(sums.unsqueeze(-1))
    d_scores.scatter_add_(-1, labels.unsqueeze(-1), -by_token)
    return d_scores.index_add_(-1, column_ids, slopes.columns)


def _no_rows(batch: LeanBatch, like: Tensor) -> list[Tensor]:
    return [like.new_zeros(0), like.new_zeros(0, len(batch.column_ids)), like.new_zeros(0)]


@dataclass
class _Gradients:
    """Gradients of hidden states, head weight and bias, as far as they are wanted, in float32 at least."""

    hidden: Tensor | None
    weight: Tensor | None
    bias: Tensor | None
    dtypes: tuple[torch.dtype, torch.dtype]
    shape: torch.Size

    @classmethod
    def like(cls, hidden: Tensor, weight: Tensor, bias: Tensor | None, needed: tuple[bool, ...]) -> "_Gradients":
        sums = torch.promote_types(weight.dtype, torch.float32)
        flat = hidden.shape[0] * hidden.shape[1]
        return cls(
            hidden.new_zeros(flat, hidden.shape[2], dtype=sums) if needed[0] else None,
            torch.zeros_like(weight, dtype=sums) if needed[1] else None,
            torch.zeros_like(bias, dtype=sums) if bias is not None and needed[2] else None,
            (hidden.dtype, weight.dtype),
            hidden.shape,
        )

    @property
    def wanted(self) -> bool:
        return any(part is not None for part in (self.hidden, self.weight, self.bias))

    def add(self, where: Tensor, states: Tensor, weight: Tensor, d_scores: Tensor, unit: Tensor | None) -> None:
        """Add a chunk's share; `d_scores` are in units of `unit`, if there is one."""

        def scale(part: Tensor) -> Tensor:
            return part if unit is None else part.float() * unit

        if self.hidden is not None:
            self.hidden.index_copy_(0, where, scale(d_scores @ weight).to(self.hidden.dtype))
        if self.weight is not None:
            if self.weight.dtype == d_scores.dtype:
                self.weight.addmm_(d_scores.T, states)
            else:
                self.weight += scale(d_scores.T @ states)
        if self.bias is not None:
            self.bias += scale(d_scores.sum(0, dtype=self.bias.dtype))

    def scaled(self, d_total: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = (None if part is None else part.mul_(d_total) for part in self._parts())
        return (
            None if hidden is None else hidden.to(self.dtypes[0]).view(self.shape),
            None if weight is None else weight.to(self.dtypes[1]),
            None if bias is None else bias.to(self.dtypes[1]),
        )

    def _parts(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        return self.hidden, self.weight, self.bias
