"""Figures of the fine-tuning studies: a measure of every variant with its interval, and where its equilibrium lies."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from delcore._panels import GRID_COLOUR, TRUTH_COLOUR, ZERO_COLOUR, Grid, axes, escape_text, look_of, suffix
from delcore.errors import InputError
from delcore.plots.frames import counted, error_bars

MEASURES: Mapping[str, str] = {
    "gap_nats": "entropy less the law's (nats)",
    "entropy_nats": "digit entropy (nats)",
    "kl_nats": "KL to the law (nats)",
    "exact_match": "answered exactly (share)",
    "accuracy": "digit accuracy (share)",
    "distance": "abs(E[k] − c) (digits)",
    "expected_digit_error": "abs(E[k] − c) (digits)",
}
"""Measures of a study with their units; others are shown by their names.

SmolLM2's study writes the last one for `distance`.
"""

ROW_HEIGHT, LABELS_WIDTH = 24, 168  # pixels


def plot_variants(study: Mapping[str, Any], measure: str, groups: Sequence[str], *, columns: int = 2) -> go.Figure:
    """A panel per group of digits or problems: each variant's mean over seeds with its 95 % interval.

    Args:
        study: results of a fine-tuning study, as `delcore.studies.stored.read_study` gives them.
        measure: of its rows.
        groups: of its rows.
        columns: panels side by side.

    Raises:
        InputError: the study has no such rows.
    """
    losses = {one["name"]: one["loss"] for one in study["variants"]}
    goals = study.get("equilibrium_gap_nats", {}) if measure == "gap_nats" else {}
    grid = Grid(len(groups), columns, ROW_HEIGHT * len(losses), legend_height=0, between=0.05)
    inner, above = grid.heights()
    figure = go.Figure(layout={"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "showlegend": False})
    figure.update_layout(height=inner + above + 60, margin={"l": LABELS_WIDTH, "r": 12, "t": above, "b": 60})
    for number, group in enumerate(groups):
        found = _values(study, group, measure)
        _add_axes(figure, grid, number, losses, measure)
        _add_points(figure, number, losses, found)
        _add_goals(figure, number, {name: goal[group] for name, goal in goals.items() if goal}, losses)
        _label(figure, grid, number, group, measure, found)
    return figure


def _values(study: Mapping[str, Any], group: str, measure: str) -> dict[str, Any]:
    found = {
        row["variant"]: row["value"] for row in study["rows"] if (row["group"], row["measure"]) == (group, measure)
    }
    if not found:
        raise InputError(f"The study {study.get('study', '')!s:.40} holds no {measure!r:.40} of {group!r:.40}.")
    return found


def measure_title(measure: str) -> str:
    """A measure with its unit."""
    return MEASURES.get(measure, measure)


def title_of_variant(name: str, loss: str) -> str:
    """The loss's title, and what the name of a variant says besides: NTL-WAS, matched for `ntl_was-matched`."""
    rest = name.removeprefix(loss).lstrip("-").replace("-", " ")
    return look_of(loss).title + (f", {escape_text(rest)}" if rest else "")


def _add_points(figure: go.Figure, number: int, losses: Mapping[str, str], found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        look = look_of(losses[name])
        low, high = (value["mean"] if value[end] is None else value[end] for end in ("low", "high"))
        symbol = look.marker if name == losses[name] else f"{look.marker.removesuffix('-open')}-open"
        figure.add_scatter(
            x=[value["mean"]],
            y=[title_of_variant(name, losses[name])],
            **axes(number),
            mode="markers",
            marker={"symbol": symbol, "size": 10, "color": look.colour},
            error_x=error_bars(value["mean"], [low], [high], look.colour),
            hovertemplate=f"%{{y}}: %{{x:.4f}} [{low:.4f}, {high:.4f}], n = {value['count']} seeds<extra></extra>",
        )


def _add_goals(figure: go.Figure, number: int, goals: Mapping[str, float], losses: Mapping[str, str]) -> None:
    if goals:
        figure.add_scatter(
            x=list(goals.values()),
            y=[title_of_variant(name, losses[name]) for name in goals],
            **axes(number),
            mode="markers",
            marker={"symbol": "line-ns-open", "size": 14, "color": TRUTH_COLOUR, "line": {"width": 2.5}},
            hovertemplate="%{y}, equilibrium: %{x:.4f}<extra></extra>",
        )


def _add_axes(figure: go.Figure, grid: Grid, number: int, losses: Mapping[str, str], measure: str) -> None:
    x_domain, y_domain = grid.domains(number)
    titles = [title_of_variant(name, loss) for name, loss in losses.items()]
    rows = {"categoryorder": "array", "categoryarray": titles[::-1], "range": [-0.6, len(titles) - 0.4]}
    x_axis = {"domain": x_domain, "anchor": f"y{suffix(number)}", "zerolinecolor": ZERO_COLOUR, "nticks": 5}
    y_axis = {"domain": y_domain, "anchor": f"x{suffix(number)}", "showticklabels": number % grid.columns == 0}
    grid_lines = {"gridcolor": GRID_COLOUR}
    if measure_title(measure).endswith("(share)"):  # where all are 1, an axis by itself would reach to 2
        x_axis["autorangeoptions"] = {"clipmax": 1.02}
    figure.update_layout({f"xaxis{suffix(number)}": x_axis | grid_lines, f"yaxis{suffix(number)}": y_axis | rows})
    figure.layout[f"yaxis{suffix(number)}"].update(grid_lines)


def _label(
    figure: go.Figure, grid: Grid, number: int, group: str, measure: str, found: Mapping[str, Mapping[str, Any]]
) -> None:
    if number + grid.columns >= grid.count:
        seeds = counted([value["count"] for value in found.values()])
        text = f"{escape_text(measure_title(measure))}<br>seeds: {seeds}"
        figure.layout[f"xaxis{suffix(number)}"].title = {"text": text, "font": {"size": 12}}
    figure.add_annotation(grid.title(number, f"<b>{escape_text(group)}</b>"))
