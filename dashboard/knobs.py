"""The settings of the loss lab, in its sidebar."""

from dataclasses import dataclass
from typing import Any

import cache_lab
import links
import parts
import streamlit as st
from ten import ask_ten, normalise

from delcore.arithmetic import DESIGN_LAW, LAWS

AVERAGE = "law"
AIMS = {AVERAGE: "drawn from the true law", "digit": "as chosen at the left"}
TABS = ("Equilibrium", "At this prediction", "Gradient steps", "DEL's level")
EDITED = ("True law π", "Prediction p̂")
NO_PLACE, OWN_U = "any", "own"
PLACES = (NO_PLACE, "hundreds", "tens", "units", "tenths", "hundredths", OWN_U)
PARAMETERS = {
    "tab": links.choice(TABS),
    "edited": links.choice(EDITED),
    "law": links.numbers(10, 1.0, DESIGN_LAW),
    "same": links.flag(True),
    "predicted": links.numbers(10, 1.0, LAWS["flat"]),
    "true_digit": links.choice([*range(10), AVERAGE], 7),
    "mass": links.number(0.01, 0.999, 0.999),
    "place": links.choice(PLACES),
    "u": links.number(0.0, 10.0, 1.0),
    "del_alpha": links.number(0.0, 1.0, 0.1),
    "ntl_alpha": links.number(0.0, 2.0, 0.3),
    "dist2_alpha": links.number(0.0, 2.0, 0.1),
    "tau": links.number(0.1, 10.0, 1.0),
    "eta": links.number(0.0, 1.0, 0.5),
    "cap": links.number(0.1, 10.0, 3.0),
    "bce": links.choice(("sigmoid", "conditional")),
    "distance": links.flag(),
    "aim": links.choice(list(AIMS)),
    "steps": links.whole(5, 100, 40),
    "rate": links.number(0.1, 5.0, 2.0),
    "picture": links.choice(parts.PICTURES),
}


@dataclass(frozen=True)
class Situation:
    """What all losses are asked about.

    Args:
        law: true distribution π of the digit, [10].
        predicted: p̂, [10].
        true_digit: the label, or `law` for the expectation over it.
        mass: share of the softmax on the digits.
        losses: loss to its α, u and options.
    """

    law: tuple[float, ...]
    predicted: tuple[float, ...]
    true_digit: int | tuple[float, ...]
    mass: float
    losses: dict[str, dict[str, Any]]


def ask() -> Situation | None:
    """The sidebar; None where the ten weights are all 0."""
    state = st.session_state
    law_tab, prediction_tab = st.tabs(EDITED, key="edited", on_change="rerun")
    if law_tab.open:
        with law_tab:
            ask_ten("law", "π")
    if prediction_tab.open:
        with prediction_tab:
            st.toggle("The same as the true law", key="same")
            if not state.same:
                ask_ten("predicted", "p̂")
    st.selectbox("True digit c", [*range(10), AVERAGE], format_func=_told_digit, key="true_digit")
    st.slider("Digit mass m", 0.01, 0.999, step=0.001, format="%.3f", key="mass")
    losses = _ask_losses()
    law = normalise(state.law)
    predicted = law if state.same else normalise(state.predicted)
    if law is None or predicted is None:
        return None
    return Situation(law, predicted, law if state.true_digit == AVERAGE else state.true_digit, state.mass, losses)


def _told_digit(digit: int | str) -> str:
    return "any, drawn from the true law" if digit == AVERAGE else str(digit)


def _ask_losses() -> dict[str, dict[str, Any]]:
    u = _ask_weight()
    del_alpha = st.slider("DEL: α", 0.0, 1.0, step=0.01, key="del_alpha")
    bce = st.selectbox("DEL: BCE", ["sigmoid", "conditional"], key="bce")
    distance = st.toggle("DEL times the distance |k−c| (ablation)", key="distance")
    ntl_alpha = st.slider("NTL: α", 0.0, 2.0, step=0.01, key="ntl_alpha")
    dist2_alpha = st.slider("DIST2Loss: α", 0.0, 2.0, step=0.01, key="dist2_alpha")
    tau = st.slider("DIST2Loss: τ (squared digits)", 0.1, 10.0, step=0.1, key="tau")
    eta = st.slider("MixCE: η", 0.0, 1.0, step=0.01, key="eta")
    cap = st.slider("EMO: cap", 0.1, 10.0, step=0.1, key="cap")
    return {
        "mle": {},
        "mixce": {"eta": eta},
        "emo": {"cap": cap},
        "ntl_was": {"alpha": ntl_alpha},
        "ntl_mse": {"alpha": ntl_alpha},
        "dist2": {"alpha": dist2_alpha, "tau": tau},
        "del": {"alpha": del_alpha, "u": u, "bce": bce, "distance": "l1" if distance else "none"},
    }


def _ask_weight() -> float:
    """DEL's place weight, by the place of the digit or freely."""
    weights = {NO_PLACE: 1.0, **cache_lab.place_weights_of("decimal")}

    def told(place: str) -> str:
        return "a weight of your own" if place == OWN_U else f"{place} (u = {weights[place]:.3g})"

    place = st.selectbox("DEL: place of the digit", PLACES, format_func=told, key="place")
    if place == OWN_U:
        return st.slider("DEL: u", 0.0, 10.0, step=0.1, key="u")
    return weights[place]
