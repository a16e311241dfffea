"""Loss lab: set the true law of a digit, see what each loss asks for. No model."""

from typing import Any

import cache
import parts
import streamlit as st

from delcore import plots
from delcore.analysis import entropy_nats
from delcore.arithmetic import LAWS
from delcore.errors import InputError

AVERAGE = "any, drawn from the true law"
WEIGHTS = {"1 (none)": 1.0, "2 (units)": 2.0, "4 (tens)": 4.0, "6 (hundreds)": 6.0}
COLUMNS = {
    "title": ("loss", None, "as its paper writes it"),
    "value": ("value (nats)", "%.3f", "token term + digit term, at the prediction"),
    "token_term": ("token term", "%.3f", "cross-entropy or what replaces it, in nats"),
    "digit_term": ("digit term", "%.3f", "α·u·ℓ, in the loss's own unit; 0 where there is none"),
    "entropy_nats": ("entropy (nats)", "%.4f", "of p̂ at the equilibrium, where the expected gradient vanishes"),
    "gap": ("− law (nats)", "%+.4f", "that entropy less the true law's: below 0 over-sharp, above 0 over-flat"),
    "kl_nats": ("KL (nats)", "%.4f", "KL(π ‖ p̂) at the equilibrium"),
    "attained": ("equilibrium", None, "whether finite logits reach it"),
}
FORMULAS = r"""
| loss | per digit: $q$ whole softmax, $\hat p$ of the digits, $c$ true digit, $a$ digit logits |
|---|---|
| MLE | $\mathrm{CE} = -\log q_c$ |
| MixCE | $[\eta + (1-\eta)\,\mathrm{sg}(q_c)]\,\mathrm{CE}$ |
| EMO | $\tfrac12\left(\mathrm{CE} + \mathrm{sg}(\min(\mathrm{CE}/e,\ \mathrm{cap}))\,e\right)$, here $e = 1 - q_c$ |
| NTL-WAS | $\mathrm{CE} + \alpha \sum_k \lvert k-c\rvert\,\hat p_k$ |
| NTL-MSE | $\mathrm{CE} + \alpha\,(\sum_k k\,\hat p_k - c)^2$ |
| DIST2Loss | $\mathrm{CE} + \alpha\,\mathrm{KL}(g \,\Vert\, \hat p)$, $g = \mathrm{softmax}(-(k-c)^2/\tau)$ |
| DEL | $\mathrm{CE} + \alpha\,u \sum_k \hat p_k\,\mathrm{BCE}(\sigma(a_k), 1[k=c])$ |
"""


def show_page() -> None:
    """Settings in the sidebar, what follows from them beside it."""
    st.header("Where does each loss lead?", anchor=False)
    with st.sidebar:
        law = ask_law()
        settings = ask_settings()
    if law is None:
        st.warning("The ten weights must be 0 or above, and not all 0.", icon=":material/warning:")
        return
    try:
        results = cache.measure_losses(law, *settings["situation"](law), settings["losses"], settings["mass"])
    except InputError as error:
        parts.show_problem("These settings cannot be used.", error)
        return
    show_equilibria(results, law)
    show_gradients(results, settings["situation"](law)[1])
    show_numbers(results, law)


def ask_law() -> tuple[float, ...] | None:
    """The true distribution π: a preset whose ten weights can be edited, normalised to sum to 1."""
    preset = st.selectbox("True law π of the digit", list(LAWS), key="law")
    rows = [{"digit": str(k), "weight": weight} for k, weight in enumerate(LAWS[preset])]
    edited = st.data_editor(
        rows,
        key=f"weights-{preset}",
        hide_index=True,
        height=387,
        disabled=["digit"],
        column_config={"weight": st.column_config.NumberColumn(min_value=0.0, format="%.3f", required=True)},
    )
    weights = [float(row["weight"] or 0) for row in edited]
    total = sum(weights)
    return tuple(w / total for w in weights) if total > 0 and min(weights) >= 0 else None


def ask_settings() -> dict[str, Any]:
    """What is predicted, which digit is true, and the knobs of the losses."""
    true_digit = st.selectbox("True digit c, for value and gradient", [*range(10), AVERAGE], index=7, key="true_digit")
    predicted = st.selectbox("Prediction p̂", ["the true law", *LAWS], key="predicted")
    mass = st.slider("Digit mass m", 0.01, 0.999, 0.999, 0.001, format="%.3f", key="mass")
    weight = st.selectbox("DEL: place weight u", list(WEIGHTS), key="u")

    def situation(law: tuple[float, ...]) -> tuple[tuple[float, ...], int | tuple[float, ...]]:
        return LAWS.get(predicted, law), law if true_digit == AVERAGE else true_digit

    return {"situation": situation, "losses": _ask_losses(WEIGHTS[weight]), "mass": mass}


