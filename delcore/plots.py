"""Figures: a result in, a Plotly figure out. No model, no file, no torch.

Each loss has one colour and one second cue (dash and marker) in every figure. The seven colours and the base's grey
differ by at least 22 CIELAB units from one another for normal, protan, deutan and tritan sight, and stand out on
white and on near-black; backgrounds are transparent, so a page's own theme shows through.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

COLOURS: Mapping[str, str] = {
    "base": "#808080",
    "mle": "#1f66d1",
    "mixce": "#22abe6",
    "emo": "#744680",
    "ntl_was": "#e68a00",
    "ntl_mse": "#bd9b68",
    "dist2": "#804d00",
    "del": "#7614ff",
    "del_released": "#3f7f4f",
}
"""One colour per loss, the same in every figure."""

OTHER_COLOUR = "#d9608f"
"""Of a model that is none of the family."""

DASHES: Mapping[str, str] = {
    "base": "dot",
    "mle": "solid",
    "mixce": "dash",
    "emo": "dashdot",
    "ntl_was": "solid",
    "ntl_mse": "dash",
    "dist2": "dashdot",
    "del": "solid",
    "del_released": "longdash",
}

MARKERS: Mapping[str, str] = {
    "base": "circle-open",
    "mle": "circle",
    "mixce": "square",
    "emo": "diamond",
    "ntl_was": "triangle-up",
    "ntl_mse": "triangle-down",
    "dist2": "cross",
    "del": "star",
    "del_released": "star-open",
}
"""With the dash, a second cue beside the colour."""

TITLES: Mapping[str, str] = {
    "base": "Base",
    "mle": "MLE",
    "mixce": "MixCE",
    "emo": "EMO",
    "ntl_was": "NTL-WAS",
    "ntl_mse": "NTL-MSE",
    "dist2": "DIST2Loss",
    "del": "DEL",
    "del_released": "DEL (as released)",
}
"""As `delcore.LOSSES` titles them, without loading torch; a test compares the two."""

GHOST_COLOUR = "rgba(128,128,128,0.32)"
GRID_COLOUR = "rgba(128,128,128,0.25)"
DIGITS = tuple(range(10))


def escape_text(text: str, longest: int = 40) -> str:
    """Text as a figure shows it letter by letter: no tags, no LaTeX, one line, at most `longest` characters."""
    line = "".join(c if c.isprintable() else " " for c in text)
    line = line if len(line) <= longest else f"{line[: longest - 1]}…"
    return html.escape(line, quote=False).replace("$", "&#36;")


def title_of(name: str) -> str:
    """How a figure writes a loss's name; any other name is escaped."""
    return TITLES.get(name) or escape_text(name, longest=26)


def colour_of(name: str) -> str:
    """The colour of a loss, or the one of models outside the family."""
    return COLOURS.get(name, OTHER_COLOUR)


# ---------------------------------------------------------------- figures of the ten probabilities


def plot_small_multiples(
    distributions: Mapping[str, Sequence[float]],
    *,
    ghost: Sequence[float] | None = None,
    ghost_label: str = "base model",
    truth: Sequence[float] | None = None,
    notes: Mapping[str, str] | None = None,
    columns: int = 4,
    y_title: str = "probability",
) -> go.Figure:
    """One panel per model with its ten digit probabilities, all on the same axes.

    Args:
        distributions: name to p̂ of the digits 0 … 9.
        ghost: probabilities drawn in grey behind every panel, as the base model's.
        ghost_label: what they are, in the legend.
        truth: the known law, drawn as a level line over each digit.
        notes: a second title line per panel, such as its entropy.
        columns: panels side by side.
        y_title: what the bars are; probabilities from 0 to 1.
    """
    top = _round_up(max(max(values) for values in [*distributions.values(), ghost or (0,), truth or (0,)]))
    grid = _Grid(len(distributions), columns)
    data = []
    for i, (name, values) in enumerate(distributions.items()):
        if ghost is not None:
            data.append(_bars(values=ghost, panel=i, colour=GHOST_COLOUR, name=ghost_label, width=0.92, legend=i == 0))
        data.append(_bars(values=values, panel=i, colour=colour_of(name), name=title_of(name), width=0.56))
        if truth is not None:
            data += _level_lines(truth, panel=i, legend=i == 0)
    return _figure(data, grid.layout([_heading(name, notes) for name in distributions], (0, top), y_title))


def plot_overlay(
    distributions: Mapping[str, Sequence[float]],
    *,
    truth: Sequence[float] | None = None,
    y_title: str = "probability",
) -> go.Figure:
    """All models in one panel; each has its colour, dash and marker."""
    top = _round_up(max(max(values) for values in [*distributions.values(), truth or (0,)]))
    data = [_line(name, values) for name, values in distributions.items()]
    if truth is not None:
        data += _level_lines(truth, panel=0, legend=True)
    layout = _Grid(1, 1, panel_height=400, legend_height=64).layout([""], (0, top), y_title)
    return _figure(data, layout)


