"""Figures of training: every logged term along the steps of several runs."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from delcore._panels import GRID_COLOUR, Grid, Look, axes, escape_text, look_of, suffix
from delcore.errors import InputError

if TYPE_CHECKING:
    from delcore.run_logs import RunLog

TERMS: Mapping[str, str] = {
    "loss": "loss (nats)",
    "cross_entropy": "cross-entropy (nats per token)",
    "digit_term": "digit term, α in it",
    "digit_mass": "digit mass (share)",
    "digit_entropy_nats": "digit entropy (nats)",
    "digit_accuracy": "digit accuracy (share)",
    "tokens": "tokens learned per step",
    "digits": "digits learned per step",
    "grad_norm": "norm of the gradient",
    "learning_rate": "learning rate",
    "tokens_per_second": "tokens per second",
}
"""What a log holds, with its unit; other keys are shown by their names."""


def plot_logs(logs: "Sequence[RunLog]", terms: Sequence[str], *, columns: int = 3) -> go.Figure:
    """A panel per term, a line per run; runs of one loss look alike and share an entry of the legend.

    Args:
        logs: of the runs; a value that is missing, NaN or infinite leaves a gap.
        terms: keys of their lines.
        columns: panels side by side.

    Raises:
        InputError: no runs or no terms.
    """
    if not logs or not terms:
        raise InputError("A log without a line has nothing to show yet.")
    looks = [look_of(log.loss) for log in logs]
    entries = len({look.title for look in looks})
    grid = Grid(len(terms), columns, 170, legend_height=20 * math.ceil(entries / (2 * columns)), between=0.07)
    inner, above = grid.heights()
    figure = go.Figure(layout={"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)"})
    figure.update_layout(height=inner + above + 60, margin={"l": 52, "r": 8, "t": above, "b": 60})
    figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1 + (above - 4) / inner, "yanchor": "top"})
    for number, term in enumerate(terms):
        _add_panel(figure, grid, number, TERMS.get(term, term))
        _add_lines(figure, number, term, logs, looks)
    return figure


def _add_lines(figure: go.Figure, number: int, term: str, logs: "Sequence[RunLog]", looks: Sequence[Look]) -> None:
    told: set[str] = set()
    for log, look in zip(logs, looks, strict=True):
        few = len(log.lines) <= 12
        figure.add_scatter(
            x=[line["step"] for line in log.lines],
            y=[_finite(line.get(term)) for line in log.lines],
            **axes(number),
            mode="lines+markers" if few else "lines",
            name=look.title,
            legendgroup=look.title,
            showlegend=number == 0 and look.title not in told,
            line={"color": look.colour, "dash": look.dash, "width": 1.6},
            marker={"symbol": look.marker, "size": 6},
            hovertemplate=f"{escape_text(log.name)}<br>step %{{x}}: %{{y:.5g}}<extra></extra>",
        )
        told.add(look.title)


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _add_panel(figure: go.Figure, grid: Grid, number: int, title: str) -> None:
    x_domain, y_domain = grid.domains(number)
    axis = {"gridcolor": GRID_COLOUR, "zeroline": False}
    below = number + grid.columns >= grid.count
    x_axis = axis | {"domain": x_domain, "anchor": f"y{suffix(number)}", "title": "optimiser step" if below else ""}
    y_axis = axis | {"domain": y_domain, "anchor": f"x{suffix(number)}", "nticks": 5, "exponentformat": "power"}
    figure.update_layout({f"xaxis{suffix(number)}": x_axis, f"yaxis{suffix(number)}": y_axis})
    figure.add_annotation(grid.title(number, escape_text(title)))
