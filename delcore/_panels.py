"""What figures are made of: looks of the losses, a grid of panels, bars and lines, as plain Plotly dictionaries.

Plain dictionaries that Plotly checks once are five times faster to build than its own subplots.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

DIGITS = tuple(range(10))
GHOST_COLOUR = "rgba(128,128,128,0.42)"
TRUTH_COLOUR = "#e6007e"
GRID_COLOUR = "rgba(128,128,128,0.25)"
ZERO_COLOUR = "rgba(128,128,128,0.7)"


class Look(NamedTuple):
    """How a model appears in every figure: its title, its colour, and dash and marker as a second cue."""

    title: str
    colour: str
    dash: str
    marker: str


LOOKS: Mapping[str, Look] = {
    "base": Look("Base", "#808080", "dot", "circle-open"),
    "mle": Look("MLE", "#1f66d1", "solid", "circle"),
    "mixce": Look("MixCE", "#22abe6", "dash", "square"),
    "emo": Look("EMO", "#744680", "dashdot", "diamond"),
    "ntl_was": Look("NTL-WAS", "#e68a00", "solid", "triangle-up"),
    "ntl_mse": Look("NTL-MSE", "#bd9b68", "dash", "triangle-down"),
    "dist2": Look("DIST2Loss", "#804d00", "dashdot", "cross"),
    "del": Look("DEL", "#7614ff", "solid", "star"),
    "del_released": Look("DEL (as released)", "#3f7f4f", "longdash", "star-open"),
}


def look_of(name: str) -> Look:
    """The look of a loss; any other model has one of its own, and its name escaped."""
    return LOOKS.get(name) or Look(escape_text(name, longest=26), "#2f8f83", "longdashdot", "x")


def escape_text(text: str, longest: int = 40) -> str:
    """Text as a figure shows it letter by letter: no tags, no LaTeX, no value of Plotly's own, such as `%{y}`.

    One line, at most `longest` characters.
    """
    line = "".join(c if c.isprintable() else " " for c in text)
    line = line if len(line) <= longest else f"{line[: longest - 1]}…"
    return html.escape(line, quote=False).replace("$", "&#36;").replace("%{", "&#37;{")


def heading(name: str, note: str | None) -> str:
    """Title of a panel: the model, and what is said of it in a second line."""
    return f"<b>{look_of(name).title}</b><br>{escape_text(note or ' ')}"


def round_up(value: float) -> float:
    """A round number at or above `value`, so that axes move in steps while a slider is drawn."""
    if not 0 < value < math.inf:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(value))
    return next(step * scale for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10) if step * scale >= value * 0.999999)


# ---------------------------------------------------------------- the grid


@dataclass(frozen=True)
class Grid:
    """Equal panels in rows, read from left to right.

    Args:
        count: panels.
        columns: panels a row.
        panel_height: pixels.
        legend_height: pixels above the panels.
        between: share of the width between two panels, where each has labels of its own; None where they share them.
    """

    count: int
    columns: int
    panel_height: int = 150
    legend_height: int = 34
    between: float | None = None

    @property
    def rows(self) -> int:
        """Rows of panels, the last one perhaps not full."""
        return math.ceil(self.count / self.columns)

    def layout(self, headings: Sequence[str], y_range: tuple[float, float], y_title: str) -> dict[str, Any]:
        """Layout of all panels with the ten digits on x and the same y range."""
        inner, top_px = self.heights()
        layout: dict[str, Any] = {
            "height": inner + top_px + 46,
            "margin": {"l": 60, "r": 8, "t": top_px, "b": 46, "autoexpand": False},
            "legend": {"orientation": "h", "x": 0, "y": 1 + (top_px - 4) / inner, "yanchor": "top", "xanchor": "left"},
            "annotations": [],
        }
        for i, text in enumerate(headings):
            x_domain, y_domain = self.domains(i)
            below = i + self.columns >= self.count
            layout[f"xaxis{suffix(i)}"] = _digit_axis(x_domain, suffix(i), "digit" if below else "")
            title = y_title if i % self.columns == 0 else None
            layout[f"yaxis{suffix(i)}"] = _value_axis(y_domain, suffix(i), y_range, title)
            layout["annotations"].append(self.title(i, text))
        return layout

    def domains(self, panel: int) -> tuple[list[float], list[float]]:
        """Where a panel lies in the figure, in x and in y, as shares of it."""
        row, column = divmod(panel, self.columns)
        between = (0.035 if self.columns > 2 else 0.08) if self.between is None else self.between
        gap = 68 / self.heights()[0]
        width = (1 - between * (self.columns - 1)) / self.columns
        height = (1 - gap * (self.rows - 1)) / self.rows
        left, top = column * (width + between), 1.0 - row * (height + gap)
        return [left, min(left + width, 1.0)], [max(top - height, 0.0), top]

    def title(self, panel: int, text: str) -> dict[str, Any]:
        """The title above a panel."""
        x_domain, y_domain = self.domains(panel)
        at = {"x": x_domain[0], "y": y_domain[1], "xref": "paper", "yref": "paper"}
        look = {"xanchor": "left", "yanchor": "bottom", "align": "left", "showarrow": False, "font": {"size": 13}}
        return {"text": text} | at | look

    def heights(self) -> tuple[int, int]:
        """Pixels of the panels with the gaps between, and of what is above them."""
        return self.rows * self.panel_height + (self.rows - 1) * 68, self.legend_height + 40


def suffix(panel: int) -> str:
    """Plotly numbers axes "", "2", "3" …."""
    return "" if panel == 0 else str(panel + 1)


def axes(panel: int) -> dict[str, str]:
    """The axes of a panel, as a trace names them."""
    return {"xaxis": f"x{suffix(panel)}", "yaxis": f"y{suffix(panel)}"}


def _digit_axis(domain: list[float], number: str, title: str) -> dict[str, Any]:
    return {
        "domain": domain,
        "anchor": f"y{number}",
        "range": [-0.6, 9.6],
        "tickvals": list(DIGITS),
        "tickangle": 0,
        "showgrid": False,
        "zeroline": False,
        "title": {"text": title, "standoff": 4},
    } | ({"matches": "x"} if number else {})


def _value_axis(domain: list[float], number: str, y_range: tuple[float, float], title: str | None) -> dict[str, Any]:
    return {
        "domain": domain,
        "anchor": f"x{number}",
        "range": list(y_range),
        "nticks": 5,
        "showticklabels": title is not None,
        "gridcolor": GRID_COLOUR,
        "zeroline": True,
        "zerolinecolor": ZERO_COLOUR,
        "zerolinewidth": 1,
        "title": {"text": title or "", "standoff": 10},
    } | ({"matches": "y"} if number else {})


# ---------------------------------------------------------------- traces


def bars(
    *,
    values: Sequence[float],
    panel: int,
    colour: str,
    name: str,
    width: float,
    legend: bool = False,
    hatched: int | None = None,
) -> dict[str, Any]:
    """Ten bars, of which one may be hatched."""
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
        **axes(panel),
    }


def level_lines(values: Sequence[float], *, panel: int, legend: bool) -> dict[str, Any]:
    """A short level line over each digit, for the known law."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [at for digit in DIGITS for at in (digit - 0.46, digit + 0.46, None)],
        "y": [at for value in values for at in (value, value, None)],
        "name": "true law",
        "showlegend": legend,
        "line": {"color": TRUTH_COLOUR, "width": 2.5},
        "hovertemplate": "true law: %{y:.4f}<extra></extra>",
        **axes(panel),
    }


