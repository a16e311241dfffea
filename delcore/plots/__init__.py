"""Figures: a result in, a Plotly figure out. No model, no torch; only `write_page` makes files.

Each loss has one colour and one second cue (dash and marker) in every figure. The seven colours and the base's grey
differ by at least 20 CIELAB units from one another for normal, protan, deutan and tritan sight, and stand out on
white and on near-black; backgrounds are transparent, so a page's own theme shows through (a log of a run is white).
Axes name unit and n; caveats stand beneath the title; names and texts are escaped, never markup.
"""

from delcore._panels import escape_text
from delcore.plots.distributions import (
    plot_differences,
    plot_gradients,
    plot_metrics,
    plot_overlay,
    plot_small_multiples,
)
from delcore.plots.frames import untitled
from delcore.plots.geometry import plot_layers, plot_pca, plot_similarity, plot_tsne
from delcore.plots.lab import plot_levels, plot_loss_steps
from delcore.plots.logs import plot_logs
from delcore.plots.looks import COLOURS, TITLES, figure_html, show_static, title_of, write_page
from delcore.plots.measures import plot_calibration, plot_confusion, plot_intervals, plot_measured
from delcore.plots.places import place_title, plot_place_accuracy
from delcore.plots.studies import measure_title, plot_variants
from delcore.plots.sweeps import plot_sweep
from delcore.plots.theory import (
    plot_criteria,
    plot_equilibria,
    plot_held_levels,
    plot_number_weights,
    plot_place_weights,
    plot_pull,
)

__all__ = [
    "COLOURS",
    "TITLES",
    "escape_text",
    "figure_html",
    "measure_title",
    "place_title",
    "plot_calibration",
    "plot_confusion",
    "plot_criteria",
    "plot_differences",
    "plot_equilibria",
    "plot_gradients",
    "plot_held_levels",
    "plot_intervals",
    "plot_layers",
    "plot_levels",
    "plot_logs",
    "plot_loss_steps",
    "plot_measured",
    "plot_metrics",
    "plot_number_weights",
    "plot_overlay",
    "plot_pca",
    "plot_place_accuracy",
    "plot_place_weights",
    "plot_pull",
    "plot_similarity",
    "plot_small_multiples",
    "plot_sweep",
    "plot_tsne",
    "plot_variants",
    "show_static",
    "title_of",
    "untitled",
    "write_page",
]
