"""The figure of a sweep: every measure of its table, a panel each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from delcore._panels import GRID_COLOUR, ZERO_COLOUR, Grid, axes, look_of, suffix
from delcore.errors import InputError
from delcore.intervals import Interval
from delcore.plots.frames import framed

if TYPE_CHECKING:  # sweeps load torch, which a figure must not wait for
    from delcore.sweep import Row

AXES = {
    "cross_entropy": "cross-entropy, nats per token",
    "digit_entropy_nats": "digit entropy, nats",
    "digit_accuracy": "digit accuracy",
    "digit_mass": "digit mass",
}
"""The measures of a sweep, from left to right, and what they are with their units."""


def plot_sweep(rows: "Sequence[Row]", *, columns: int = 4) -> go.Figure:
    """Means over seeds on held-out samples with 95 % intervals; beneath them the paired differences to `mle`.

    Args:
        rows: of `delcore.sweep.sweep`.
        columns: measures side by side.

    Raises:
        InputError: there are none.
    """
    if not rows:
        raise InputError("`rows` is empty: no run of the sweep has ended yet.")
    losses = list(dict.fromkeys(row.loss for row in rows))
    seeds = max(row.value.count for row in rows)
    caveat = f"95 % t-intervals over seeds, n = {seeds} at most; none where n = 1. Below: differences, seed by seed."
    figure = framed(400, "Sweep, on held-out samples", [caveat], showlegend=False)
    grid = Grid(2 * len(AXES), columns, 26 * len(losses) + 40, between=0.14 / columns)
    for number, (measure, title) in enumerate(AXES.items()):
        own = [row for row in rows if row.measure == measure]
        above = number // columns * 2 * columns + number % columns
        _add_panel(figure, grid, above, {row.loss: row.value for row in own}, losses, title)
        pairs = {row.loss: row.difference for row in own if row.difference is not None}
        _add_panel(figure, grid, above + columns, pairs, losses, "less that of MLE", is_difference=True)
    top = figure.layout.margin.t
    figure.update_layout(margin={"b": 60, "l": 120}, height=grid.heights()[0] + top + 60)
    return figure


def _add_panel(
    figure: go.Figure,
    grid: Grid,
    number: int,
    found: dict[str, Interval],
    losses: Sequence[str],
    title: str,
    *,
    is_difference: bool = False,
) -> None:
    """One panel: losses from top to bottom, the measure from left to right."""
    for loss, one in found.items():
        look = look_of(loss)
        low, high = (one.mean if end is None else end for end in (one.low, one.high))
        figure.add_scatter(
            x=[one.mean],
            y=[look.title],
            **axes(number),
            mode="markers",
            marker={"symbol": look.marker, "size": 9, "color": look.colour},
            error_x={"array": [high - one.mean], "arrayminus": [one.mean - low], "color": look.colour},
            hovertemplate=f"{look.title}: %{{x:.4f}}, n = {one.count}<extra></extra>",
        )
    x_domain, y_domain = grid.domains(number)
    order = [look_of(loss).title for loss in reversed(losses)]
    figure.update_layout(
        {
            f"xaxis{suffix(number)}": {
                "domain": x_domain,
                "anchor": f"y{suffix(number)}",
                "title": {"text": title, "font": {"size": 12}},
                "gridcolor": GRID_COLOUR,
                "zeroline": is_difference,
                "zerolinecolor": ZERO_COLOUR,
                "rangemode": "tozero" if is_difference else "normal",
                "nticks": 4,
            },
            f"yaxis{suffix(number)}": {
                "domain": y_domain,
                "anchor": f"x{suffix(number)}",
                "gridcolor": GRID_COLOUR,
                "categoryorder": "array",
                "categoryarray": order,
                "range": [-0.5, len(losses) - 0.5],
                "showticklabels": number % grid.columns == 0,
            },
        }
    )
