"""How a model looks in every figure, and how a figure is shown where no script runs."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import plotly.graph_objects as go
import plotly.io

from delcore._panels import LOOKS, escape_text, look_of

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<body style="margin:16px;background:#fff">{body}</body></html>
"""

COLOURS: Mapping[str, str] = MappingProxyType({name: look.colour for name, look in LOOKS.items()})
"""One colour per loss, and "base", the same in every figure."""

TITLES: Mapping[str, str] = MappingProxyType({name: look.title for name, look in LOOKS.items()})
"""As `delcore.LOSSES` titles them, without loading torch; a test compares the two."""


def title_of(name: str) -> str:
    """How a figure writes a loss's name; any other name is escaped."""
    return look_of(name).title


def show_static(width: int = 960) -> None:
    """With `DELCORE_STATIC` set, let a notebook store its figures as PNG (through kaleido and Chromium)."""
    if os.environ.get("DELCORE_STATIC"):
        plotly.io.renderers.default = "png"
        plotly.io.renderers["png"].width = width


def figure_html(figure: go.Figure, div_id: str, *, with_library: bool) -> str:
    """A figure as part of a page.

    Args:
        figure: any.
        div_id: of its element; one of its own on the page.
        with_library: whether plotly.js (some 5 MB) comes with it, as it must with the first figure of a page.
    """
    return figure.to_html(
        full_html=False, include_plotlyjs=with_library, div_id=div_id, config={"displayModeBar": False}
    )


def write_page(figure: go.Figure, file: Path, title: str) -> None:
    """A figure as a page of its own, which needs neither a network nor another file: plotly.js (some 5 MB) is in it."""
    from delcore.checkpoints import write_synced  # loads torch, which a figure must not wait for

    config = {"toImageButtonOptions": {"format": "svg"}, "displaylogo": False}
    body = figure.to_html(full_html=False, include_plotlyjs=True, config=config)
    write_synced(file, lambda stream: stream.write(PAGE.format(title=escape_text(title), body=body).encode()))
