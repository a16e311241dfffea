"""Figures: the numbers are the input's, the colours are fixed and told apart, and text is only text."""

import itertools
import subprocess
import sys

import numpy as np
import plotly.graph_objects as go
import pytest

from delcore import LOSSES
from delcore._panels import LOOKS, round_up
from delcore.analysis import follow_loss
from delcore.arithmetic import DESIGN_LAW, LAWS
from delcore.intervals import wilson_interval
from delcore.plots import (
    COLOURS,
    TITLES,
    escape_text,
    figure_html,
    place_title,
    plot_differences,
    plot_gradients,
    plot_loss_steps,
    plot_overlay,
    plot_place_accuracy,
    plot_small_multiples,
    title_of,
)

FAMILY = {
    name: LAWS[law] for name, law in zip([n for n in LOSSES if n != "del_released"], [*LAWS, "flat"], strict=True)
}
BASE = (0.1,) * 10
HOSTILE = "<b>7</b><br><a href='javascript:1'>x</a> $x^2$"


def traces(figure, kind, name):
    return [t for t in figure.data if t.type == kind and t.name == name]


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("columns", [2, 4])
def test_small_multiples_show_the_given_numbers_on_the_same_axes(columns):
    figure = plot_small_multiples(FAMILY, ghost=BASE, truth=DESIGN_LAW, columns=columns)
    for name, values in FAMILY.items():
        (bar,) = traces(figure, "bar", TITLES[name])
        assert tuple(bar.y) == values and tuple(bar.x) == tuple(range(10))
        assert bar.marker.color == COLOURS[name]
    assert len(traces(figure, "bar", "base model")) == 7
    assert all(tuple(t.y) == BASE for t in traces(figure, "bar", "base model"))
    lines = traces(figure, "scatter", "true law")
    assert len(lines) == 7 and all(tuple(line.y[::3]) == DESIGN_LAW for line in lines)
    axes = [getattr(figure.layout, f"yaxis{i or ''}") for i in (0, 2, 3, 4, 5, 6, 7)]
    assert len({tuple(axis.range) for axis in axes}) == 1
    assert axes[0].range[1] >= 0.9 * 1.0


def test_free_cell_shows_the_entropies_and_the_true_laws():
    figure = plot_small_multiples(FAMILY, ghost=BASE, truth=DESIGN_LAW)
    dots = {t.name: t.x[0] for t in figure.data if t.type == "scatter" and t.mode == "markers"}
    assert dots["Base"] == pytest.approx(np.log(10)) and len(dots) == 8
    assert dots["MLE"] == pytest.approx(1.2712, abs=1e-4)
    assert figure.layout.shapes[0].x0 == pytest.approx(1.2712, abs=1e-4)
    assert "true law 1.271" in figure.layout.annotations[-1].text


def test_eight_panels_leave_no_cell_for_the_entropies():
    figure = plot_small_multiples(FAMILY | {"other": BASE})
    assert not [t for t in figure.data if t.type == "scatter"]
    assert len(figure.data) == 8


def test_overlay_has_a_line_per_model_with_a_second_cue():
    figure = plot_overlay({"base": BASE} | FAMILY, truth=DESIGN_LAW)
    lines = [t for t in figure.data if t.mode == "lines+markers"]
    assert [tuple(t.y) for t in lines] == [BASE, *FAMILY.values()]
    assert len({(t.line.dash, t.marker.symbol) for t in lines}) == 8
    assert len({t.marker.symbol for t in lines}) == 8


def test_differences_are_to_the_base_and_symmetric_around_zero():
    figure = plot_differences(FAMILY, BASE)
    (bar,) = traces(figure, "bar", "MLE")
    assert bar.y == pytest.approx(np.array(DESIGN_LAW) - 0.1)
    low, high = figure.layout.yaxis.range
    assert low == -high and high >= 0.8


def test_gradients_hatch_the_true_digit():
    gradients = {name: [k - 4.5 for k in range(10)] for name in FAMILY}
    figure = plot_gradients(gradients, true_digit=7)
    assert figure.data[0].marker.pattern.shape == ("",) * 7 + ("/",) + ("",) * 2
    assert "nats per logit" in figure.layout.yaxis.title.text
    free = plot_gradients(gradients)
    assert set(free.data[0].marker.pattern.shape) == {""}
    zero = plot_gradients(dict.fromkeys(FAMILY, [0.0] * 10))
    assert zero.layout.yaxis.range == (-1.0, 1.0)


@pytest.mark.parametrize(
    "figure",
    [
        plot_small_multiples(FAMILY, ghost=BASE, truth=DESIGN_LAW, notes={"mle": "1.27 nats"}),
        plot_small_multiples({"mle": BASE}, columns=2),
        plot_overlay(FAMILY),
        plot_differences(FAMILY, BASE, columns=2),
        plot_gradients(FAMILY, true_digit=0),
        plot_loss_steps({"mle": follow_loss("mle", BASE, 7, steps=2, rate=0.5)}, truth=DESIGN_LAW),
    ],
)
def test_figures_are_valid_titled_and_take_the_pages_theme(figure):
    plain = figure.to_dict()
    assert go.Figure(plain).to_dict() == plain  # Plotly checks every property and takes all
    bottom = [a for a in figure.select_xaxes() if a.title.text]
    assert bottom and {a.title.text for a in bottom} <= {"digit", "entropy (nats)"}
    assert figure.layout.yaxis.title.text
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert figure.layout.font.color is None
    for axis in [*figure.select_xaxes(), *figure.select_yaxes()]:
        assert 0 <= axis.domain[0] < axis.domain[1] <= 1


