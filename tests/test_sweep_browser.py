"""The figure of a sweep in headless Chromium: readable on a phone."""

import itertools

import pytest

from delcore.losses import LOSSES
from delcore.plots import plot_sweep, write_page
from delcore.sweep import MEASURES, tabulate
from tests.screenshots import browser

pytestmark = pytest.mark.browser


def overlap(one: dict, other: dict) -> bool:
    return all(
        one[start] < other[start] + other[size] - 1 and other[start] < one[start] + one[size] - 1
        for start, size in (("x", "width"), ("y", "height"))
    )


@pytest.mark.parametrize("width", [400, 1280])
def test_no_text_of_the_figure_is_cut_or_covers_another(tmp_path, width):
    finals = {
        loss: {seed: dict.fromkeys(MEASURES, 0.5 + seed / 10 + i / 50) for seed in range(3)}
        for i, loss in enumerate(LOSSES)
    }
    write_page(plot_sweep(tabulate(finals)), tmp_path / "figure.html", "Sweep")
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": width, "height": 800})
        page.goto((tmp_path / "figure.html").as_uri())
        page.wait_for_selector(".x8tick text")
        boxes = [box for text in page.locator(".main-svg text").all() if (box := text.bounding_box())]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert len(boxes) > 4 * len(LOSSES) + 2 * len(MEASURES)
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    assert not [(one, other) for one, other in itertools.combinations(boxes, 2) if overlap(one, other)]
