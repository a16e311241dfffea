"""The state of a page in its address, so that a link opens the same page elsewhere.

A page lists its parameters, calls `restore` before its first widget and `publish` after its last one:

    PARAMETERS = {"prompt": links.text("12 + 35 = "), "view": links.choice(VIEWS), "tau": links.number(0.1, 10, 1.0)}
    links.restore("explore", PARAMETERS)
    st.slider("τ", 0.1, 10.0, key="tau")      # no `value`: it is in the session state already
    links.publish("explore", PARAMETERS)

The names are keys of the session state and of the address alike. Values that a page opens with stay out of the
address. What cannot be used is ignored, and one sentence says so. Values also outlive a change of page, where
Streamlit forgets widgets.

The rule of names: any site can send a browser to a local server by a link, so a link alone loads nothing but what the
page knows. An address holds no path of this machine, neither written nor read. Another model or tokenizer that it
names is asked only after a visitor has pressed the button of `ask_leave`, and in a workshop not at all.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from delcore.errors import InputError
from delcore.models import is_hub_id
from delcore.workshop import is_workshop

LONGEST = 2_048
"""Characters of one value, as many as the family reads; servers and browsers cut addresses that are much longer."""

NONE = "-"
"""Stands for an empty choice; some programs drop entries without a value."""

UNASKED = "links/unasked"
"""Key of the session state: names that came with an address and that no visitor has agreed to."""


@dataclass(frozen=True)
class Parameter:
    """One entry of an address.

    Args:
        default: the value without an entry.
        read: text to value; raises ValueError for what cannot be used.
        write: value to text; None for what no address may hold.
        known: where the value names models, those that a link may name without a question; None elsewhere.
    """

    default: Any
    read: Callable[[str], Any]
    write: Callable[[Any], str | None] = str
    known: Collection[str] | None = None


def text(default: str = "") -> Parameter:
    """Any text; a blank one counts as none, which no address holds."""

    def read(word: str) -> str:
        return _read_text(word) if word.strip() else default

    return Parameter(default, read, lambda value: value if value.strip() else None)


def choice(options: Sequence[Any], default: Any = None, *, optional: bool = False) -> Parameter:
    """One of some values that their `str` tells apart; the first by default, or None where `optional`."""
    named = {str(option): option for option in options}
    return Parameter(default if optional or default is not None else options[0], lambda word: _look_up(named, word))


def several(options: Sequence[str], default: Sequence[str] = ()) -> Parameter:
    """Some of some words without commas, in the order of `options`; none is a choice, too."""
    named = {option: option for option in options}

    def read(line: str) -> list[str]:
        chosen = [_look_up(named, word) for word in line.split(",")] if line != NONE else []
        return [option for option in options if option in chosen]

    return Parameter(list(default), read, lambda chosen: ",".join(chosen) or NONE)


def lines(most: int) -> Parameter:
    """Some texts of one line each."""

    def read(word: str) -> list[str]:
        found = [line for line in _read_text(word).split("\n") if line.strip()]
        if len(found) > most:
            raise ValueError(f"at most {most}")
        return found

    return Parameter([], read, "\n".join)


def number(low: float, high: float, default: float) -> Parameter:
    """A number from `low` to `high`."""
    return Parameter(default, lambda word: _in_range(float(word), low, high), lambda value: f"{value:.12g}")


def whole(low: int, high: int, default: int | None = None) -> Parameter:
    """A whole number from `low` to `high`, or none."""
    return Parameter(default, lambda word: int(_in_range(int(word), low, high)))


def numbers(count: int, high: float, default: Sequence[float]) -> Parameter:
    """So many numbers from 0 to `high`, separated by commas, and not all 0."""

    def read(line: str) -> tuple[float, ...]:
        values = tuple(_in_range(float(word), 0.0, high) for word in line.split(","))
        if len(values) != count or not any(values):
            raise ValueError(f"{count} numbers are needed, not all 0")
        return values

    return Parameter(tuple(default), read, lambda values: ",".join(f"{value:.12g}" for value in values))


def flag(default: bool = False) -> Parameter:
    """Yes or no."""
    named = {"1": True, "0": False}
    return Parameter(default, lambda word: _look_up(named, word), lambda value: str(int(value)))


def model(known: Mapping[str, str], default: str) -> Parameter:
    """The name of a model or a tokenizer; `known` maps words of an address to names that the page knows."""
    return Parameter(default, lambda word: _read_name(known, word), lambda name: _write_name(known, name), _all(known))


def models(known: Mapping[str, str], most: int) -> Parameter:
    """Names of models, one a line; see `model`."""
    listed = lines(most)

    def write(names: Sequence[str]) -> str | None:
        words = [_write_name(known, name) for name in names]
        return "\n".join(word for word in words if word is not None) or None

    return Parameter([], lambda word: [_read_name(known, one) for one in listed.read(word)], write, _all(known))


def _all(known: Mapping[str, str]) -> frozenset[str]:
    return frozenset(known.values())


def _read_name(known: Mapping[str, str], word: str) -> str:
    word = word.strip()  # as the pages read what is typed, so that a space makes no other name
    if word in known:
        return known[word]
    if is_workshop() or not _may_be_linked(word):
        raise ValueError("no name that a link may hold")
    return word


def _write_name(known: Mapping[str, str], name: str) -> str | None:
    shorter = {long: word for word, long in known.items()}
    return shorter.get(name, name if _may_be_linked(name) else None)


def _may_be_linked(name: str) -> bool:
    """Whether it is no path of this machine; a backslash may call a host on Windows, and is refused first."""
    try:
        return len(name) <= LONGEST and name.isprintable() and "\\" not in name and is_hub_id(name)
    except InputError:
        return False


def _read_text(value: str) -> str:
    if len(value) > LONGEST:
        raise ValueError("too long")
    return value


def _look_up(named: Mapping[str, Any], word: str) -> Any:
    if word not in named:
        raise ValueError("no such choice")
    return named[word]


def _in_range(value: float, low: float, high: float) -> float:
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError("out of range")
    return value


# ---------------------------------------------------------------- the session and the address


def restore(page: str, parameters: Mapping[str, Parameter]) -> None:
    """Fill the session state: from the address where the page is just opened, else what it held before.

    Args:
        page: a name of its own for each page.
        parameters: what its address may hold.
    """
    state, kept = st.session_state, f"links/{page}"
    if state.get("links") != page:
        state["links"] = page
        if st.query_params or kept not in state:
            state[kept] = _read_address(parameters)
        state.update(state[kept])  # also over another page's values of the same names
    for key, parameter in parameters.items():
        if key not in state:
            state[key] = state[kept].get(key, parameter.default)


def _read_address(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    values = {key: parameter.default for key, parameter in parameters.items()}
    ignored = []
    for key, word in st.query_params.to_dict().items():
        try:
            values[key] = parameters[key].read(word)
            _doubt(parameters[key], values[key])
        except (KeyError, ValueError, OverflowError):
            ignored.append(key)
    if ignored:
        _say_ignored([key for key in ignored if key in parameters])
    return values


def _doubt(parameter: Parameter, value: Any) -> None:
    """Remember names that the page does not know, until a visitor agrees."""
    if parameter.known is not None:
        names = {value} if isinstance(value, str) else set(value)
        st.session_state[UNASKED] = st.session_state.get(UNASKED, set()) | (names - set(parameter.known))


def is_unasked(name: str) -> bool:
    """Whether a model's name came with the address and no visitor has agreed to it."""
    return name in st.session_state.get(UNASKED, ())


