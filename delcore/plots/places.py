"""Digits by place: the figure, and the plain dictionaries that it is made of."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from delcore._panels import GRID_COLOUR, LOOKS, Look, escape_text, look_of
from delcore.intervals import Interval


def plot_place_accuracy(shares: Mapping[str, Mapping[int, Interval]]) -> go.Figure:
    """Share of right digits at each place of the right answers, one line per model with its intervals.

    Args:
        shares: name of a model to the share at each place: 0 for units, −1 for tenths.
    """
    looks = looks_of(list(shares))
    data = [place_line(look, one, i) for i, (look, one) in enumerate(zip(looks, shares.values(), strict=True))]
    return go.Figure(data=data, layout=place_layout(shares))


def place_title(place: int) -> str:
    """How a place of a number is called: "tens", or "10⁻⁴" where it has no common name."""
    names = {2: "hundreds", 1: "tens", 0: "units", -1: "tenths", -2: "hundredths", 3: "thousands", -3: "thousandths"}
    raised = str(place).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return names.get(place, f"10{raised}")


def looks_of(names: Sequence[str]) -> list[Look]:
    """A look for each model: a loss its own, also as "embedded:del"; all others what is left free, in turn."""
    losses = [name.rpartition(":")[2] for name in names]
    free = [look for loss, look in LOOKS.items() if loss not in losses and loss != "base"] or [look_of("")]
    looks, others = [], 0
    for name, loss in zip(names, losses, strict=True):
        look = LOOKS.get(loss) or free[others % len(free)]
        looks.append(look if name in LOOKS else look._replace(title=escape_text(name, longest=60)))
        others += loss not in LOOKS
    return looks


def place_line(look: Look, shares: Mapping[int, Interval], number: int) -> dict[str, Any]:
    """The shares of one model, with its look and intervals; `number` moves it aside from those before it."""
    places = sorted(shares, reverse=True)
    found = [shares[place] for place in places]
    ends = [(one.mean if one.low is None else one.low, one.mean if one.high is None else one.high) for one in found]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [place - 0.06 * number for place in places],  # intervals stand beside one another
        "y": [one.mean for one in found],
        "error_y": {
            "array": [max(high - one.mean, 0.0) for one, (_, high) in zip(found, ends, strict=True)],
            "arrayminus": [max(one.mean - low, 0.0) for one, (low, _) in zip(found, ends, strict=True)],
            "thickness": 1.2,
            "width": 3,
        },
        "customdata": [[place_title(place), one.count] for place, one in zip(places, found, strict=True)],
        "name": look.title,
        "line": {"color": look.colour, "dash": look.dash, "width": 2},
        "marker": {"symbol": look.marker, "size": 9, "color": look.colour},
        "hovertemplate": "%{fullData.name}<br>%{customdata[0]}: %{y:.1%} of %{customdata[1]}<extra></extra>",
    }


def place_layout(shares: Mapping[str, Mapping[int, Interval]]) -> dict[str, Any]:
    """Axes and legend: the highest place on the left, as numbers are written; room for a line per model."""
    places = sorted({place for one in shares.values() for place in one}, reverse=True)
    axis: dict[str, Any] = {"gridcolor": GRID_COLOUR, "zeroline": False}
    x_range = [max(places, default=0) + 0.6, min(places, default=0) - 0.6]
    return {
        "height": 330 + 22 * len(shares),
        "margin": {"l": 60, "r": 8, "t": 12, "b": 72 + 22 * len(shares), "autoexpand": False},
        "legend": {"orientation": "v", "x": 0, "y": -0.27, "yanchor": "top", "xanchor": "left"},
        "showlegend": True,
        "xaxis": {
            "tickvals": places,
            "ticktext": [place_title(place) for place in places],
            "range": x_range,
            "showgrid": False,
            "zeroline": False,
            "title": {"text": "place in the right answer", "standoff": 8},
        },
        "yaxis": axis | {"range": [-0.02, 1.02], "tickformat": ".0%", "title": {"text": "digits right"}},
    }
