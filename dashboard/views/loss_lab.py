"""Loss lab: set the true law of a digit, see what each loss asks for. No model."""

from typing import Any

import cache_lab
import knobs
import links
import parts
import snippets
import streamlit as st
from knobs import Situation

from delcore import plots
from delcore.analysis import entropy_nats
from delcore.errors import InputError
from delcore.intervals import format_signed

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
FORMULAS = {
    "mle": r"$\mathrm{CE} = -\log q_c$",
    "mixce": r"$[\eta + (1-\eta)\,\mathrm{sg}(q_c)]\,\mathrm{CE}$",
    "emo": r"$\tfrac12(\mathrm{CE} + \mathrm{sg}(r)\,e)$, $e = 1 - q_c$, $r = \min(\mathrm{CE}/e,\ \mathrm{cap})$",
    "ntl_was": r"$\mathrm{CE} + \alpha \sum_k \lvert k-c\rvert\,\hat p_k$",
    "ntl_mse": r"$\mathrm{CE} + \alpha\,(\sum_k k\,\hat p_k - c)^2$",
    "dist2": r"$\mathrm{CE} + \alpha\,\mathrm{KL}(g \,\Vert\, \hat p)$, $g = \mathrm{softmax}(-(k-c)^2/\tau)$",
    "del": r"$\mathrm{CE} + \alpha\,u \sum_k \hat p_k\,\mathrm{BCE}(\sigma(a_k), 1[k=c])$",
}
SIGNS = {"alpha": "α", "eta": "η", "cap": "cap", "tau": "τ", "u": "u", "bce": "BCE", "distance": "distance"}
ARRIVED = 0.01
"""Nats of entropy from its equilibrium within which a loss has reached it."""

LEVELS = (
    "DEL reads $\\sigma(a_k)$ off raw logits, so it sees their common level. Without a distance, lowering all logits "
    "makes the true digit's own term $-\\log\\sigma(a_c)$ grow, which holds them. Times the distance $|k-c|$ that term "
    "is multiplied by 0: nothing holds the logits, the penalty falls to 0 as they sink, and no finite logits are an "
    "equilibrium."
)


def show_page() -> None:
    """Settings in the sidebar, what follows from them beside it."""
    links.restore("loss_lab", knobs.PARAMETERS)
    st.header("Where does each loss lead?", anchor=False)
    with st.sidebar:
        situation = knobs.ask()
    if situation is None:
        st.warning("The ten weights must be 0 or above, and not all 0.", icon=":material/warning:")
    else:
        _show_situation(situation)
    links.publish("loss_lab", knobs.PARAMETERS)


def _show_situation(at: Situation) -> None:
    try:
        results = cache_lab.measure_losses(at.law, at.predicted, at.true_digit, at.losses, at.mass)
        tabs = st.tabs(knobs.TABS, key="tab", on_change="rerun")
        for tab, show in zip(tabs, (show_equilibria, show_prediction, show_steps, show_levels), strict=True):
            if tab.open:
                with tab:
                    show(results, at)
    except InputError as error:
        parts.show_problem("These settings cannot be used.", error)
        return
    show_numbers(results, at)


# ---------------------------------------------------------------- the tabs


def show_equilibria(results: list[dict[str, Any]], at: Situation) -> None:
    """Equilibrium of each loss against the true law, with the formulas beside it."""
    truth = entropy_nats(at.law)
    found = {row["name"]: row["equilibrium"] for row in results}
    notes = {
        name: f"{e['entropy_nats']:.3f} nats ({format_signed(e['entropy_nats'] - truth)})" for name, e in found.items()
    }
    st.caption(
        "**Equilibrium**: the ten probabilities at which a loss's expected gradient vanishes when the true digit is "
        f"drawn from the law (level lines; {truth:.3f} nats). Below its entropy is over-sharp, above it over-flat."
    )
    if not found["del"]["attained"]:
        notes["del"] = "no equilibrium"
        st.warning(
            "DEL with the distance term has no equilibrium: its penalty falls to 0 as all digit logits are lowered "
            "together, and the probabilities tend to the true law itself. The tab *DEL's level* shows it.",
            icon=":material/trending_down:",
        )
    p = {name: e["probabilities"] for name, e in found.items()}
    picture, formulas = st.columns([3, 1.15], gap="medium")
    with picture:
        parts.show_panels(
            lambda c: plots.plot_small_multiples(p, truth=at.law, notes=notes, columns=c),
            "equilibria",
            "Equilibrium of each loss against the true law. Entropies: "
            + ", ".join(f"{plots.TITLES[name]} {note}" for name, note in notes.items()),
            columns=(3, 2),
        )
    with formulas, st.container(key="formulas", gap="small"):
        show_formulas(at)


def show_formulas(at: Situation) -> None:
    """What each loss is at one digit, with the settings put in."""
    st.caption(
        "Per digit: $q$ whole softmax, $\\hat p$ of the digits, $c$ true digit, $a$ digit logits, sg no gradient"
    )
    for name, formula in FORMULAS.items():
        chosen = ", ".join(f"{SIGNS[key]} = {value}" for key, value in at.losses[name].items() if value != "none")
        st.markdown(f"**{plots.TITLES[name]}** :small[{chosen}]  \n{formula}")


