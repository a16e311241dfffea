"""What figures of results share: titles with caveats beneath, axes with units, points with intervals."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from delcore._panels import GRID_COLOUR, LOOKS, ZERO_COLOUR, escape_text, look_of

SEQUENTIAL = "Cividis"
LONGEST = 400
WRAP = 110
UNTITLED_TOP = 12
"""Pixels above the panel of a figure without a title."""


def framed(height: int, title: str, caveats: Sequence[str] = (), **layout: Any) -> go.Figure:
    """An empty figure whose title is plain text and whose caveats are its subtitle; backgrounds are transparent."""
    lines = [line for caveat in caveats for line in textwrap.wrap(caveat, WRAP)]
    subtitle = "<br>".join(escape_text(line, LONGEST) for line in lines)
    common = {
        "height": height + 17 * len(lines),
        "title": {
            "text": escape_text(title, 120),
            "subtitle": {"text": subtitle, "font": {"size": 12}},
            "font": {"size": 15},
            "x": 0,
            "xref": "paper",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 8},
        },
        "margin": {"l": 70, "r": 16, "t": 44 + 17 * len(lines), "b": 56},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "x": 0, "y": -0.22, "yanchor": "top", "xanchor": "left"},
    }
    figure = go.Figure(layout=common | layout)
    figure.update_xaxes(gridcolor=GRID_COLOUR, zeroline=False)
    figure.update_yaxes(gridcolor=GRID_COLOUR, zeroline=False)
    return figure


def untitled(figure: go.Figure, height: int | None = None) -> go.Figure:
    """The figure without title and caveats, for a page that tells them as text of its own, which wraps when narrow.

    Args:
        figure: any that `framed` began; changed in place.
        height: in pixels; None for what it had less the title's.
    """
    top = UNTITLED_TOP + (24 if figure.layout.annotations else 0)  # the titles of panels are annotations
    figure.update_layout(height=height or figure.layout.height - figure.layout.margin.t + top)
    return figure.update_layout(title=None, margin_t=top)


def points(
    name: str, x: Sequence[Any], y: Any, low: Any = None, high: Any = None, *, line: bool = True
) -> dict[str, Any]:
    """A trace in a model's colour, dash and marker, with intervals where there are any."""
    look = look_of(name)
    values = np.asarray(y, dtype=float)
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers" if line else "markers",
        "x": list(x),
        "y": values.tolist(),
        "name": look.title,
        "line": {"color": look.colour, "dash": look.dash, "width": 2},
        "marker": {"symbol": look.marker, "size": 9, "color": look.colour},
    }
    if low is not None and high is not None:
        trace["error_y"] = error_bars(values, low, high, look.colour)
    return trace


def error_bars(values: Any, low: Any, high: Any, colour: str) -> dict[str, Any]:
    """Ends of intervals as Plotly wants them: distances from the value; none where an end is not known."""
    up, down = np.asarray(high, float) - values, np.asarray(values, float) - np.asarray(low, float)
    ends = {"array": np.nan_to_num(up).tolist(), "arrayminus": np.nan_to_num(down).tolist()}
    return {"type": "data", "symmetric": False, "color": colour, "thickness": 1.2, "width": 3, **ends}


def plain_title(name: str) -> str:
    """A model's title for a text that `framed` escapes."""
    return LOOKS[name].title if name in LOOKS else name


def zero_line(figure: go.Figure, *, vertical: bool = False) -> None:
    """Where a difference vanishes."""
    at = {"line_color": ZERO_COLOUR, "line_width": 1, "line_dash": "dot"}
    if vertical:
        figure.add_vline(x=0, **at)
    else:
        figure.add_hline(y=0, **at)


def category(value: Any) -> str:
    """A value of an axis as text that is never markup; whole numbers keep their sign readable."""
    return escape_text(str(value).replace("-", "−") if isinstance(value, int | float) else str(value))


def counted(counts: Any) -> str:
    """How many observations are behind a figure: "n = 12", or "n = 3 … 40"."""
    found = np.asarray(counts)
    found = found[found > 0]
    if not found.size:
        return "n = 0"
    low, high = int(found.min()), int(found.max())
    return f"n = {low:,}" if low == high else f"n = {low:,} … {high:,}"
