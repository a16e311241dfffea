"""Ten probabilities to drag or to type, with presets."""

from collections.abc import Sequence

import streamlit as st

from delcore.arithmetic import LAWS

OWN = "your own"


def spread(key: str, values: Sequence[float]) -> None:
    """Make `values` the ten weights of `key`, in all of its widgets."""
    state = st.session_state
    state[key] = tuple(values)
    state[f"{key}_text"] = ", ".join(f"{value:.6g}" for value in values)
    state[f"{key}_preset"] = next((name for name, law in LAWS.items() if law == tuple(values)), OWN)
    state.update({f"{key}_{k}": float(value) for k, value in enumerate(values)})


def ask_ten(key: str, what: str) -> None:
    """A preset, ten sliders and a line of numbers; each of them moves the others, and the session state's `key`."""
    state = st.session_state
    if f"{key}_0" not in state:
        spread(key, state[key])
    st.selectbox("Preset", [*LAWS, OWN], key=f"{key}_preset", on_change=_take_preset, args=(key,))
    with st.container(key=f"ten-{key}", gap=None):
        for k in range(10):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.text(str(k), width=12)
                st.slider(
                    f"{what} of digit {k}",
                    0.0,
                    1.0,
                    step=0.01,
                    format="%.2f",
                    key=f"{key}_{k}",
                    label_visibility="collapsed",
                    on_change=_take_sliders,
                    args=(key,),
                )
    st.text_input("Or type ten numbers", key=f"{key}_text", on_change=_take_text, args=(key,))
    if state.pop(f"{key}_refused", False):
        st.warning(
            "Ten numbers of 0 or above are needed, with commas between and not all 0.", icon=":material/warning:"
        )


def normalise(weights: Sequence[float]) -> tuple[float, ...] | None:
    """Weights that sum to 1; None where they are all 0."""
    total = sum(weights)
    return tuple(weight / total for weight in weights) if total > 0 else None


def _take_preset(key: str) -> None:
    preset = st.session_state[f"{key}_preset"]
    spread(key, LAWS.get(preset, st.session_state[key]))


def _take_sliders(key: str) -> None:
    spread(key, [st.session_state[f"{key}_{k}"] for k in range(10)])


def _take_text(key: str) -> None:
    state = st.session_state
    values = _read(state[f"{key}_text"])
    state[f"{key}_refused"] = values is None
    spread(key, values or state[key])


def _read(line: str) -> tuple[float, ...] | None:
    """Ten weights, none above 1; None for anything else."""
    try:
        values = tuple(float(word) for word in line.replace(";", ",").split(","))
    except ValueError:
        return None
    usable = len(values) == 10 and all(0 <= value < 1e6 for value in values) and sum(values) > 0
    return (normalise(values) if max(values) > 1 else values) if usable else None
