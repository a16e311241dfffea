"""Figures of the loss lab: gradient steps as an animation, and what lowering all logits does to a digit term."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from delcore._panels import GHOST_COLOUR, Grid, add_entropies, bars, heading, level_lines, look_of, round_up, suffix
from delcore.analysis import entropy_nats
from delcore.errors import InputError
from delcore.plots.distributions import FULL, panel_figure
from delcore.plots.frames import framed

if TYPE_CHECKING:  # they load torch, which a figure must not wait for
    from delcore.analysis import LevelScan, LossPath

FRAME_MS = 120
AT_ONCE = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate", "transition": {"duration": 0}}
CONTROLS_PX = 116
_PLAY = "▶ play"
_STOP = "❚❚ stop"


def plot_loss_steps(
    paths: "Mapping[str, LossPath]", *, truth: Sequence[float] | None = None, columns: int = 4
) -> go.Figure:
    """The ten probabilities under each loss, step after step; it opens with the last step and plays from the first.

    Args:
        paths: loss to its path; all of the same number of steps.
        truth: drawn as a level line over each digit.
        columns: panels side by side.

    Raises:
        InputError: no path, or paths of different lengths.
    """
    lengths = {len(path.probabilities) for path in paths.values()}
    if len(lengths) != 1:
        raise InputError(f"`paths` must all have the same number of steps, at least one; got {sorted(lengths)}.")
    steps = lengths.pop() - 1
    grid = Grid(len(paths) + (len(paths) % columns > 0), columns, legend_height=34)
    layout = grid.layout(
        [_heading(name, path) for name, path in paths.items()], (0.0, _top(paths, truth)), "probability"
    )
    data = _still(paths, truth)
    still = [{"type": trace["type"]} for trace in data]
    data += [_last(name, path, i) for i, (name, path) in enumerate(paths.items())]
    has_entropies = grid.count > len(paths)
    if has_entropies:  # the free cell shows them on one line, and they move, too
        reference = ("true law", entropy_nats(truth)) if truth is not None else None
        last = {name: float(path.entropy_nats[-1]) for name, path in paths.items()}
        add_entropies(data, layout, grid, len(paths), last, reference)
        layout[f"xaxis{suffix(len(paths))}"]["range"] = [-0.05, 2.4]  # from 0 to ln 10, for all steps
    _add_controls(layout, steps)
    frames = [  # also of traces that stand still: Plotly takes those that a frame leaves out off the screen
        {"name": str(step), "data": still + _frame(paths, step, has_entropies), "traces": list(range(len(data)))}
        for step in range(steps + 1)
    ]
    return panel_figure(data, layout, frames)


def _top(paths: "Mapping[str, LossPath]", truth: Sequence[float] | None) -> float:
    highest = max(float(path.probabilities.max()) for path in paths.values())
    return min(round_up(1.03 * max(highest, *(truth or (0.0,)))), FULL)


def _still(paths: "Mapping[str, LossPath]", truth: Sequence[float] | None) -> list[dict[str, Any]]:
    data = []
    for i, path in enumerate(paths.values()):
        start = path.probabilities[0].tolist()
        data.append(bars(values=start, panel=i, colour=GHOST_COLOUR, name="start", width=0.92, legend=i == 0))
        data += [level_lines(truth, panel=i, legend=i == 0)] if truth is not None else []
    return data


def _frame(paths: "Mapping[str, LossPath]", step: int, has_entropies: bool) -> list[dict[str, Any]]:
    """Only what moves; Plotly keeps the rest of each trace."""
    heights = [{"type": "bar", "y": path.probabilities[step].tolist()} for path in paths.values()]
    dots = [{"type": "scatter", "x": [float(path.entropy_nats[step])]} for path in paths.values()]
    return heights + (dots if has_entropies else [])


def _last(name: str, path: "LossPath", panel: int) -> dict[str, Any]:
    look = look_of(name)
    values = path.probabilities[-1].tolist()
    return bars(values=values, panel=panel, colour=look.colour, name=look.title, width=0.56)


def _heading(name: str, path: "LossPath") -> str:
    return heading(name, f"{path.entropy_nats[0]:.2f} → {path.entropy_nats[-1]:.3f} nats")


def _add_controls(layout: dict[str, Any], steps: int) -> None:
    """A play button, and a slider over the steps, beneath the panels."""
    inner = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
    layout["height"] += CONTROLS_PX
    layout["margin"]["b"] += CONTROLS_PX
    at = {"x": 0, "y": -58 / inner, "xanchor": "left", "yanchor": "top"}
    layout["updatemenus"], layout["sliders"] = [_buttons() | at], [_slider(steps) | at]


def _buttons() -> dict[str, Any]:
    animate = {"frame": {"duration": FRAME_MS, "redraw": True}, "fromcurrent": True, "transition": {"duration": 0}}
    buttons = [
        {"label": _PLAY, "method": "animate", "args": [None, animate]},
        {"label": _STOP, "method": "animate", "args": [[None], AT_ONCE]},
    ]
    return {
        "type": "buttons",
        "direction": "right",
        "showactive": False,
        "pad": {"t": 8, "r": 8},
        "buttons": buttons,
        "bgcolor": "rgba(128,128,128,0.12)",
        "bordercolor": "rgba(128,128,128,0.5)",
    }


def _slider(steps: int) -> dict[str, Any]:
    labels = [str(k) if k % 10 == 0 else "" for k in range(steps + 1)]
    return {
        "active": steps,
        "len": 1,
        "pad": {"t": 44},
        "currentvalue": {"visible": False},
        "ticklen": 0,
        "minorticklen": 0,
        "steps": [{"label": label, "method": "animate", "args": [[str(k)], AT_ONCE]} for k, label in enumerate(labels)],
    }


def plot_levels(scans: "Mapping[str, LevelScan]") -> go.Figure:
    """Digit terms while all logits are lowered together, a line each, on a logarithmic axis.

    Args:
        scans: what each line is called, to its result.
    """
    caveats = ("All logits are lowered together: no probability changes, and cross-entropy stays as it is.",)
    figure = framed(340, "Does the digit term hold the logits in place?", caveats)
    for i, (title, scan) in enumerate(scans.items()):
        look = look_of(scan.name)
        figure.add_scatter(
            x=scan.lowered.tolist(),
            y=scan.digit_term.tolist(),
            name=title,
            mode="lines",
            line={"color": look.colour, "dash": ("solid", "dot", "dash")[i % 3], "width": 2.5},
            hovertemplate="%{fullData.name}<br>lowered by %{x:.1f}: %{y:.3g}<extra></extra>",
        )
    figure.update_xaxes(title_text="all logits lowered by (units of logit); n = 1 position")
    figure.update_yaxes(title_text="digit term α·u·ℓ", type="log", exponentformat="power")
    return figure