def _ask_losses(u: float) -> dict[str, dict[str, Any]]:
    del_alpha = st.slider("DEL: α", 0.0, 1.0, 0.1, 0.01, key="del_alpha")
    ntl_alpha = st.slider("NTL: α", 0.0, 2.0, 0.3, 0.01, key="ntl_alpha")
    dist2_alpha = st.slider("DIST2Loss: α", 0.0, 2.0, 0.1, 0.01, key="dist2_alpha")
    tau = st.slider("DIST2Loss: τ (squared digits)", 0.1, 10.0, 1.0, 0.1, key="tau")
    eta = st.slider("MixCE: η", 0.0, 1.0, 0.5, 0.01, key="eta")
    cap = st.slider("EMO: cap", 0.1, 10.0, 3.0, 0.1, key="cap")
    bce = st.selectbox("DEL: BCE", ["sigmoid", "conditional"], key="bce")
    distance = st.toggle("DEL times the distance |k−c| (ablation)", key="distance")
    return {
        "mle": {},
        "mixce": {"eta": eta},
        "emo": {"cap": cap},
        "ntl_was": {"alpha": ntl_alpha},
        "ntl_mse": {"alpha": ntl_alpha},
        "dist2": {"alpha": dist2_alpha, "tau": tau},
        "del": {"alpha": del_alpha, "u": u, "bce": bce, "distance": "l1" if distance else "none"},
    }


def show_equilibria(results: list[dict[str, Any]], law: tuple[float, ...]) -> None:
    """Equilibrium of each loss against the true law."""
    truth = entropy_nats(law)
    found = {row["name"]: row["equilibrium"] for row in results}
    notes = {name: f"{e['entropy_nats']:.3f} nats ({e['entropy_nats'] - truth:+.3f})" for name, e in found.items()}
    st.caption(
        "**Equilibrium**: the ten probabilities at which a loss's expected gradient vanishes when the true digit is "
        f"drawn from the law (level lines; {truth:.3f} nats). Below its entropy is over-sharp, above it over-flat."
    )
    if not found["del"]["attained"]:
        notes["del"] = "no equilibrium"
        st.warning(
            "DEL with the distance term has no equilibrium: its penalty falls to 0 as all digit logits are lowered "
            "together, and the probabilities tend to the true law itself.",
            icon=":material/trending_down:",
        )
    p = {name: e["probabilities"] for name, e in found.items()}
    parts.show_panels(
        lambda c: plots.plot_small_multiples(p, truth=law, notes=notes, columns=c),
        "equilibria",
        "Equilibrium of each loss against the true law. Entropies: "
        + ", ".join(f"{plots.TITLES[name]} {note}" for name, note in notes.items()),
    )


def show_gradients(results: list[dict[str, Any]], true_digit: int | tuple[float, ...]) -> None:
    """Gradient of each loss on the ten digit logits, at the prediction."""
    single = true_digit if isinstance(true_digit, int) else None
    label = f"the true digit is {single} (hatched)" if single is not None else "averaged over the true law"
    st.caption(
        f"**Gradient** on the digit logits at the prediction; {label}. Training raises a logit whose bar points down."
    )
    gradients = {row["name"]: row["gradient"] for row in results}
    parts.show_panels(
        lambda c: plots.plot_gradients(gradients, true_digit=single, columns=c),
        "gradients",
        "Gradient of each loss on the ten digit logits, in nats per unit of logit",
    )


def show_numbers(results: list[dict[str, Any]], law: tuple[float, ...]) -> None:
    """The numbers behind both pictures, and the formulas."""
    rows = [
        row
        | row["equilibrium"]
        | {
            "title": plots.TITLES[row["name"]],
            "gap": round(row["equilibrium"]["entropy_nats"] - entropy_nats(law), 8) + 0.0,
            "kl_nats": max(row["equilibrium"]["kl_nats"], 0.0),
            "attained": "reached" if row["equilibrium"]["attained"] else "none",
        }
        for row in results
    ]
    parts.show_table(rows, COLUMNS, "Value, terms and equilibrium of each loss")
    with st.expander("Formulas", expanded=False):
        st.markdown(FORMULAS)


show_page()
