"""The registry of the losses: their names, defaults and options, and the checks of what a user sets."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType, NoneType
from typing import Any

import torch

from delcore.digits import DigitVocab
from delcore.errors import InputError
from delcore.losses._positions import Positions, Terms, positions_from_logits
from delcore.losses.digit_entropy import del_released, digit_entropy
from delcore.losses.dist2 import dist2
from delcore.losses.emo import emo
from delcore.losses.mixce import mixce
from delcore.losses.mle import mle
from delcore.losses.ntl import ntl_mse, ntl_was


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
