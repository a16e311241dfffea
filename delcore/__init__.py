"""delcore: numeric learning in language models, around DEL, the Digit Entropy Loss (arXiv:2605.20369).

Importing this package loads nothing heavy; each name below is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from delcore._lazy import lazy_names

if TYPE_CHECKING:
    from delcore.answers import equal_answers, read_answer
    from delcore.config import TrainConfig
    from delcore.data import align
    from delcore.digits import DigitVocab, place_weights
    from delcore.equilibria import Equilibrium, equilibrium
    from delcore.errors import InputError
    from delcore.losses import LOSSES, LossOutput, numeric_loss
    from delcore.losses.lean import head_of, lean_loss
    from delcore.models import load_model
    from delcore.probe import DigitPosition, digit_distributions
    from delcore.programs import run_program
    from delcore.spans import number_spans
    from delcore.train import Run, finetune
    from delcore.trainers import numeric_trainer, trainer_loss

__version__ = "0.1.0"

_HOMES = {
    "DigitPosition": "probe",
    "DigitVocab": "digits",
    "Equilibrium": "equilibria",
    "InputError": "errors",
    "LOSSES": "losses",
    "LossOutput": "losses",
    "Run": "train",
    "TrainConfig": "config",
    "align": "data",
    "digit_distributions": "probe",
    "equal_answers": "answers",
    "equilibrium": "equilibria",
    "finetune": "train",
    "head_of": "losses.lean",
    "lean_loss": "losses.lean",
    "load_model": "models",
    "number_spans": "spans",
    "numeric_loss": "losses",
    "numeric_trainer": "trainers",
    "place_weights": "digits",
    "read_answer": "answers",
    "run_program": "programs",
    "trainer_loss": "trainers",
}

__all__ = [
    "DigitPosition",
    "DigitVocab",
    "Equilibrium",
    "InputError",
    "LOSSES",
    "LossOutput",
    "Run",
    "TrainConfig",
    "align",
    "digit_distributions",
    "equal_answers",
    "equilibrium",
    "finetune",
    "head_of",
    "lean_loss",
    "load_model",
    "number_spans",
    "numeric_loss",
    "numeric_trainer",
    "place_weights",
    "read_answer",
    "run_program",
    "trainer_loss",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
