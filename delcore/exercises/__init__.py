"""Checkers of the workshop's exercises: each takes a learner's answer and says why a wrong one is wrong.

Each name below is loaded from its module when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from delcore.exercises.by_hand import (
        check_del,
        check_dist2_target,
        check_entropy,
        check_ntl_was,
        check_probability_and_mass,
    )
    from delcore.exercises.checks import Check
    from delcore.exercises.judgement import check_biases, check_readings
    from delcore.exercises.places import check_places, check_weights

_HOMES = {
    "Check": "checks",
    "check_biases": "judgement",
    "check_del": "by_hand",
    "check_dist2_target": "by_hand",
    "check_entropy": "by_hand",
    "check_ntl_was": "by_hand",
    "check_places": "places",
    "check_probability_and_mass": "by_hand",
    "check_readings": "judgement",
    "check_weights": "places",
}

__all__ = [
    "Check",
    "check_biases",
    "check_del",
    "check_dist2_target",
    "check_entropy",
    "check_ntl_was",
    "check_places",
    "check_probability_and_mass",
    "check_readings",
    "check_weights",
]


def __getattr__(name: str) -> Any:
    """Load a checker from its module (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'delcore.exercises' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"delcore.exercises.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