def marked_line(name: str, values: Sequence[float]) -> dict[str, Any]:
    """The ten probabilities of one model as a line, with its dash and marker."""
    look = look_of(name)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(DIGITS),
        "y": list(values),
        "name": look.title,
        "line": {"color": look.colour, "dash": look.dash, "width": 2},
        "marker": {"symbol": look.marker, "size": 9, "color": look.colour},
        "hovertemplate": "%{fullData.name}<br>digit %{x}: %{y:.4f}<extra></extra>",
    }


def add_entropies(
    data: list[dict[str, Any]],
    layout: dict[str, Any],
    grid: Grid,
    panel: int,
    entropies: Mapping[str, float],
    reference: tuple[str, float] | None,
) -> None:
    """Fill a free cell with all entropies on one line, and where the reference's lies."""
    x_domain, y_domain = grid.domains(panel)
    inset = 0.075 if grid.columns > 2 else 0.19
    titles = [look_of(name).title for name in entropies]
    layout[f"xaxis{suffix(panel)}"] = {
        "domain": [x_domain[0] + inset, x_domain[1]],
        "anchor": f"y{suffix(panel)}",
        "nticks": 4,
        "gridcolor": GRID_COLOUR,
        "zeroline": False,
        "title": {"text": "entropy (nats)", "standoff": 4},
    }
    layout[f"yaxis{suffix(panel)}"] = {
        "domain": y_domain,
        "anchor": f"x{suffix(panel)}",
        "categoryorder": "array",
        "categoryarray": titles[::-1],
        "tickfont": {"size": 10},
        "gridcolor": GRID_COLOUR,
        "range": [-0.7, len(titles) - 0.3],
    }
    note = f"┊ {reference[0]} {reference[1]:.3f}" if reference else " "
    layout["annotations"].append(grid.title(panel, f"<b>Sharper ◂ ▸ flatter</b><br>{note}"))
    data += [_dot(name, entropy, panel) for name, entropy in entropies.items()]
    if reference:
        colour = TRUTH_COLOUR if reference[0] == "true law" else ZERO_COLOUR
        line = {"color": colour, "width": 2, "dash": "dot"}
        at = {"x0": reference[1], "x1": reference[1], "y0": 0, "y1": 1}
        refs = {"xref": f"x{suffix(panel)}", "yref": f"y{suffix(panel)} domain"}
        layout["shapes"] = [{"type": "line", "line": line, "layer": "below"} | at | refs]


def _dot(name: str, entropy: float, panel: int) -> dict[str, Any]:
    look = look_of(name)
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [entropy],
        "y": [look.title],
        "name": look.title,
        "showlegend": False,
        "cliponaxis": False,
        "marker": {"symbol": look.marker, "size": 10, "color": look.colour},
        "hovertemplate": "%{y}: %{x:.4f} nats<extra></extra>",
        **axes(panel),
    }