def plot_differences(
    distributions: Mapping[str, Sequence[float]],
    base: Sequence[float],
    *,
    notes: Mapping[str, str] | None = None,
    columns: int = 4,
    base_label: str = "base",
) -> go.Figure:
    """p̂ − p̂_base of each model, in probability, as small multiples on the same axes around 0."""
    changes = {
        name: [value - reference for value, reference in zip(values, base, strict=True)]
        for name, values in distributions.items()
    }
    return _signed_panels(changes, notes, columns, f"probability − {escape_text(base_label)}", hatched=None)


# ---------------------------------------------------------------- figures of the loss lab


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
    return _signed_panels(gradients, notes, columns, "∂L/∂a (nats per logit)", hatched=true_digit)


def plot_entropies(entropies: Mapping[str, float], *, truth: float | None = None, title: str = "") -> go.Figure:
    """Digit entropies on one line, in nats; left of the known law's is over-sharp, right of it over-flat.

    Args:
        entropies: name to entropy of p̂, from 0 to ln 10.
        truth: entropy of the known law, if there is one.
        title: of the axis, instead of "digit entropy (nats)".
    """
    names = list(entropies)
    data = [_dot(name, entropies[name]) for name in names]
    layout = _entropy_layout([title_of(name) for name in names], title or "digit entropy (nats)")
    if truth is not None:
        line = {"color": "rgba(128,128,128,0.9)", "width": 2}
        layout["shapes"] = [{"type": "line", "x0": truth, "x1": truth, "y0": 0, "y1": 1, "yref": "paper", "line": line}]
        layout["annotations"] = [_side_note(truth, f"◂ sharper  true law {truth:.3f}  flatter ▸")]
    return _figure(data, layout)


# ---------------------------------------------------------------- parts


@dataclass(frozen=True)
class _Grid:
    """Panels in rows, as axis domains; faster to build than plotly's own subplots, and each panel is titled."""

    count: int
    columns: int
    panel_height: int = 150
    legend_height: int = 34

    @property
    def rows(self) -> int:
        return math.ceil(self.count / self.columns)

    def layout(self, headings: Sequence[str], y_range: tuple[float, float], y_title: str) -> dict[str, Any]:
        titled = any(headings)
        gap_px, bottom_px = (68 if titled else 20), 46
        top_px = self.legend_height + (40 if titled else 8)
        inner = self.rows * self.panel_height + (self.rows - 1) * gap_px
        layout: dict[str, Any] = {
            "height": inner + top_px + bottom_px,
            "margin": {"l": 54, "r": 8, "t": top_px, "b": bottom_px, "autoexpand": False},
            "legend": {"orientation": "h", "x": 0, "y": 1 + (top_px - 4) / inner, "yanchor": "top", "xanchor": "left"},
            "annotations": [],
        }
        for i, heading in enumerate(headings):
            self._add_panel(layout, i, heading, y_range, y_title, gap_px / inner)
        return layout

    def _add_panel(
        self, layout: dict[str, Any], i: int, heading: str, y_range: tuple[float, float], y_title: str, gap: float
    ) -> None:
        row, column = divmod(i, self.columns)
        between = 0.035 if self.columns > 2 else 0.07
        width = (1 - between * (self.columns - 1)) / self.columns
        height = (1 - gap * (self.rows - 1)) / self.rows
        left, top = column * (width + between), 1 - row * (height + gap)
        bottom_row = i + self.columns >= self.count
        layout[f"xaxis{_suffix(i)}"] = _digit_axis([left, left + width], _suffix(i), "digit" if bottom_row else "")
        layout[f"yaxis{_suffix(i)}"] = _value_axis(
            [max(top - height, 0), min(top, 1)], _suffix(i), y_range, y_title if column == 0 else None
        )
        if heading:
            layout["annotations"].append(_panel_title(heading, left, top))


def _suffix(panel: int) -> str:
    return "" if panel == 0 else str(panel + 1)


def _digit_axis(domain: list[float], suffix: str, title: str) -> dict[str, Any]:
    return {
        "domain": domain,
        "anchor": f"y{suffix}",
        "range": [-0.6, 9.6],
        "tickvals": list(DIGITS),
        "tickangle": 0,
        "ticks": "",
        "showgrid": False,
        "zeroline": False,
        "title": {"text": title, "standoff": 4},
    } | ({} if suffix == "" else {"matches": "x"})


def _value_axis(domain: list[float], suffix: str, y_range: tuple[float, float], title: str | None) -> dict[str, Any]:
    return {
        "domain": domain,
        "anchor": f"x{suffix}",
        "range": list(y_range),
        "nticks": 5,
        "showticklabels": title is not None,
        "gridcolor": GRID_COLOUR,
        "zeroline": True,
        "zerolinecolor": "rgba(128,128,128,0.7)",
        "zerolinewidth": 1,
        "title": {"text": title or "", "standoff": 6},
    } | ({} if suffix == "" else {"matches": "y"})


