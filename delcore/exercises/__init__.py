"""Checkers of the workshop's exercises: each takes a learner's answer and says why a wrong one is wrong."""

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