def test_panels_do_not_overlap():
    figure = plot_small_multiples(FAMILY, columns=2)
    boxes = list(zip(figure.select_xaxes(), figure.select_yaxes(), strict=True))
    for (x1, y1), (x2, y2) in itertools.combinations(boxes, 2):
        apart_x = x1.domain[1] <= x2.domain[0] or x2.domain[1] <= x1.domain[0]
        apart_y = y1.domain[1] <= y2.domain[0] or y2.domain[1] <= y1.domain[0]
        assert apart_x or apart_y


@pytest.mark.parametrize(("value", "top"), [(0.62, 0.7), (1.0, 1.0), (0.0123, 0.015), (0.0, 1.0), (float("inf"), 1.0)])
def test_round_up_moves_in_steps(value, top):
    assert round_up(value) == pytest.approx(top)


# ---------------------------------------------------------------- text


def test_text_in_figures_is_never_markup():
    assert escape_text(HOSTILE, 99) == (
        "&lt;b&gt;7&lt;/b&gt;&lt;br&gt;&lt;a href='javascript:1'&gt;x&lt;/a&gt; &#36;x^2&#36;"
    )
    figure = plot_small_multiples({HOSTILE: BASE}, notes={HOSTILE: HOSTILE}, columns=2)
    shown = [a.text for a in figure.layout.annotations] + [t.name for t in figure.data]
    for text in shown:
        assert "<a" not in text and "$" not in text and "<b>7" not in text
    overlay = plot_overlay({HOSTILE: BASE})
    assert "<" not in overlay.data[0].name


def test_long_and_broken_names_are_one_short_line():
    assert escape_text("a\nb\x00c\u202ed") == "a b c d"
    assert escape_text("%{y} 5 %") == "&#37;{y} 5 %", "Plotly would put a value in its place"
    assert len(escape_text("x" * 500)) == 40
    assert title_of("/models/" + "x" * 99).endswith("…")


# ---------------------------------------------------------------- looks


def test_every_loss_and_the_base_have_a_look_and_the_papers_title():
    assert set(COLOURS) == {"base", *LOSSES}
    assert {name: TITLES[name] for name in LOSSES} == {name: loss.title for name, loss in LOSSES.items()}
    assert len(set(COLOURS.values())) == len({look.marker for look in LOOKS.values()}) == 9


def _linear(colour):
    channel = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)


def _lab(linear):
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = matrix @ np.clip(linear, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira and Fernandes 2009, full severity.
SIGHT = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_are_told_apart_by_every_sight(sight):
    seen = {n: _lab(np.array(SIGHT[sight]) @ _linear(c)) for n, c in COLOURS.items() if n != "del_released"}
    closest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen.values(), 2))
    assert closest > 20


@pytest.mark.parametrize("name", COLOURS)
def test_colours_stand_out_in_light_and_dark(name):
    luminance = float(_linear(COLOURS[name]) @ [0.2126, 0.7152, 0.0722])
    dark = float(_linear("#171614") @ [0.2126, 0.7152, 0.0722])
    assert 1.05 / (luminance + 0.05) > 2.5 and (luminance + 0.05) / (dark + 0.05) > 2.5


def test_plots_import_neither_torch_nor_streamlit():
    code = "import sys, delcore.plots; print({'torch', 'transformers', 'streamlit', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr


# ---------------------------------------------------------------- digits by place


def places(*shares):
    return {place: wilson_interval(hits, 20) for place, hits in shares}


def test_place_accuracy_shows_the_given_shares_from_the_highest_place_down():
    figure = plot_place_accuracy({"mle": places((-1, 5), (1, 20), (0, 10)), HOSTILE: places((0, 0))})
    mle, other = figure.data
    assert (mle.name, tuple(mle.x), tuple(mle.y)) == ("MLE", (1, 0, -1), (1.0, 0.5, 0.25))
    assert mle.marker.color == COLOURS["mle"] != other.marker.color
    assert mle.error_y.array[0] == 0.0 and mle.error_y.arrayminus[0] == pytest.approx(1 - wilson_interval(20, 20).low)
    assert figure.layout.xaxis.ticktext == ("tens", "units", "tenths")
    assert figure.layout.xaxis.range[0] > figure.layout.xaxis.range[1]
    assert "<" not in other.name and "$" not in other.name


def test_place_accuracy_gives_each_model_a_look_and_takes_no_models_or_places():
    figure = plot_place_accuracy({f"model-{i}": places((0, i)) for i in range(7)})
    assert len({(line.marker.color, line.marker.symbol) for line in figure.data}) == 7
    family = plot_place_accuracy({"embedded": places((0, 3)), "embedded:del": places((0, 3))}).data
    assert [line.name for line in family] == ["embedded", "embedded:del"]
    assert family[1].marker.color == COLOURS["del"] != family[0].marker.color
    assert len(plot_place_accuracy({}).data) == 0
    assert plot_place_accuracy({"mle": {}}).data[0].x == ()
    assert [place_title(place) for place in (4, 2, -1, -12)] == ["10⁴", "hundreds", "tenths", "10⁻¹²"]


def test_figure_html_carries_the_library_once_and_no_markup_of_a_name():
    figure = plot_place_accuracy({"</script><script>alert(1)</script>": places((0, 3))})
    alone = figure_html(figure, "here", with_library=False)
    assert 'id="here"' in alone and len(alone) < 20_000 and "<script>alert" not in alone
    assert len(figure_html(figure, "here", with_library=True)) > 1_000_000