def ask_leave(names: Sequence[str]) -> None:
    """Where some of these names came with the address: what they are, and the button to ask them."""
    unasked = list(dict.fromkeys(name for name in names if is_unasked(name)))
    if not unasked:
        return
    with st.container(key="leave"):
        st.warning("This link names what is not loaded yet. Ask only what you know.", icon=":material/link:")
        st.text("\n".join(unasked))
        st.button("Ask the models of this link", key="ask_leave", on_click=_agree, args=(unasked,))


def _agree(names: Sequence[str]) -> None:
    st.session_state[UNASKED] = st.session_state[UNASKED] - set(names)


def _say_ignored(known: list[str]) -> None:
    """One sentence; names that are not ours might be markup and are not repeated."""
    what = ", ".join(f"`{key}`" for key in known) or "an unknown name"
    st.warning(f"A part of this link cannot be used and was ignored: {what}.", icon=":material/link_off:")


def hold(*keys: str) -> None:
    """Tell the browser the values of widgets that it has not drawn yet, because a popover or an expander is closed.

    Streamlit sends a value that is set in the session state once only; drawn later, the widget would show its default.
    """
    for key in keys:
        st.session_state[key] = st.session_state[key]


def publish(page: str, parameters: Mapping[str, Parameter]) -> None:
    """Write the session state to the address, and keep it for when the page is left and opened again."""
    state = st.session_state
    values = {key: state[key] for key in parameters if key in state}
    state[f"links/{page}"] = values
    words = {key: parameters[key].write(value) for key, value in values.items() if _is_told(parameters[key], value)}
    words = {key: word for key, word in words.items() if word is not None and len(word) <= LONGEST}
    if words != st.query_params.to_dict():
        st.query_params.from_dict(words)


def _is_told(parameter: Parameter, value: Any) -> bool:
    return value is not None and value != parameter.default
