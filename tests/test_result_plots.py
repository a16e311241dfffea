"""Figures of results: the numbers are the result's, axes name unit and n, caveats are shown, text is only text."""

import dataclasses
import itertools

import numpy as np
import plotly.graph_objects as go
import pytest

from delcore.analysis import (
    Axis,
    CriterionFits,
    DigitEmbeddings,
    EquilibriumScan,
    Measured,
    Provenance,
    measure_calibration,
    measure_confusion,
    measure_digits_by,
    measure_gap_by,
    measure_place_weights,
    measure_similarity,
    project_pca,
    project_tsne,
    scan_held_levels,
    scan_pull,
)
from delcore.analysis.outcomes import SCAN_CAVEATS, TSNE_CAVEATS
from delcore.errors import InputError
from delcore.intervals import Interval
from delcore.plots import (
    COLOURS,
    TITLES,
    plot_calibration,
    plot_confusion,
    plot_criteria,
    plot_equilibria,
    plot_held_levels,
    plot_intervals,
    plot_layers,
    plot_measured,
    plot_pca,
    plot_place_weights,
    plot_pull,
    plot_similarity,
    plot_sweep,
    plot_tsne,
    write_page,
)
from delcore.plots.sweeps import AXES
from delcore.sweep import MEASURES, tabulate
from tests.test_digit_analysis import draw, made_up, one_hot
from tests.test_plots import HOSTILE

NAMES = ("mle", "del", HOSTILE)


