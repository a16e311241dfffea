"""What the loss lab keeps between runs, like `cache`: plain values in, plain data out, bounded.

Every loss is a result of its own, so that a slider computes one loss anew.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import streamlit as st


def measure_losses(
    law: tuple[float, ...],
    predicted: tuple[float, ...],
    true_digit: int | tuple[float, ...],
    settings: Mapping[str, Mapping[str, Any]],
    digit_mass: float,
) -> list[dict[str, Any]]:
    """Value, gradient and equilibrium of each loss of `settings`, which maps it to its α, u and options."""
    return [
        _measure_loss(name, law, predicted, true_digit, tuple(sorted(chosen.items())), digit_mass)
        for name, chosen in settings.items()
    ]


@st.cache_data(max_entries=1024, show_spinner=False)
def _measure_loss(
    name: str,
    law: tuple[float, ...],
    predicted: tuple[float, ...],
    true_digit: int | tuple[float, ...],
    settings: tuple[tuple[str, Any], ...],
    digit_mass: float,
) -> dict[str, Any]:
    from delcore.analysis import measure_loss_at

    here = measure_loss_at(name, predicted, true_digit, digit_mass=digit_mass, **dict(settings))
    return asdict(here) | {"equilibrium": _find_equilibrium(name, law, settings)}


@st.cache_data(max_entries=1024, show_spinner=False)
def _find_equilibrium(name: str, law: tuple[float, ...], settings: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    from delcore.equilibria import equilibrium

    return asdict(equilibrium(name, law, **dict(settings)))


def find_targets(
    true_digit: int | tuple[float, ...], settings: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Where each loss leads if the label is always that digit, or drawn from that law."""
    law = tuple(float(k == true_digit) for k in range(10)) if isinstance(true_digit, int) else true_digit
    return {name: _find_equilibrium(name, law, tuple(sorted(chosen.items()))) for name, chosen in settings.items()}


def follow_losses(
    predicted: tuple[float, ...],
    true_digit: int | tuple[float, ...],
    settings: Mapping[str, Mapping[str, Any]],
    digit_mass: float,
    steps: int,
    rate: float,
) -> dict[str, Any]:
    """The path of gradient steps under each loss, as `delcore.analysis.LossPath`."""
    return {
        name: _follow_loss(name, predicted, true_digit, tuple(sorted(chosen.items())), digit_mass, steps, rate)
        for name, chosen in settings.items()
    }


@st.cache_data(max_entries=256, show_spinner=False)
def _follow_loss(
    name: str,
    predicted: tuple[float, ...],
    true_digit: int | tuple[float, ...],
    settings: tuple[tuple[str, Any], ...],
    digit_mass: float,
    steps: int,
    rate: float,
) -> Any:
    from delcore.analysis import follow_loss

    chosen = dict(settings)
    return follow_loss(name, predicted, true_digit, steps=steps, rate=rate, digit_mass=digit_mass, **chosen)


@st.cache_data(max_entries=256, show_spinner=False)
def scan_del_levels(predicted: tuple[float, ...], law: tuple[float, ...], alpha: float, u: float, bce: str) -> Any:
    """DEL's digit term while all logits are lowered, without and with its distance term, averaged over a law."""
    from delcore.analysis import scan_level

    lowered = tuple(0.5 * step for step in range(41))
    return {
        title: scan_level("del", predicted, law, lowered=lowered, alpha=alpha, u=u, bce=bce, distance=distance)
        for title, distance in {"DEL": "none", "DEL times the distance": "l1"}.items()
    }


@st.cache_data(max_entries=32, show_spinner=False)
def place_weights_of(rule: str) -> dict[str, float]:
    """The weight u of hundreds to hundredths of one number under a place rule."""
    from delcore.analysis import measure_place_weights

    found = measure_place_weights("123.45", [rule]).values[0].tolist()
    places = ("hundreds", "tens", "units", "", "tenths", "hundredths")
    return {place: round(u, 6) for place, u in zip(places, found, strict=True) if place}
