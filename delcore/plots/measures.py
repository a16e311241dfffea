"""Figures of measures over digits: lines with intervals, gaps to a reference, calibration, confusion."""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import plotly.graph_objects as go

from delcore._panels import ZERO_COLOUR, escape_text, look_of
from delcore.analysis import Calibration, Measured
from delcore.errors import InputError
from delcore.intervals import Interval
from delcore.plots.frames import (
    SEQUENTIAL,
    category,
    counted,
    error_bars,
    framed,
    plain_title,
    points,
    zero_line,
)

Result = TypeVar("Result")


def plot_measured(results: Mapping[str, Measured], *, reference: float | None = None) -> go.Figure:
    """One measure along one axis, a line per model, with 95 % intervals.

    Args:
        results: name of the model to its result; all of the same measure.
        reference: a level to compare with, such as ln 10.

    Raises:
        InputError: no results, results of several measures, or of more than one axis.
    """
    first = _check_alike(results)
    (axis,) = first.axes
    counts = np.concatenate([result.counts for result in results.values()])
    figure = framed(380, first.name, first.caveats)
    for name, result in results.items():
        labels = [category(value) for value in result.axes[0].values]
        trace = points(name, labels, result.values, result.low, result.high)
        trace["customdata"] = result.counts.tolist()
        trace["hovertemplate"] = "%{fullData.name}<br>%{x}: %{y:.4f}, n = %{customdata}<extra></extra>"
        figure.add_trace(trace)
    figure.update_xaxes(title_text=f"{axis.title}; {counted(counts)} a value", type="category")
    figure.update_yaxes(title_text=escape_text(first.title, 120))
    if reference is not None:
        figure.add_hline(y=reference, line_color=ZERO_COLOUR, line_dash="dot")
    if first.is_difference:
        zero_line(figure)
    return figure


def _first_of(results: Mapping[str, Result]) -> Result:
    if not results:
        raise InputError("`results` must name at least one model.")
    return next(iter(results.values()))


def _check_alike(results: Mapping[str, Measured]) -> Measured:
    first = _first_of(results)
    for name, result in results.items():
        if _what(result) != _what(first) or len(result.axes) != 1:
            raise InputError(f"`results` must all be {first.name} along one axis; `{name}` is {result.name}.")
    return first


def _what(result: Measured) -> tuple[str, bool]:
    """What was measured, whatever model a difference is to."""
    return result.name.partition(" less ")[0] if result.is_difference else result.name, result.is_difference


def plot_intervals(
    intervals: Mapping[str, Interval], *, title: str, x_title: str, what: str = "seeds", caveats: tuple[str, ...] = ()
) -> go.Figure:
    """One dot per model with its 95 % interval, and a line at 0; left is over-sharp where it is an entropy gap.

    Args:
        intervals: name of the model to its estimate.
        title: of the figure.
        x_title: what it is, with its unit.
        what: the observations that `count` counts.
        caveats: told beneath the title.
    """
    figure = framed(120 + 30 * len(intervals), title, caveats, showlegend=False)
    for name, one in intervals.items():
        trace = points(name, [one.mean], [0.0], line=False)
        look = look_of(name)
        known = one.low is not None and one.high is not None
        trace["y"] = [look.title]
        if known:
            trace["error_x"] = error_bars(np.array([one.mean]), [one.low], [one.high], look.colour)
        trace["hovertemplate"] = f"%{{y}}: %{{x:.4f}}, n = {one.count:,}<extra></extra>"
        figure.add_trace(trace)
    zero_line(figure, vertical=True)
    figure.update_xaxes(title_text=f"{x_title}; {counted([one.count for one in intervals.values()])} {what}")
    titles = [look_of(name).title for name in intervals]
    figure.update_yaxes(title_text="", categoryorder="array", categoryarray=titles[::-1])
    return figure


def plot_calibration(results: Mapping[str, Calibration]) -> go.Figure:
    """Accuracy against confidence in bins, a line per model; on the diagonal a model is calibrated.

    Raises:
        InputError: no results.
    """
    first = _first_of(results)
    notes = [
        f"{plain_title(name)}: ECE {one.ece:.3f} (by chance {one.ece_by_chance:.3f}), Brier {one.brier.mean:.3f}"
        for name, one in results.items()
    ]
    figure = framed(460, "Reliability of the most probable digit", ("; ".join(notes), *first.caveats))
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", name="calibrated", line={"color": ZERO_COLOUR, "dash": "dot"})
    for name, one in results.items():
        filled = one.counts > 0
        trace = points(name, one.confidence[filled].tolist(), one.accuracy[filled].tolist())
        trace["customdata"] = one.counts[filled].tolist()
        trace["hovertemplate"] = "%{fullData.name}<br>confidence %{x:.3f}, accuracy %{y:.3f}, n = %{customdata}"
        figure.add_trace(trace)
    total = counted([int(one.counts.sum()) for one in results.values()])
    figure.update_xaxes(title_text=f"confidence (probability of the top digit); {total} digits", range=[-0.02, 1.02])
    figure.update_yaxes(title_text="accuracy (share right)", range=[-0.02, 1.02])
    return figure


def plot_confusion(result: Measured) -> go.Figure:
    """The 10×10 confusion as a heat map with its numbers; an empty row had no digit.

    Raises:
        InputError: a result with other than two axes.
    """
    if len(result.axes) != 2:
        raise InputError(f"`result` must have two axes; `{result.name}` has {len(result.axes)}.")
    rows, columns = result.axes
    shown = [["" if np.isnan(value) else f"{value:.2f}" for value in row] for row in result.values]
    figure = framed(460, f"{result.name}, {result.provenance.model}", result.caveats)
    figure.add_heatmap(
        z=result.values.tolist(),
        x=list(columns.values),
        y=list(rows.values),
        text=shown,
        texttemplate="%{text}",
        customdata=result.counts.tolist(),
        hovertemplate="true %{y}, predicted %{x}: %{z:.4f}, n = %{customdata}<extra></extra>",
        colorscale=SEQUENTIAL,
        zmin=0,
        zmax=1,
        colorbar={"title": {"text": result.title}},
    )
    figure.update_xaxes(title_text=columns.title, dtick=1, showgrid=False)
    figure.update_yaxes(title_text=f"{rows.title}; {counted(result.counts)} a row", dtick=1, autorange="reversed")
    return figure