def _panel_title(text: str, x: float, y: float) -> dict[str, Any]:
    return {
        "text": text,
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "align": "left",
        "showarrow": False,
        "font": {"size": 13},
    }


def _heading(name: str, notes: Mapping[str, str] | None) -> str:
    note = (notes or {}).get(name)
    return f"<b>{title_of(name)}</b>" + (f"<br>{escape_text(note)}" if note else "")


def _axes(panel: int) -> dict[str, str]:
    return {"xaxis": f"x{_suffix(panel)}", "yaxis": f"y{_suffix(panel)}"}


def _bars(
    *,
    values: Sequence[float],
    panel: int,
    colour: str,
    name: str,
    width: float,
    legend: bool = False,
    hatched: int | None = None,
) -> dict[str, Any]:
    shapes = ["/" if digit == hatched else "" for digit in DIGITS]
    return {
        "type": "bar",
        "x": list(DIGITS),
        "y": list(values),
        "width": width,
        "name": name,
        "showlegend": legend,
        "marker": {"color": colour, "line": {"width": 0}, "pattern": {"shape": shapes, "fillmode": "overlay"}},
        "hovertemplate": "%{fullData.name}<br>digit %{x}: %{y:.4f}<extra></extra>",
        **_axes(panel),
    }


def _level_lines(values: Sequence[float], *, panel: int, legend: bool) -> list[dict[str, Any]]:
    """A short level line over each digit: a dark core in a light halo, to be seen on any bar and background."""
    x = [at for digit in DIGITS for at in (digit - 0.46, digit + 0.46, None)]
    y = [at for value in values for at in (value, value, None)]
    common = {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": "true law", **_axes(panel)}
    halo = {"line": {"color": "#ffffff", "width": 5}, "hoverinfo": "skip", "showlegend": False}
    core = {
        "line": {"color": "#111111", "width": 2},
        "hovertemplate": "true law: %{y:.4f}<extra></extra>",
        "showlegend": legend,
    }
    return [common | halo, common | core]


def _line(name: str, values: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(DIGITS),
        "y": list(values),
        "name": title_of(name),
        "line": {"color": colour_of(name), "dash": DASHES.get(name, "dot"), "width": 2},
        "marker": {"symbol": MARKERS.get(name, "x"), "size": 9, "color": colour_of(name)},
        "hovertemplate": "%{fullData.name}<br>digit %{x}: %{y:.4f}<extra></extra>",
    }


def _signed_panels(
    values: Mapping[str, Sequence[float]],
    notes: Mapping[str, str] | None,
    columns: int,
    y_title: str,
    hatched: int | None,
) -> go.Figure:
    reach = _round_up(max(abs(value) for row in values.values() for value in row) * 1.05)
    data = [
        _bars(values=row, panel=i, colour=colour_of(name), name=title_of(name), width=0.7, hatched=hatched)
        for i, (name, row) in enumerate(values.items())
    ]
    grid = _Grid(len(values), columns, legend_height=4)
    return _figure(data, grid.layout([_heading(name, notes) for name in values], (-reach, reach), y_title))


def _dot(name: str, entropy: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [entropy],
        "y": [title_of(name)],
        "name": title_of(name),
        "showlegend": False,
        "marker": {"symbol": MARKERS.get(name, "x"), "size": 12, "color": colour_of(name)},
        "hovertemplate": "%{y}: %{x:.4f} nats<extra></extra>",
    }


def _entropy_layout(names: list[str], title: str) -> dict[str, Any]:
    return {
        "height": 24 * len(names) + 84,
        "margin": {"l": 92, "r": 16, "t": 30, "b": 46, "autoexpand": False},
        "xaxis": {"title": {"text": title, "standoff": 4}, "gridcolor": GRID_COLOUR, "zeroline": False, "nticks": 6},
        "yaxis": {"categoryorder": "array", "categoryarray": names[::-1], "gridcolor": GRID_COLOUR, "title": ""},
    }


def _side_note(x: float, text: str) -> dict[str, Any]:
    return {
        "x": x,
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "text": text,
        "showarrow": False,
        "font": {"size": 12},
    }


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 3, 4, 5, 6, 8, 10 times a power of ten, so that axes move in steps."""
    if not 0 < value < math.inf:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(value))
    return next(step * scale for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10) if step * scale >= value * 0.999999)


def _figure(data: list[dict[str, Any]], layout: dict[str, Any]) -> go.Figure:
    common = {
        "barmode": "overlay",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "dragmode": False,
    }
    return go.Figure({"data": data, "layout": common | layout})