def show_prediction(results: list[dict[str, Any]], at: Situation) -> None:
    """Value, gradient and target of each loss at the prediction."""
    single = at.true_digit if isinstance(at.true_digit, int) else None
    label = f"the true digit is {single} (hatched)" if single is not None else "averaged over the true law"
    st.caption(
        f"**Gradient** on the digit logits at the prediction; {label}. Training raises a logit whose bar points down."
    )
    values = {row["name"]: f"value {row['value']:.3f} nats" for row in results}
    gradients = {row["name"]: row["gradient"] for row in results}
    parts.show_panels(
        lambda c: plots.plot_gradients(gradients, true_digit=single, notes=values, columns=c),
        "gradients",
        "Gradient of each loss on the ten digit logits, in nats per unit of logit; "
        + ", ".join(f"{plots.TITLES[name]} {value}" for name, value in values.items()),
    )
    targets = cache_lab.find_targets(at.true_digit, at.losses)
    always = f"were always {single}" if single is not None else "were drawn from the true law"
    st.caption(f"**Target**: where each loss leads if the label {always}; in grey the prediction it starts from.")
    notes = {name: f"{one['entropy_nats']:.3f} nats" for name, one in targets.items()}
    p = {name: one["probabilities"] for name, one in targets.items()}
    parts.show_panels(
        lambda c: plots.plot_small_multiples(p, ghost=at.predicted, ghost_name="prediction", notes=notes, columns=c),
        "targets",
        "Target of each loss. Entropies: " + ", ".join(f"{plots.TITLES[n]} {note}" for n, note in notes.items()),
    )


def show_steps(results: list[dict[str, Any]], at: Situation) -> None:
    """Gradient steps from the prediction, as an animation."""
    with st.container(horizontal=True, key="steps-controls"):
        aim = st.selectbox("True digit", knobs.AIMS, format_func=lambda aim: knobs.AIMS[aim], key="aim")
        steps = st.slider("Gradient steps k", 5, 100, step=5, key="steps")
        rate = st.slider("Rate (logits per unit of gradient)", 0.1, 5.0, step=0.1, key="rate")
    start = "the true law" if at.predicted == at.law else "the prediction"
    st.caption(
        f"**Gradient steps** on the logits, in float64, from {start} (grey): press play below the picture. "
        "Where the true digit is drawn from the law, each loss walks to its own equilibrium, some by a detour."
    )
    label = at.law if aim == knobs.AVERAGE else at.true_digit
    paths = cache_lab.follow_losses(at.predicted, label, at.losses, at.mass, steps, rate)
    parts.show_panels(
        lambda c: plots.plot_loss_steps(paths, truth=at.law, columns=c),
        "steps",
        f"Probabilities after {steps} gradient steps. Entropies: "
        + ", ".join(f"{plots.TITLES[name]} {path.entropy_nats[-1]:.3f} nats" for name, path in paths.items()),
    )
    if aim == knobs.AVERAGE:
        show_late(results, {name: float(path.entropy_nats[-1]) for name, path in paths.items()})


def show_late(results: list[dict[str, Any]], entropies: dict[str, float]) -> None:
    """Which losses have not reached their equilibrium, where they have one."""
    aims = {row["name"]: row["equilibrium"] for row in results if row["equilibrium"]["attained"]}
    late = [
        f"{plots.TITLES[name]} ({entropies[name]:.3f} nats, equilibrium {aims[name]['entropy_nats']:.3f})"
        for name in aims
        if abs(entropies[name] - aims[name]["entropy_nats"]) > ARRIVED
    ]
    if late:
        st.caption(f"Not there yet after these steps: {', '.join(late)}.")


def show_levels(results: list[dict[str, Any]], at: Situation) -> None:
    """Why DEL times the distance has no equilibrium."""
    st.markdown(LEVELS)
    chosen = at.losses["del"]
    scans = cache_lab.scan_del_levels(at.predicted, at.law, chosen["alpha"], chosen["u"], chosen["bce"])
    ends = ", ".join(f"{title} {scan.digit_term[-1]:.2g}" for title, scan in scans.items())
    parts.show_figure(
        plots.untitled(plots.plot_levels(scans)), "levels", f"Digit term after all logits are lowered by 20: {ends}"
    )
    st.caption(
        "All logits are lowered together, at the prediction, averaged over the true law: no probability changes, and "
        "cross-entropy stays as it is. The conditional BCE does not see the level, and its lines are flat."
    )


def show_numbers(results: list[dict[str, Any]], at: Situation) -> None:
    """The numbers behind the pictures, to read and to take away."""
    rows = [
        row
        | row["equilibrium"]
        | {
            "title": plots.TITLES[row["name"]],
            "gap": round(row["equilibrium"]["entropy_nats"] - entropy_nats(at.law), 8) + 0.0,
            "kl_nats": max(row["equilibrium"]["kl_nats"], 0.0),
            "attained": "reached" if row["equilibrium"]["attained"] else "none",
        }
        for row in results
    ]
    parts.show_table(rows, COLUMNS, "Value, terms and equilibrium of each loss")
    flat = [{key: value for key, value in row.items() if not isinstance(value, dict | tuple)} for row in rows]
    for line, row in zip(flat, rows, strict=True):
        line |= {f"gradient{k}": value for k, value in enumerate(row["gradient"])}
        line |= {f"equilibrium{k}": value for k, value in enumerate(row["probabilities"])}
    whole = {"law": at.law, "predicted": at.predicted, "true_digit": at.true_digit, "digit_mass": at.mass}
    code = snippets.lab_code(at.law, at.predicted, at.true_digit, at.losses, at.mass)
    parts.show_take_away(flat, whole | {"settings": at.losses, "losses": rows}, "delcore-lab", code)


show_page()
