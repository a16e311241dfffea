"""The report's page in headless Chromium: drawn, in either theme, on a narrow window, with no script of a model's."""

import pytest

from delcore.reports.report import write_report
from tests.benchmarks.runs_for_tests import header, records, write_run

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)></td><script>alert(2)</script> $x$ " + "long-name-" * 20


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    lines = records("42", None, "41", output=HOSTILE)
    one = write_run(folder / "one", lines)
    settings = {**header(len(lines))["settings"], HOSTILE: HOSTILE}
    other = write_run(folder / "other", lines, model=HOSTILE, model_fingerprint=HOSTILE, settings=settings)
    return write_report([one, other])[1].as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_drawn_in_either_theme_and_runs_no_script_of_a_models(chromium, report, scheme):
    page = chromium.new_page(viewport={"width": 400, "height": 800}, color_scheme=scheme)
    said = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: said.append(request.url) if request.url != report else None)
    page.goto(report)
    page.wait_for_selector(".js-plotly-plot .scatterlayer .trace")
    colours = "element => [getComputedStyle(element).fill, getComputedStyle(document.body).color]"
    fill, ink = page.locator(".xtick text").first.evaluate(colours)
    assert fill == ink
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.locator("img").count() == 0
    assert not said
    page.close()
