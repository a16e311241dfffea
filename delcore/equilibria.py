"""Where a loss would lead, if nothing but the loss decided: the equilibrium of its expected gradient.

No model is needed. The true digit is drawn from a known distribution π; the ten digit logits and one other
token's logit follow the expected training gradient, in float64, until it vanishes. Everything is computed through
the losses themselves, so a loss and its equilibrium cannot disagree.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses import Loss, get_loss, kl_nats
from delcore.losses import entropy_nats as entropy_of
from delcore.losses._positions import Positions, positions_from_logits

TOLERANCE = 1e-10
MOST_STEPS = 400
FIRST_TIME_STEP = 1.0
LOWEST_LEVEL = -15.0
"""Digit logits whose common level (log-sum) is lower than this are taken to run off to minus infinity."""

_VOCAB = DigitVocab(range(10))


@dataclass(frozen=True)
class Equilibrium:
    """Where the expected gradient of a loss vanishes.

    Args:
        probabilities: p̂ of the digits 0 … 9 there.
        entropy_nats: their entropy.
        kl_nats: KL(π ‖ p̂) in nats, infinite where a possible digit has no probability left.
        logits: the ten digit logits; for a loss that does not fix their level, with a log-sum of 0.
        attained: False where no logits reach it, because the loss keeps falling as all logits are lowered together
            (`probabilities` are then those it tends to), or where the search did not settle (strong α on a law with
            tiny probabilities; they are then the best found).
    """

    probabilities: tuple[float, ...]
    entropy_nats: float
    kl_nats: float
    logits: tuple[float, ...]
    attained: bool


def equilibrium(
    name: str, pi: Any, *, alpha: float | None = None, u: float = 1.0, embedding: Tensor | None = None, **options: Any
) -> Equilibrium:
    """The digit probabilities that a loss leads to when the true digit is drawn from `pi`.

    Args:
        name: key of `LOSSES`.
        pi: ten probabilities of the digits 0 … 9.
        alpha: weight of the digit term; None for the loss's default.
        u: place weight of the position, 0 or above.
        embedding: [11, width], directions of the ten digits and one other token for EMO; None for orthogonal ones.
        **options: as in `numeric_loss`, but `place` and `dot`, which one position does not have.

    Raises:
        InputError: an unknown loss or option, or a `pi` that is no distribution over ten digits.
    """
    law = check_law(pi)
    expected = ExpectedLoss.of(name, law, alpha=alpha, u=u, embedding=embedding, **options)
    start = torch.cat([law.clamp(min=1e-12).log(), torch.tensor([-1.0]).double()])
    logits, attained = _follow(expected, start)
    digits = logits[:10]
    return _describe(digits if expected.loss.sees_level else digits - digits.logsumexp(0), law, attained)


def check_law(pi: Any) -> Tensor:
    """`pi` as ten float64 probabilities that sum to 1, or an error that says what is wrong."""
    law = torch.as_tensor(pi, dtype=torch.float64).flatten()
    if law.numel() != 10 or not bool((law >= 0).all()) or abs(float(law.sum()) - 1) > 1e-6:
        raise InputError(f"`pi` must be ten probabilities that sum to 1; got {law.tolist()}.")
    return law / law.sum()


@dataclass(frozen=True)
class ExpectedLoss:
    """A loss at one digit position, as a function of eleven logits: ten digits and one other token.

    Args:
        loss: entry of `LOSSES`.
        law: distribution of the true digit, [10].
        alpha: weight of the digit term.
        u: place weight of the position.
        embedding: [11, width], directions of the eleven tokens.
        options: of the loss.
    """

    loss: Loss
    law: Tensor
    alpha: float
    u: float
    embedding: Tensor
    options: dict[str, Any]

    @classmethod
    def of(
        cls,
        name: str,
        law: Tensor,
        *,
        alpha: float | None = None,
        u: float = 1.0,
        embedding: Tensor | None = None,
        **options: Any,
    ) -> "ExpectedLoss":
        """Check the arguments; see `equilibrium`."""
        loss = get_loss(name)
        if "place" in options or "dot" in options:
            raise InputError("`place` and `dot` say where a digit stands; give the weight `u` instead.")
        if not 0 <= u < float("inf"):
            raise InputError(f"`u` must be 0 or above; got {u!r}.")
        directions = torch.eye(11, dtype=torch.float64) if embedding is None else embedding
        return cls(loss, law, loss.resolve_alpha(alpha), u, directions, options)

    def terms(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Expected token term and α·u·ℓ at each point of [points, 11] logits, each [points]."""
        every_digit = logits.unsqueeze(1).expand(-1, 10, -1)  # position k has the true digit k
        token, digit = self.loss(self._positions(every_digit), **self.options)
        digit = torch.zeros_like(token) if digit is None else self.alpha * digit
        return token @ self.law, digit @ self.law

    def value(self, logits: Tensor) -> Tensor:
        """Expected loss at each point of [points, 11] logits."""
        token, digit = self.terms(logits)
        return token + digit

    def gradient(self, logits: Tensor) -> Tensor:
        """Expected training gradient at each point of [points, 11] logits."""
        logits = logits.detach().requires_grad_()
        return torch.autograd.grad(self.value(logits).sum(), logits)[0]

    def _positions(self, logits: Tensor) -> Positions:
        labels = torch.arange(10).expand(logits.shape[0], 10)
        positions = positions_from_logits(logits, labels, _VOCAB, embedding=self.embedding)
        weight = torch.full_like(positions.cross_entropy, self.u)
        targets = dataclasses.replace(positions.targets, place_weight=lambda rule, **constants: weight)
        return dataclasses.replace(positions, targets=targets)


