"""Figures of the ten digit embeddings: similarity, principal components, t-SNE, and the statistic along the layers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from delcore._panels import GRID_COLOUR, escape_text
from delcore.analysis import DigitEmbeddings, DigitSimilarity, PcaMap, TsneMap
from delcore.errors import InputError
from delcore.plots.frames import SEQUENTIAL, framed

DIGITS = list(range(10))
_SYMBOLS = {"number": ("#1f66d1", "solid", "circle"), "symbol": ("#e68a00", "dash", "square")}


def plot_similarity(result: DigitSimilarity, *, scale: bool = True) -> go.Figure:
    """The 10×10 similarity as a heat map, with the rank correlation beneath the title.

    Args:
        result: of ten vectors.
        scale: draw the colour scale; each cell has its number all the same.
    """
    note = (
        f"Rank correlation with −|i − j|: {result.spearman:.2f}, one-sided p = {result.p_value:.2g} "
        f"({result.permutations:,} relabellings); nearest digit differs by 1 for {result.neighbour_share:.0%} of ten."
    )
    figure = framed(460, _title(result.embeddings), (note,))
    off_diagonal = result.matrix[~np.eye(10, dtype=bool)]
    decimals = 3 if result.metric == "cosine" and off_diagonal.min() > 0.9 else 2
    unit = "cosine similarity" if result.metric == "cosine" else f"− distance ({result.embeddings.unit})"
    figure.add_heatmap(
        z=result.matrix.tolist(),
        x=DIGITS,
        y=DIGITS,
        text=[[f"{value:.{decimals}f}" for value in row] for row in result.matrix],
        texttemplate="%{text}",
        hovertemplate="%{y} and %{x}: %{z:.4f}<extra></extra>",
        colorscale=SEQUENTIAL,
        zmin=float(off_diagonal.min()),
        zmax=float(off_diagonal.max()),
        colorbar={"title": {"text": unit}},
        showscale=scale,
    )
    figure.update_xaxes(title_text="digit; n = 45 pairs", dtick=1, showgrid=False)
    figure.update_yaxes(title_text="digit", dtick=1, autorange="reversed", showgrid=False)
    return figure


def plot_pca(result: PcaMap) -> go.Figure:
    """The ten digits on two principal components; colour runs from 0 to 9 and each point names its digit."""
    figure = framed(420, _title(result.embeddings), ("Two of many dimensions: see the shares on the axes.",))
    figure.add_trace(_digit_points(result.coordinates))
    first, second = result.explained
    figure.update_layout(showlegend=False)
    figure.update_xaxes(title_text=f"component 1 ({first:.0%} of variance)<br>{result.embeddings.unit}; n = 10 digits")
    figure.update_yaxes(title_text=f"component 2 ({second:.0%})")
    return figure


def plot_tsne(result: TsneMap) -> go.Figure:
    """One panel per perplexity and seed, with the caveats beneath the title."""
    rows, columns = len(result.perplexities), len(result.seeds)
    heads = [
        f"perplexity {perplexity:g}, seed {seed}; {result.kept_neighbours[i, j]:.0%} of nearest kept"
        for i, perplexity in enumerate(result.perplexities)
        for j, seed in enumerate(result.seeds)
    ]
    frame = framed(100 + 230 * rows, f"t-SNE ({result.metric}), {_title(result.embeddings)}", result.caveats)
    figure = make_subplots(
        rows, columns, subplot_titles=heads, vertical_spacing=0.28 / (rows + 1), horizontal_spacing=0.04
    )
    for i in range(rows):
        for j in range(columns):
            figure.add_trace(_digit_points(result.coordinates[i, j]), row=i + 1, col=j + 1)
            figure.update_yaxes(range=_with_room(result.coordinates[i, j, :, 1]), row=i + 1, col=j + 1)
    own = {key: value for key, value in frame.layout.to_plotly_json().items() if "axis" not in key}
    figure.update_layout(**own | {"annotations": list(figure.layout.annotations)})
    figure.update_layout(showlegend=False)
    figure.update_layout(margin_t=frame.layout.margin.t + 24)
    figure.update_annotations(font_size=11, yshift=3)
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(showticklabels=False, zeroline=False, showgrid=False, showline=True, mirror=True, linecolor=GRID_COLOUR)
    figure.update_xaxes(title_text="no unit; n = 10 digits", row=rows)
    return figure


def plot_layers(results: Mapping[str, Sequence[DigitSimilarity]]) -> go.Figure:
    """The rank correlation of contextual states along the layers, a line per kind of context.

    Args:
        results: "number" and "symbol" to one result per layer; filled markers have p below 0.05.

    Raises:
        InputError: results of states that have no layer.
    """
    first = next(iter(results.values()))[0]
    note = "Filled: p < 0.05, not corrected for looking at many layers. Layer 0 is the input embedding."
    figure = framed(400, f"{first.embeddings.provenance.model}: order of the digits along the layers", (note,))
    for context, found in results.items():
        colour, dash, marker = _SYMBOLS.get(context, ("#2f8f83", "longdashdot", "x"))
        if any(one.embeddings.layer is None for one in found):
            raise InputError("`results` must be of contextual states, which have a layer.")
        figure.add_scatter(
            x=[one.embeddings.layer for one in found],
            y=[one.spearman for one in found],
            customdata=[one.p_value for one in found],
            mode="lines+markers",
            name=f"{escape_text(context)} contexts",
            line={"color": colour, "dash": dash, "width": 2},
            marker={"symbol": [marker if one.p_value < 0.05 else f"{marker}-open" for one in found], "size": 9},
            hovertemplate="%{fullData.name}<br>layer %{x}: %{y:.3f}, p = %{customdata:.2g}<extra></extra>",
        )
    contexts = first.embeddings.contexts
    figure.update_xaxes(title_text=f"layer; n = 45 pairs of means over {contexts} contexts")
    figure.update_xaxes(dtick=max(1, max(len(found) for found in results.values()) // 10))
    figure.update_yaxes(title_text="rank correlation of similarity with −|i − j|", range=[-1.05, 1.05])
    return figure


def _digit_points(coordinates: np.ndarray) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": coordinates[:, 0].tolist(),
        "y": coordinates[:, 1].tolist(),
        "text": [str(digit) for digit in DIGITS],
        "textposition": "middle center",
        "textfont": {"color": ["#ffffff" if digit < 6 else "#111111" for digit in DIGITS], "size": 12},
        "marker": {
            "size": 20,
            "color": sample_colorscale(SEQUENTIAL, [digit / 9 for digit in DIGITS]),
            "line": {"color": "#808080", "width": 1},  # 0 is as dark as a dark page, 9 nearly as light as a light one
        },
        "hovertemplate": "digit %{text}<extra></extra>",
        "cliponaxis": False,
        "showlegend": False,
    }


def _with_room(values: np.ndarray) -> list[float]:
    """A range with room for the digit above the highest point, which would else run into the panel's title."""
    low, high = float(values.min()), float(values.max())
    return [low - 0.1 * (high - low), high + 0.25 * (high - low)]


def _title(embeddings: DigitEmbeddings) -> str:
    return f"{embeddings.provenance.model}: {embeddings.title}"
