"""Which losses are a criterion per digit, weighted by a distance between digits?

NTL-WAS, DIST2Loss and DEL all add Σ_k w(k, c)·φ_k to cross-entropy: a criterion φ of each digit, weighted by a
distance w from the true one. Here w is fitted to a loss's training gradient at random predictions; a loss belongs to
the family if some w leaves nothing over.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from delcore.analysis.outcomes import CriterionFits
from delcore.analysis.results import Provenance
from delcore.equilibria import ExpectedLoss
from delcore.errors import InputError
from delcore.losses import LOSSES

Criterion = Callable[[Tensor, Tensor], Tensor]


def _bce(logits: Tensor, true: Tensor) -> Tensor:
    return logits.softmax(-1) * F.softplus(torch.where(true, -logits, logits))


CRITERIA: Mapping[str, Criterion] = MappingProxyType(
    {
        "p̂": lambda logits, true: logits.softmax(-1),
        "−log p̂": lambda logits, true: -logits.log_softmax(-1),
        "p̂ · BCE": _bce,
    }
)
"""Criterion of NTL-WAS, of DIST2Loss and of DEL: from digit logits [points, 10] and [k = c] to φ, [points, 10]."""


POINTS = 20
SPREAD = 2.0
"""Standard deviation of the random digit logits."""


def fit_criteria(
    losses: Sequence[str] = ("mixce", "emo", "ntl_was", "ntl_mse", "dist2", "del"), *, seed: int = 0
) -> CriterionFits:
    """Fit a distance to each loss and criterion by least squares, at α = 1, u = 1 and digit mass 1.

    Gradients are compared, not values: MixCE and EMO have stopped factors, so what they train is not what they value.
    EMO gets orthogonal token directions.

    Args:
        losses: keys of `delcore.LOSSES` that differ from `mle`.
        seed: of the random predictions.

    Raises:
        InputError: an unknown loss, or `mle`, which has nothing to explain.
    """
    if "mle" in losses or not losses:
        raise InputError("`losses` must name losses other than mle, which adds nothing to cross-entropy.")
    generator = torch.Generator().manual_seed(seed)
    logits = SPREAD * torch.randn(POINTS, 10, generator=generator, dtype=torch.float64)
    shape = (len(losses), len(CRITERIA))
    residual, free, weights = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    distances = np.zeros((*shape, 10, 10))
    bases = [[_basis(criterion, logits, c) for c in range(10)] for criterion in CRITERIA.values()]
    for i, name in enumerate(losses):
        extra = [_gradient(name, logits, c) - _token_gradient(logits, c) for c in range(10)]
        for j, basis in enumerate(bases):
            distances[i, j], residual[i, j] = _fit(extra, basis)
            weights[i, j], free[i, j] = _fit_free(extra, basis, logits)
    weights[:, list(CRITERIA).index("−log p̂")] = np.nan  # cross-entropy is one of its own distances
    gauge = [0 if name == "p̂" else None for name in CRITERIA]
    distances[:, gauge.index(0)] -= np.diagonal(distances[:, gauge.index(0)], axis1=-2, axis2=-1)[..., None]
    return CriterionFits(
        tuple(losses), tuple(CRITERIA), residual, free, distances, weights, Provenance(seed=seed, data="random logits")
    )


def _gradient(name: str, logits: Tensor, c: int) -> Tensor:
    """Training gradient on the digit logits where c is true, [points, 10]; the other token is far below."""
    law = torch.eye(10, dtype=torch.float64)[c]
    expected = ExpectedLoss.of(name, law, alpha=1.0 if LOSSES[name].alpha is not None else None)
    other = logits.logsumexp(-1, keepdim=True) - 40
    return expected.gradient(torch.cat([logits, other], -1))[:, :10]


def _token_gradient(logits: Tensor, c: int) -> Tensor:
    return logits.softmax(-1) - torch.eye(10, dtype=torch.float64)[c]


def _basis(criterion: Criterion, logits: Tensor, c: int) -> Tensor:
    """∂φ_k/∂a at each point, as [points · 10, k]."""
    logits = logits.detach().requires_grad_()
    per_digit = criterion(logits, torch.arange(10) == c).sum(0)  # points do not meet, so their gradients stay apart
    columns = [torch.autograd.grad(one, logits, retain_graph=True)[0] for one in per_digit]
    return torch.stack(columns, -1).flatten(0, 1)


def _fit(extra: Sequence[Tensor], basis: Sequence[Tensor]) -> tuple[NDArray[np.float64], float]:
    """A distance for each true digit, and the share of the gradient left over."""
    found = [np.linalg.lstsq(b.numpy(), e.flatten().numpy(), rcond=1e-10)[0] for e, b in zip(extra, basis, strict=True)]
    left = [e.flatten().numpy() - b.numpy() @ w for e, b, w in zip(extra, basis, found, strict=True)]
    return np.stack(found), _share(left, extra)


def _fit_free(extra: Sequence[Tensor], basis: Sequence[Tensor], logits: Tensor) -> tuple[float, float]:
    """One weight of cross-entropy for all true digits beside the distances, and the share left over."""
    rows = len(basis[0])
    design, token = np.zeros((10 * rows, 100)), np.zeros(10 * rows)
    for c, b in enumerate(basis):
        design[c * rows : (c + 1) * rows, 10 * c : 10 * c + 10] = b.numpy()
        token[c * rows : (c + 1) * rows] = _token_gradient(logits, c).flatten().numpy()
    target = torch.stack(list(extra)).flatten().numpy()
    both = np.column_stack([design, token])
    found = np.linalg.lstsq(both, target, rcond=1e-10)[0]
    return float(1 + found[-1]), _share([target - both @ found], extra)


def _share(left: Sequence[NDArray[np.float64]], extra: Sequence[Tensor]) -> float:
    whole = float(torch.stack(list(extra)).norm())
    return float(np.linalg.norm(np.concatenate(left))) / whole