def _follow(expected: ExpectedLoss, logits: Tensor) -> tuple[Tensor, bool]:
    """Follow −gradient by implicit steps of growing length, so that only a stable equilibrium can hold.

    The other token is never right, so its logit falls for ever; it is put far below the digits before each step,
    which is where the flow takes it. Most losses do not see the common level of all logits; it is held then.
    """
    start, step, size = logits, FIRST_TIME_STEP, float("inf")
    spread = 1e-5 * torch.cat([torch.eye(11), -torch.eye(11)]).double()
    here, above = expected.gradient(torch.stack([logits, logits + 1]))
    level_matters = not torch.allclose(here, above, rtol=0, atol=1e-9)
    for _ in range(MOST_STEPS):
        level = logits[:10].logsumexp(0)
        if not level_matters:
            logits, level = logits - level, torch.zeros_like(level)
        elif float(level) < LOWEST_LEVEL:
            return logits, False
        logits = torch.cat([logits[:10], (level - 40).unsqueeze(0)])
        around = expected.gradient(torch.cat([logits.unsqueeze(0), logits + spread]))
        gradient = around[0]
        if float(gradient[:10].abs().max()) < TOLERANCE:
            return logits, True
        slopes = ((around[1:12] - around[12:]) / 2e-5).T  # Jacobian by central differences
        move = torch.linalg.solve(slopes + torch.eye(11).double() / step, -gradient)
        logits = logits + move * min(1.0, 2.0 / float(move.abs().max()))
        shrinks = float(gradient.abs().max()) < size
        size = float(gradient.abs().max())
        step = min(step * 4, 1e12) if shrinks else max(step / 4, 1.0)
    return _minimise(expected, start) if expected.loss.has_value else (logits, False)


def _minimise(expected: ExpectedLoss, logits: Tensor) -> tuple[Tensor, bool]:
    """The minimiser, where the implicit steps did not settle: strong α on a law with tiny probabilities."""
    logits = logits.clone().unsqueeze(0).requires_grad_()
    search = torch.optim.LBFGS(
        [logits], max_iter=2000, tolerance_grad=1e-9, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def value() -> Tensor:
        search.zero_grad()
        loss = expected.value(logits).sum()
        loss.backward()
        return loss

    search.step(value)
    found = logits.detach()[0]
    gradient = expected.gradient(found.unsqueeze(0))[0, :10]
    return found, float(gradient.abs().max()) < 1e-6 and float(found[:10].logsumexp(0)) > LOWEST_LEVEL


def _describe(logits: Tensor, law: Tensor, attained: bool) -> Equilibrium:
    log_probs = logits.log_softmax(0)
    probs = log_probs.exp()
    return Equilibrium(
        probabilities=tuple(probs.tolist()),
        entropy_nats=float(entropy_of(log_probs)),
        kl_nats=float(kl_nats(law, log_probs)),
        logits=tuple(logits.tolist()),
        attained=attained,
    )
