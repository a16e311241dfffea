"""Figures of ten digit probabilities, of gradients, and of a run's log."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import plotly.graph_objects as go

from delcore._panels import (
    GHOST_COLOUR,
    Grid,
    add_entropies,
    bars,
    heading,
    level_lines,
    look_of,
    marked_line,
    round_up,
)
from delcore.analysis import entropy_nats
from delcore.plots.looks import TITLES, title_of

FULL = 1.05
"""Top of a probability axis that reaches 1."""

_MARKERS = ("x", "hexagon", "bowtie", "pentagon")
"""Second cue of models that are no loss of ours, in turn."""


def plot_small_multiples(
    distributions: Mapping[str, Sequence[float]],
    *,
    ghost: Sequence[float] | None = None,
    ghost_name: str = "base",
    truth: Sequence[float] | None = None,
    notes: Mapping[str, str] | None = None,
    columns: int = 4,
) -> go.Figure:
    """One panel per model with its ten digit probabilities, all on the same axes.

    Where a cell of the grid is left over it shows the entropies on one line, so that sharper and flatter are seen.

    Args:
        distributions: name to p̂ of the digits 0 … 9.
        ghost: probabilities drawn in grey behind every panel.
        ghost_name: whose they are.
        truth: the known law, drawn as a level line over each digit.
        notes: a second title line per panel, such as its entropy.
        columns: panels side by side.
    """
    grid = _grid(distributions, columns, legend_height=34)
    data = []
    for i, (name, values) in enumerate(distributions.items()):
        if ghost is not None:
            behind = bars(
                values=ghost, panel=i, colour=GHOST_COLOUR, name=_ghost_title(ghost_name), width=0.92, legend=i == 0
            )
            data.append(behind)
        data.append(bars(values=values, panel=i, colour=look_of(name).colour, name=title_of(name), width=0.56))
        data += [level_lines(truth, panel=i, legend=i == 0)] if truth is not None else []
    layout = grid.layout(_headings(distributions, notes), (0.0, _top(distributions, ghost, truth)), "probability")
    _summarise(data, layout, grid, distributions, ghost, truth, ghost_name)
    return panel_figure(data, layout)


def plot_overlay(distributions: Mapping[str, Sequence[float]], *, truth: Sequence[float] | None = None) -> go.Figure:
    """The digit probabilities of all models in one panel; each has its colour, dash and marker."""
    data = [marked_line(name, values) for name, values in distributions.items()]
    others = [trace for trace, name in zip(data, distributions, strict=True) if name not in TITLES]
    for trace, marker in zip(others, cycle(_MARKERS), strict=False):
        trace["marker"]["symbol"] = marker
    data += [level_lines(truth, panel=0, legend=True)] if truth is not None else []
    layout = Grid(1, 1, panel_height=380).layout([""], (0.0, _top(distributions, None, truth)), "probability")
    layout["margin"] |= {"t": 12, "autoexpand": True}
    layout["legend"] = {"orientation": "h", "x": 0, "y": -0.16, "yanchor": "top", "xanchor": "left"}
    return panel_figure(data, layout)


def plot_differences(
    distributions: Mapping[str, Sequence[float]],
    base: Sequence[float],
    *,
    base_name: str = "base",
    truth: Sequence[float] | None = None,
    notes: Mapping[str, str] | None = None,
    columns: int = 4,
) -> go.Figure:
    """p̂ less that of a reference model, in probability, as small multiples on the same axes around 0.

    Args:
        distributions: name to p̂ of the digits 0 … 9.
        base: probabilities that are taken off.
        base_name: whose they are.
        truth: the known law, for the entropies in a cell left over.
        notes: a second title line per panel.
        columns: panels side by side.
    """
    changes = {
        name: [value - reference for value, reference in zip(values, base, strict=True)]
        for name, values in distributions.items()
    }
    grid = _grid(distributions, columns, legend_height=4)
    data, layout = _signed_panels(changes, notes, grid, f"probability − {title_of(base_name)}", hatched=None)
    _summarise(data, layout, grid, distributions, base, truth, base_name)
    return panel_figure(data, layout)


def plot_gradients(
    gradients: Mapping[str, Sequence[float]],
    *,
    true_digit: int | None = None,
    notes: Mapping[str, str] | None = None,
    columns: int = 4,
) -> go.Figure:
    """∂L/∂a of the ten digit logits under each loss; training pushes a logit up where its bar points down.

    Args:
        gradients: loss to ten derivatives, in nats per unit of logit.
        true_digit: whose bar is hatched; None where there is no single one.
        notes: a second title line per panel.
        columns: panels side by side.
    """
    grid = Grid(len(gradients), columns, legend_height=4)
    data, layout = _signed_panels(gradients, notes, grid, "∂L/∂a (nats per logit)", hatched=true_digit)
    return panel_figure(data, layout)


def plot_metrics(logs: Mapping[str, Sequence[Mapping[str, float]]], field: str, y_title: str) -> go.Figure:
    """One logged measure along the steps of several runs.

    Args:
        logs: name (of a loss, for its colour) to the lines of its `metrics.jsonl`.
        field: key of the lines.
        y_title: what it is, with its unit.
    """
    figure = go.Figure(layout={"height": 320, "template": "plotly_white", "xaxis_title": "optimiser step"})
    figure.update_layout(yaxis_title=y_title, margin={"t": 16, "b": 48, "l": 64, "r": 16})
    for name, lines in logs.items():
        look = look_of(name)
        figure.add_scatter(
            x=[line["step"] for line in lines],
            y=[line[field] for line in lines],
            name=look.title,
            mode="lines+markers",
            line={"color": look.colour, "dash": look.dash},
            marker={"symbol": look.marker},
        )
    return figure


# ---------------------------------------------------------------- parts


def _ghost_title(name: str) -> str:
    return "base model" if name == "base" else title_of(name)


def _grid(distributions: Mapping[str, Sequence[float]], columns: int, legend_height: int) -> Grid:
    """Panels for all, with the last row filled if it has a free cell for the entropies."""
    count = len(distributions)
    return Grid(count + (count % columns > 0), columns, legend_height=legend_height)


def _headings(names: Mapping[str, Any], notes: Mapping[str, str] | None) -> list[str]:
    return [heading(name, (notes or {}).get(name)) for name in names]


def _top(distributions: Mapping[str, Sequence[float]], *others: Sequence[float] | None) -> float:
    rows = [*distributions.values(), *(row for row in others if row is not None)]
    return min(round_up(max(max(row) for row in rows) * 1.03), FULL)


def _summarise(
    data: list[dict[str, Any]],
    layout: dict[str, Any],
    grid: Grid,
    distributions: Mapping[str, Sequence[float]],
    base: Sequence[float] | None,
    truth: Sequence[float] | None,
    base_name: str = "base",
) -> None:
    if grid.count == len(distributions):
        return
    everyone = ({base_name: base} if base is not None else {}) | dict(distributions)
    entropies = {name: entropy_nats(values) for name, values in everyone.items()}
    reference = ("true law", entropy_nats(truth)) if truth is not None else None
    if reference is None and base is not None:
        reference = ("base" if base_name == "base" else title_of(base_name), entropy_nats(base))
    add_entropies(data, layout, grid, len(distributions), entropies, reference)


def _signed_panels(
    values: Mapping[str, Sequence[float]],
    notes: Mapping[str, str] | None,
    grid: Grid,
    y_title: str,
    hatched: int | None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    reach = round_up(max(abs(value) for row in values.values() for value in row) * 1.05)
    data = [
        bars(values=row, panel=i, colour=look_of(name).colour, name=title_of(name), width=0.7, hatched=hatched)
        for i, (name, row) in enumerate(values.items())
    ]
    return data, grid.layout(_headings(values, notes), (-reach, reach), y_title)


def panel_figure(data: list[dict[str, Any]], layout: dict[str, Any], frames: Sequence[Any] = ()) -> go.Figure:
    """Plain traces and a layout as a figure without background or dragging.

    Plotly's check of every property takes longer than all else that a page does for a moved slider, so the figure is
    made without it; the tests put every figure through it.
    """
    common = {
        "barmode": "overlay",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "dragmode": False,
    }
    return go.Figure({"data": data, "layout": common | layout, "frames": list(frames)}, _validate=False)