def embeddings(layer=None, name=HOSTILE, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((10, 4))
    kind = "input" if layer is None else "contextual"
    return DigitEmbeddings(vectors, kind, "" if layer is None else "number", layer, True, 2, Provenance(name))


def scan():
    shape = (2, 1, 3, 1)
    entropy = np.arange(6.0).reshape(shape)
    attained = np.ones(shape, bool)
    attained[1, 0, 2, 0] = False
    names = (("mle", "del"), (HOSTILE,), (0.1, 0.2, 0.4), (1.0,))
    return EquilibriumScan(*names, np.ones(1), entropy, entropy, attained, np.full((*shape, 10), 0.1), Provenance())


def fits():
    rows = np.array([[0.0, 0.8, 0.5], [0.9, 0.5, 0.0]])
    return CriterionFits(("ntl_was", "del"), ("p̂", "−log p̂", HOSTILE), rows, rows, np.zeros((2, 3, 10, 10)), rows,
                         Provenance())  # fmt: skip


def layers():
    return [measure_similarity(embeddings(layer, seed=layer), permutations=9) for layer in range(3)]


P = draw(0, 60)
BUILD = {
    "measured": lambda: plot_measured(
        {name: measure_digits_by(P, "entropy_nats", "digit", draws=20) for name in NAMES}
    ),
    "gap": lambda: plot_measured({"del": measure_gap_by(P, P, "digit", draws=20)}),
    "intervals": lambda: plot_intervals(
        dict.fromkeys(NAMES, Interval(0.1, None, None, 1)), title=HOSTILE, x_title="gap (nats)"
    ),
    "calibration": lambda: plot_calibration({name: measure_calibration(P, draws=20) for name in NAMES}),
    "confusion": lambda: plot_confusion(measure_confusion(P)),
    "equilibria": lambda: plot_equilibria(scan()),
    "laws": lambda: plot_equilibria(scan(), "laws"),
    "held levels": lambda: plot_held_levels(
        scan_held_levels("del", (0.1,) * 10, [9.0, 2.0]), "del", {"del": (2.0, 0.1), HOSTILE: (9.0, 0.0)}
    ),
    "pull": lambda: plot_pull(scan_pull(["mle", "emo"], [0.1, 0.5])),
    "places": lambda: plot_place_weights(measure_place_weights()),
    "criteria": lambda: plot_criteria(fits()),
    "similarity": lambda: plot_similarity(measure_similarity(embeddings(), permutations=9)),
    "pca": lambda: plot_pca(project_pca(embeddings())),
    "tsne": lambda: plot_tsne(project_tsne(embeddings(), perplexities=[2, 3], seeds=[0, 1])),
    "layers": lambda: plot_layers({"number": layers(), "symbol": layers(), HOSTILE: layers()}),
}


@pytest.fixture(scope="module")
def figures():
    return {name: build() for name, build in BUILD.items()}


def texts(part):
    """Every text of a figure, wherever it stands."""
    if isinstance(part, dict):
        return [text for key, value in part.items() if key != "hovertemplate" for text in texts(value)]
    if isinstance(part, list | tuple | np.ndarray):
        return [text for value in part for text in texts(value)]
    return [part] if isinstance(part, str) else []


@pytest.mark.parametrize("name", BUILD)
def test_figure_is_valid_titled_and_transparent(name, figures):
    figure = figures[name]
    assert len(go.Figure(figure.to_dict()).data) == len(figure.data)
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        assert axis.title.text or name in ("tsne", "intervals")
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert figure.layout.title.text and figure.layout.font.color is None


@pytest.mark.parametrize("name", BUILD)
def test_text_is_never_markup(name, figures):
    for text in texts(figures[name].to_dict()):
        assert "<a" not in text and "<b>7" not in text and "$" not in text and "&amp;" not in text, text


COMPUTED = {"gap", "equilibria", "laws", "held levels", "places", "criteria", "pull"}


@pytest.mark.parametrize("name", sorted(set(BUILD) - COMPUTED))
def test_measured_figures_say_how_many_observations_are_behind_them(name, figures):
    figure = figures[name]
    assert any("n = " in (axis.title.text or "") for axis in [*figure.select_xaxes(), *figure.select_yaxes()])


def test_lines_show_the_results_numbers_with_colour_dash_and_marker():
    result = measure_digits_by(P, "entropy_nats", "digit", draws=20)
    figure = plot_measured({"mle": result, "del": result}, reference=2.3)
    for trace, name in zip(figure.data, ("mle", "del"), strict=True):
        assert trace.y == pytest.approx(result.values) and trace.name == TITLES[name]
        assert trace.line.color == COLOURS[name]
        assert trace.error_y.array == pytest.approx(np.nan_to_num(result.high - result.values))
    assert len({(trace.line.dash, trace.marker.symbol) for trace in figure.data}) == 2
    assert figure.layout.yaxis.title.text == "digit entropy (nats)"
    assert figure.layout.shapes[0].y0 == 2.3


def test_only_differences_have_a_line_at_zero():
    gap = plot_measured({"del": measure_gap_by(P, P, "digit", draws=20)})
    assert gap.layout.shapes[0].y0 == 0
    assert not plot_measured({"del": measure_digits_by(P, "mass", "digit", draws=20)}).layout.shapes


def test_interval_without_ends_has_no_bar_and_zero_is_marked():
    figure = plot_intervals(
        {"mle": Interval(0.1, None, None, 1), "del": Interval(0.2, 0.1, 0.4, 5)}, title="t", x_title="gap (nats)"
    )
    assert figure.data[0].error_x.array is None
    assert figure.data[1].error_x.array == pytest.approx([0.2]) and figure.data[1].error_x.arrayminus == (0.1,)
    assert figure.layout.shapes[0].x0 == 0 and "n = 1 … 5 seeds" in figure.layout.xaxis.title.text
    assert figure.layout.yaxis.categoryarray == ("DEL", "MLE")


def test_caveats_stand_beneath_the_title(figures):
    subtitle = figures["tsne"].layout.title.subtitle.text.replace("<br>", " ")
    assert all(caveat in subtitle for caveat in TSNE_CAVEATS)
    assert SCAN_CAVEATS[0] in figures["equilibria"].layout.title.subtitle.text.replace("<br>", " ")
    assert "ECE" in figures["calibration"].layout.title.subtitle.text
    assert "by chance" in figures["calibration"].layout.title.subtitle.text
    assert "p = " in figures["similarity"].layout.title.subtitle.text


def test_tsne_has_a_panel_per_perplexity_and_seed_and_names_them(figures):
    figure = figures["tsne"]
    assert len(figure.data) == 4 and all(list(trace.text) == list("0123456789") for trace in figure.data)
    heads = [annotation.text for annotation in figure.layout.annotations]
    for trace, axis in zip(figure.data, figure.select_yaxes(), strict=True):
        assert axis.range[0] < min(trace.y) and axis.range[1] - max(trace.y) > 0.2 * np.ptp(trace.y)
    for perplexity, seed in itertools.product((2, 3), (0, 1)):
        assert any(head.startswith(f"perplexity {perplexity}, seed {seed};") for head in heads)


def test_equilibria_that_are_not_attained_are_hollow(figures):
    figure = figures["equilibria"]
    assert list(figure.data[1].marker.symbol) == ["star", "star", "star-open"]
    assert figure.layout.xaxis.type == "log" and figure.data[0].y == (-1, 0, 1)
    with pytest.raises(InputError, match="`along`"):
        plot_equilibria(scan(), "weeks")


def test_equilibria_at_the_default_weights_say_so():
    alone = {"entropy_nats": np.ones((2, 1, 1, 1)), "kl_nats": np.ones((2, 1, 1, 1))}
    alone |= {"attained": np.ones((2, 1, 1, 1), bool), "probabilities": np.full((2, 1, 1, 1, 10), 0.1)}
    title = plot_equilibria(dataclasses.replace(scan(), alphas=(None,), **alone), "us").layout.title.text
    assert "α default" in title and "None" not in title


def test_pull_has_a_line_per_loss_over_a_logarithmic_axis(figures):
    figure = figures["pull"]
    assert [trace.name for trace in figure.data] == [TITLES["mle"], TITLES["emo"]]
    assert figure.data[0].x == (0.1, 0.5) and figure.data[0].y == pytest.approx((1, 1))
    assert figure.layout.xaxis.type == "log" and figure.layout.xaxis.ticktext == ("0.1", "0.5")


def test_place_weights_leave_the_point_out_and_tell_the_jump(figures):
    figure = figures["places"]
    assert [trace.name for trace in figure.data] == ["decimal", "integer", "none", "released"]
    assert np.isnan(figure.data[0].y[3]) and "integer +2 (×3)" in figure.layout.title.subtitle.text
    assert plot_place_weights(measure_place_weights("12")).layout.title.subtitle.text == ""


def test_confusion_leaves_empty_rows_empty():
    figure = plot_confusion(measure_confusion(made_up(one_hot([1, 2]), [1, 2])))
    heat = figure.data[0]
    assert heat.text[0][0] == "" and heat.text[1][1] == "1.00"
    assert figure.layout.yaxis.autorange == "reversed"


def test_layers_are_filled_where_p_is_small():
    found = layers()
    figure = plot_layers({"number": found})
    assert [s.endswith("-open") for s in figure.data[0].marker.symbol] == [one.p_value >= 0.05 for one in found]
    with pytest.raises(InputError, match="have a layer"):
        plot_layers({"number": [measure_similarity(embeddings(), permutations=9)]})


def test_results_that_do_not_belong_together_are_refused():
    entropy, mass = (measure_digits_by(P, measure, "all", draws=20) for measure in ("entropy_nats", "mass"))
    for results in ({"mle": entropy, "del": mass}, {"mle": entropy, "del": measure_confusion(P)}, {}):
        with pytest.raises(InputError, match="`results`"):
            plot_measured(results)
    gap, other = (measure_gap_by(P, P, "all", measure=measure, draws=20) for measure in ("entropy_nats", "mass"))
    for results in ({"mle": entropy, "del": gap}, {"mle": gap, "del": entropy}, {"mle": gap, "del": other}):
        with pytest.raises(InputError, match="`results`"):
            plot_measured(results)
    with pytest.raises(InputError, match="two axes"):
        plot_confusion(entropy)
    with pytest.raises(InputError, match="`results`"):
        plot_calibration({})


def test_result_without_observations_is_drawn_empty():
    nothing = Measured(
        "digit mass", "", (Axis("place", "", (0,)),), np.array([np.nan]), np.array([0]), Provenance(),
        np.array([np.nan]), np.array([np.nan]),
    )  # fmt: skip
    figure = plot_measured({"mle": nothing})
    assert "n = 0" in figure.layout.xaxis.title.text and figure.to_json()


# ---------------------------------------------------------------- sweeps


def test_sweep_shows_every_measure_and_difference_of_its_table():
    finals = {
        loss: {seed: dict.fromkeys(MEASURES, 0.5 + seed / 10 + shift) for seed in range(3)}
        for loss, shift in (("mle", 0.0), ("del", 0.01))
    }
    rows = tabulate(finals)
    figure = plot_sweep(rows)
    assert list(AXES) == list(MEASURES)
    assert len(figure.data) == 3 * len(MEASURES)  # two values and a difference for each
    for number, measure in enumerate(MEASURES):
        assert figure.layout[f"xaxis{2 * number + 1 if number else ''}"].title.text == AXES[measure]
    shown = {(trace.y[0], trace.xaxis): trace for trace in figure.data}
    own = {(row.loss, row.measure): row for row in rows}
    assert shown["DEL", "x"].x[0] == own["del", "cross_entropy"].value.mean
    assert shown["DEL", "x2"].x[0] == pytest.approx(0.01)
    interval = own["mle", "cross_entropy"].value
    assert shown["MLE", "x"].error_x.array[0] == pytest.approx(interval.high - interval.mean)


def test_sweep_of_one_seed_has_no_intervals_and_of_none_is_refused():
    figure = plot_sweep(tabulate({"del": {0: dict.fromkeys(MEASURES, 0.5)}}))
    assert [trace.error_x.array[0] for trace in figure.data] == [0.0] * len(MEASURES)
    with pytest.raises(InputError, match="no run"):
        plot_sweep([])


def test_page_of_a_figure_needs_no_network(tmp_path):
    write_page(plot_sweep(tabulate({"del": {0: dict.fromkeys(MEASURES, 0.5)}})), tmp_path / "f.html", "<b>Sweep</b>")
    page = (tmp_path / "f.html").read_text()
    assert "&lt;b&gt;Sweep" in page
    assert "src=" not in page.split("<div")[0]
    assert [file.name for file in tmp_path.iterdir()] == ["f.html"]
    assert len(page) > 1e6
