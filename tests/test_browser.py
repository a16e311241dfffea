"""The main journeys in real headless Chromium, against a real server with the real embedded family."""

import pytest

from tests.screenshots import CHROMIUM, browser, serve, wait_for_picture, wait_until_idle

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def server():
    with serve() as running:
        yield running


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.fixture
def page(chromium, server):
    opened = chromium.new_page(viewport={"width": 1280, "height": 800})
    opened.console_errors = []
    opened.on("pageerror", lambda error: opened.console_errors.append(str(error)))
    opened.on("dialog", lambda dialog: opened.console_errors.append(f"dialog: {dialog.message}"))
    opened.goto(server.url)
    wait_for_picture(opened)
    yield opened
    assert not opened.console_errors
    opened.close()
    log = server.log.read_text()
    assert "Traceback" not in log, log


def ask(page, prompt):
    """Type a prompt and wait until the strip shows what follows from it."""
    page.get_by_role("textbox", name="Prompt").fill(prompt)
    page.get_by_role("button", name="Show digits").click()
    page.wait_for_timeout(500)
    wait_until_idle(page)


def bars(page) -> list[str]:
    """Shapes of all bars of the visible figures, which change with the numbers."""
    return page.locator(".js-plotly-plot:visible .bars path").evaluate_all("all => all.map(b => b.getAttribute('d'))")


def strip(page) -> list[str]:
    return page.locator(".st-key-strip button").all_inner_texts()


def test_first_screen_shows_a_picture_without_scrolling(page):
    figure = page.locator(".js-plotly-plot:visible")
    assert figure.count() == 1
    box = figure.bounding_box()
    assert box["y"] + 200 < 800 and box["width"] > 1000
    assert len(bars(page)) == 7 * 20  # a model's and the base's ten bars in each panel
    assert page.locator("text=MLE").first.is_visible()


def test_new_prompt_gives_a_new_picture_and_its_digits_can_be_clicked(page):
    before = bars(page)
    ask(page, "12 + 35 = ")
    after = bars(page)
    assert strip(page) == ["1", "2", "3", "5", "?"]
    assert len(after) == len(before) and after != before
    page.locator(".st-key-strip button").nth(2).click()
    page.wait_for_timeout(500)
    wait_until_idle(page)
    assert bars(page) != after


def test_example_fills_the_box(page):
    page.get_by_text("carry", exact=True).click()
    page.wait_for_timeout(500)
    wait_until_idle(page)
    assert page.get_by_role("textbox", name="Prompt").input_value() == "58 + 67 = "
    assert strip(page) == ["5", "8", "6", "7", "?"]


def test_continuation_can_be_stepped_through(page):
    ask(page, "gauge G shows ")
    page.get_by_text("Step through a continuation").click()
    page.get_by_text("Let a model write on").click()
    page.wait_for_timeout(500)
    wait_until_idle(page)
    assert strip(page)[-1] == "?"


@pytest.mark.parametrize("view", ["Overlay", "Change to base"])
def test_other_views_show_one_figure(page, view):
    page.get_by_text(view, exact=True).click()
    page.wait_for_timeout(500)
    wait_for_picture(page)
    assert page.locator(".js-plotly-plot:visible").count() == 1


@pytest.mark.parametrize("prompt", ["<img src=x onerror=alert(1)> 12", "<b>7</b>", "</div><script>alert(1)</script>"])
def test_html_in_a_prompt_makes_no_element(page, prompt):
    ask(page, prompt)
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("[data-testid=stMain] script").count() == 0
    shown = "".join(page.locator(".st-key-strip").inner_text().split())
    assert shown == "".join(prompt.split()) + "?"
    assert strip(page) == [*[c for c in prompt if c.isdigit()], "?"]


def test_html_as_a_model_name_makes_no_element(page):
    page.get_by_text("Step through a continuation").click()
    page.get_by_role("textbox", name="Another model").fill("/<img src=x onerror=alert(1)>/<b>m</b>")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_timeout(500)
    wait_until_idle(page)
    assert page.get_by_text("The other model cannot be shown.").is_visible()
    assert page.locator("img[src=x]").count() == 0
    assert page.get_by_text("<b>m</b>").first.is_visible()


def test_empty_prompt_is_told_and_the_next_one_works(page):
    ask(page, "  ")
    assert page.get_by_text("The prompt is empty").is_visible()
    ask(page, "3 + 4 = ")
    wait_for_picture(page)
    assert strip(page) == ["3", "4", "?"]


def test_hebrew_prompt_runs_from_right_to_left_and_keeps_its_digits_in_order(page):
    ask(page, 'המחיר הוא 12 ש"ח')
    assert strip(page) == ["1", "2", "?"]
    box = page.get_by_role("textbox", name="Prompt")
    assert box.evaluate("e => getComputedStyle(e).unicodeBidi") == "plaintext"


def test_loss_lab_opens_and_follows_a_slider(page):
    page.get_by_role("link", name="Loss lab").click()
    page.get_by_text("Where does each loss lead?").wait_for()
    page.wait_for_timeout(500)
    wait_for_picture(page)
    assert page.locator(".js-plotly-plot:visible").count() == 2
    before = bars(page)
    page.get_by_role("slider", name="DIST2Loss: α").press("End")
    page.wait_for_timeout(800)
    wait_until_idle(page)
    assert bars(page) != before


@pytest.mark.parametrize("path", ["/", "/loss_lab"])
def test_narrow_window_shows_two_panels_a_row_and_no_sideways_scroll(chromium, server, path):
    narrow = chromium.new_page(viewport={"width": 400, "height": 800})
    narrow.goto(server.url + path)
    wait_for_picture(narrow)
    box = narrow.locator(".js-plotly-plot:visible").first.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 400 and box["height"] > 700
    main = narrow.locator("[data-testid=stMain]")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    assert box["y"] < 600, "the first screen shows a result"
    narrow.close()


def test_server_starts_on_a_free_port_and_logs_no_traceback(server, page):
    """B46: with torch loaded and the page open the log holds no complaint of a file watcher."""
    ask(page, "1 + 1 = ")
    log = server.log.read_text()
    assert "torch.classes" not in log and "Traceback" not in log
    assert "deprecat" not in log.lower()
