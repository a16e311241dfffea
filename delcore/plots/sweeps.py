"""The figure of a sweep: every measure of its table with its difference to MLE beside it, readable on a phone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from delcore._panels import GRID_COLOUR, ZERO_COLOUR, look_of
from delcore.errors import InputError
from delcore.intervals import Interval
from delcore.plots.frames import framed

if TYPE_CHECKING:  # sweeps load torch, which a figure must not wait for
    from delcore.sweep import Row

AXES = {
    "cross_entropy": "cross-entropy,<br>nats per token",
    "digit_entropy_nats": "digit entropy, nats",
    "digit_accuracy": "digit accuracy",
    "digit_mass": "digit mass",
}
"""The measures of a sweep, from top to bottom, and what they are with their units."""

LOSS_PIXELS = 24
AXIS_PIXELS = 76
"""Of a panel: the height of one loss, and that of what stands below its axis."""


def plot_sweep(rows: "Sequence[Row]") -> go.Figure:
    """Means over seeds on held-out samples with 95 % intervals; to their right the paired differences to `mle`.

    Args:
        rows: of `delcore.sweep.sweep`.

    Raises:
        InputError: there are none.
    """
    if not rows:
        raise InputError("`rows` is empty: no run of the sweep has ended yet.")
    losses = list(dict.fromkeys(row.loss for row in rows))
    seeds = max(row.value.count for row in rows)
    caveats = [
        f"95 % t-intervals over seeds, n = {seeds} at most;",
        "none where n = 1. Right: differences, seed by seed.",
    ]
    height = len(AXES) * (LOSS_PIXELS * len(losses) + AXIS_PIXELS)
    figure = framed(50 + height, "Sweep, on held-out samples", caveats, showlegend=False)
    for row, (measure, title) in enumerate(AXES.items()):
        own = [one for one in rows if one.measure == measure]
        _add_panel(figure, 2 * row, {one.loss: one.value for one in own}, losses, title)
        pairs = {one.loss: one.difference for one in own if one.difference is not None}
        _add_panel(figure, 2 * row + 1, pairs, losses, "less that of MLE")
    figure.update_layout(
        margin={"b": 6, "l": 112 if "del_released" in losses else 76}, title={"x": 0.02, "xref": "container"}
    )
    return figure


def _add_panel(figure: go.Figure, number: int, found: dict[str, Interval], losses: Sequence[str], title: str) -> None:
    """One panel: losses from top to bottom, the measure from left to right. Odd numbers lie right of even ones."""
    axis = "" if number == 0 else str(number + 1)
    for loss, one in found.items():
        look = look_of(loss)
        low, high = (one.mean if end is None else end for end in (one.low, one.high))
        figure.add_scatter(
            x=[one.mean],
            y=[look.title],
            xaxis=f"x{axis}",
            yaxis=f"y{axis}",
            mode="markers",
            marker={"symbol": look.marker, "size": 9, "color": look.colour},
            error_x={"array": [high - one.mean], "arrayminus": [one.mean - low], "color": look.colour},
            hovertemplate=f"{look.title}: %{{x:.4f}}, n = {one.count}<extra></extra>",
        )
    figure.update_layout(_panel_axes(number, axis, losses, title))


def _panel_axes(number: int, axis: str, losses: Sequence[str], title: str) -> dict[str, Any]:
    row, is_difference = divmod(number, 2)
    top, share = 1 - row / len(AXES), LOSS_PIXELS * len(losses) / (LOSS_PIXELS * len(losses) + AXIS_PIXELS)
    order = [look_of(loss).title for loss in reversed(losses)]
    return {
        f"xaxis{axis}": {
            "domain": [0.54, 1.0] if is_difference else [0.0, 0.46],
            "anchor": f"y{axis}",
            "title": {"text": title, "font": {"size": 12}},
            "gridcolor": GRID_COLOUR,
            "zeroline": bool(is_difference),
            "zerolinecolor": ZERO_COLOUR,
            "rangemode": "tozero" if is_difference else "normal",
            "nticks": 4,
            "tickangle": 0,
        },
        f"yaxis{axis}": {
            "domain": [top - share / len(AXES), top],
            "anchor": f"x{axis}",
            "gridcolor": GRID_COLOUR,
            "categoryorder": "array",
            "categoryarray": order,
            "range": [-0.5, len(losses) - 0.5],
            "showticklabels": not is_difference,
        },
    }
