"""Figures that need no model: equilibria over a grid, pulls, place weights at the point, criterion × distance."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from delcore._panels import escape_text, look_of
from delcore.analysis import CriterionFits, EquilibriumScan, Measured, PlaceWeights
from delcore.errors import InputError
from delcore.plots.frames import SEQUENTIAL, category, framed, points, zero_line

if TYPE_CHECKING:  # it loads torch, which a figure must not wait for
    from delcore.analysis import NumberReading

AXES = ("laws", "alphas", "us")
_RULE_LOOKS = {
    "decimal": ("#7614ff", "solid", "star"),
    "integer": ("#e68a00", "dash", "square"),
    "none": ("#808080", "dot", "circle"),
    "released": ("#3f7f4f", "longdash", "diamond-open"),
}
RESIDUAL_CAVEATS = (
    "Share of the training gradient beside cross-entropy's that no distance explains; 0: the loss is that criterion "
    "times a distance. Random predictions, digit mass 1.",
)


def plot_equilibria(
    scan: EquilibriumScan, along: str = "alphas", *, law: int = 0, alpha: int = 0, u: int = 0
) -> go.Figure:
    """Entropy gap at the equilibrium along one axis of a scan, a line per loss.

    Args:
        scan: the result.
        along: "laws", "alphas" or "us".
        law: index on that axis, where it is not the one shown.
        alpha: likewise.
        u: likewise.

    Raises:
        InputError: an unknown axis.
    """
    if along not in AXES:
        raise InputError(f"`along` must be one of {', '.join(AXES)}; got {along!r}.")
    gap = scan.gap
    axis = gap.axes[1 + AXES.index(along)]
    numeric = along != "laws" and None not in axis.values
    where: list[int | slice] = [law, alpha, u]
    where[AXES.index(along)] = slice(None)
    held = [
        f"{one.name} {'default' if one.values[i] is None else one.values[i]}"
        for one, i in zip(gap.axes[1:], where, strict=True)
        if isinstance(i, int)
    ]
    figure = framed(400, "Where each loss would lead: " + ", ".join(held), scan.caveats)
    for i, name in enumerate(scan.losses):
        x = axis.values if numeric else [category("default" if v is None else v) for v in axis.values]
        trace = points(name, x, gap.values[(i, *where)])
        reached = scan.attained[(i, *where)]
        symbol = look_of(name).marker.removesuffix("-open")
        trace["marker"]["symbol"] = [symbol if ok else f"{symbol}-open" for ok in reached]
        trace["hovertemplate"] = "%{fullData.name}<br>%{x}: %{y:+.4f} nats<extra></extra>"
        figure.add_trace(trace)
    zero_line(figure)
    figure.update_xaxes(title_text=axis.title, type="log" if along == "alphas" and numeric else None)
    if numeric:
        figure.update_xaxes(tickvals=list(axis.values), ticktext=[f"{value:g}" for value in axis.values])
    figure.update_yaxes(title_text=gap.title)
    return figure


def plot_pull(result: Measured) -> go.Figure:
    """How hard each loss pulls the true digit up, along the probability that it already has, a line per loss.

    Args:
        result: as `delcore.analysis.scan_pull` returns it.
    """
    losses, probabilities = result.axes
    figure = framed(360, "Which examples does a loss learn from?", result.caveats)
    for name, values in zip(losses.values, result.values, strict=True):
        trace = points(name, probabilities.values, values)
        trace["hovertemplate"] = "%{fullData.name}<br>probability %{x}: %{y:.3f}<extra></extra>"
        figure.add_trace(trace)
    figure.update_xaxes(title_text=f"{probabilities.title} (logarithmic)", type="log")
    figure.update_xaxes(tickvals=list(probabilities.values), ticktext=[f"{p:g}" for p in probabilities.values])
    figure.update_yaxes(title_text=result.title, rangemode="tozero")
    return figure


def plot_held_levels(scan: Measured, loss: str, stands: Mapping[str, tuple[float, float]] | None = None) -> go.Figure:
    """Where a loss rests at each level of the digit logits, a line; and where trained models stand, a mark each.

    Args:
        scan: as `delcore.analysis.scan_held_levels` returns it.
        loss: its key.
        stands: name of a model to its level and its entropy less the law's.
    """
    (axis,) = scan.axes
    figure = framed(380, "Digit entropy along the height of the logits", scan.caveats)
    line = points(loss, axis.values, scan.values)
    line |= {"mode": "lines", "name": f"{look_of(loss).title}: rest at this level"}
    figure.add_trace(line | {"hovertemplate": "level %{x:.2f}: %{y:+.4f} nats<extra></extra>"})
    for name, (level, gap) in (stands or {}).items():
        trace = points(name, [level], [gap], line=False)
        trace["marker"] |= {"size": 13}
        trace |= {
            "name": f"{look_of(name).title}: trained model",
            "hovertemplate": "%{x:.2f}: %{y:+.4f}<extra></extra>",
        }
        figure.add_trace(trace)
    zero_line(figure)
    figure.update_xaxes(title_text=axis.title)
    figure.update_yaxes(title_text="entropy less the law's (nats)")
    return figure


def plot_place_weights(result: PlaceWeights) -> go.Figure:
    """The weight of each digit of one number under every rule, with the jump at the point beneath the title."""
    jumps = [
        f"{rule} {jump:+.3g} (×{ratio:.3g})"
        for rule, jump, ratio in zip(result.rules, result.jumps, result.ratios, strict=True)
        if not np.isnan(jump)
    ]
    caveats = ("Jump from units to tenths: " + ", ".join(jumps),) if jumps else ()
    figure = framed(380, f"Place weights of {result.text}", caveats)
    for rule, values in zip(result.rules, result.values, strict=True):
        _add_weights(figure, rule, list(range(len(result.text))), values.tolist(), width=2, size=9)
    ticks = {"tickvals": list(range(len(result.text))), "ticktext": list(result.text)}
    figure.update_xaxes(title_text="digit, in writing order", **ticks)
    return figure


def _add_weights(
    figure: go.Figure, rule: str, x: list[int], y: Sequence[float | None], *, width: float, size: int
) -> None:
    """The weights that one rule gives to digits, with gaps where there are none."""
    colour, dash, marker = _RULE_LOOKS.get(rule, ("#2f8f83", "longdashdot", "x"))
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines+markers",
        name=escape_text(rule),
        connectgaps=False,
        line={"color": colour, "dash": dash, "width": width},
        marker={"symbol": marker, "size": size, "color": colour},
        hovertemplate="%{fullData.name}: %{y:.4f}<extra></extra>",
    )
    figure.update_yaxes(title_text="place weight u (no unit)", rangemode="tozero")


def plot_number_weights(reading: "NumberReading") -> go.Figure:
    """The weight of every digit of a text under each rule; tokens that are no digit leave a gap."""
    rules = list(next((token.weights for token in reading.tokens if token.digit is not None), {}))
    figure = framed(300, "", showlegend=True)
    for rule in rules:
        weights = [token.weights.get(rule) for token in reading.tokens]
        _add_weights(figure, rule, [token.index for token in reading.tokens], weights, width=1.5, size=8)
    ticks = [escape_text(token.text, 8) for token in reading.tokens]
    figure.update_xaxes(title_text=f"token, in reading order; n = {reading.covered} digits", tickangle=0)
    figure.update_xaxes(tickvals=list(range(len(ticks))), ticktext=ticks, showgrid=False)
    figure.update_layout(margin_t=8)
    return figure


def plot_criteria(fits: CriterionFits, *, free: bool = False) -> go.Figure:
    """What is left of each loss's gradient after the best distance for each criterion, as a heat map.

    Args:
        fits: the result.
        free: let cross-entropy have any weight.
    """
    values = fits.free_residual if free else fits.residual
    caveats = (*RESIDUAL_CAVEATS, "Cross-entropy may have any weight here.") if free else RESIDUAL_CAVEATS
    figure = framed(170 + 44 * len(fits.losses), "Criterion × distance", caveats)
    figure.add_heatmap(
        z=values.tolist(),
        x=[escape_text(name) for name in fits.criteria],
        y=[look_of(name).title for name in fits.losses],
        text=[[f"{value:.1%}" for value in row] for row in values],
        texttemplate="%{text}",
        hovertemplate="%{y}, criterion %{x}: %{z:.4f}<extra></extra>",
        colorscale=SEQUENTIAL,
        zmin=0,
        zmax=1,
        colorbar={"title": {"text": "left over (share)"}},
    )
    figure.update_xaxes(title_text="criterion of one digit", showgrid=False)
    figure.update_yaxes(title_text="loss", autorange="reversed", showgrid=False)
    return figure
