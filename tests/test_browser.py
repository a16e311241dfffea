"""The main journeys in real headless Chromium, against a real server with the real embedded family."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.screenshots import APP, serve, wait_for_picture, wait_until_idle

pytestmark = pytest.mark.browser


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
    return page.locator("[class*=st-key-digit-] button").all_inner_texts()


def settle(page):
    """Until a click or a key has had its effect."""
    page.wait_for_timeout(500)
    wait_until_idle(page)


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
    page.locator(".st-key-digit-2 button").click()
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


@pytest.mark.parametrize("view", ["Overlay", "Change"])
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
    pieces = page.locator(".st-key-strip .stText, .st-key-strip [class*=st-key-digit-]").all_inner_texts()
    assert "".join("".join(pieces).split()) == "".join(prompt.split()) + "?"
    assert strip(page) == [*[c for c in prompt if c.isdigit()], "?"]


def test_html_as_a_model_name_makes_no_element(page):
    page.get_by_text("Step through a continuation").click()
    box, name = page.locator(".st-key-others input"), "/<img src=x onerror=alert(1)>/<b>m</b>"
    settle(page)  # the box moves while it unfolds, and loses what is typed
    box.click()
    box.press_sequentially(name)
    expect(box).to_have_value(name)
    page.keyboard.press("Enter")
    settle(page)
    page.get_by_text("The other model cannot be shown.").wait_for()
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
    assert page.locator(".js-plotly-plot:visible").count() == 1
    before = bars(page)
    page.get_by_role("slider", name="DIST2Loss: α").press("End")
    page.wait_for_timeout(800)
    wait_until_idle(page)
    assert bars(page) != before


def test_arrow_keys_step_through_the_digits_but_not_while_typing(page):
    ask(page, "12 + 35 = ")
    page.get_by_role("heading", name="Which digit comes next?").click()
    page.keyboard.press("ArrowLeft")
    settle(page)
    page.keyboard.press("ArrowLeft")
    settle(page)
    assert page.url.endswith("position=2")
    page.get_by_role("textbox", name="Prompt").focus()
    page.keyboard.press("ArrowLeft")
    settle(page)
    assert page.url.endswith("position=2")


def test_link_opens_the_same_picture_in_a_second_browser_and_after_a_reload(page, chromium):
    ask(page, "7 & 8 = <b>9</b> ")
    page.locator(".st-key-digit-1 button").click()
    settle(page)
    page.get_by_text("Overlay", exact=True).click()
    settle(page)
    other = chromium.new_context(viewport={"width": 1280, "height": 800}).new_page()
    other.goto(page.url)
    wait_for_picture(other)
    points = ".js-plotly-plot:visible .scatterlayer path"
    shapes = page.locator(points).evaluate_all("all => all.map(p => p.getAttribute('d'))")
    for opened in (other, page):
        if opened is page:
            page.reload()
            wait_for_picture(page)
        assert opened.get_by_role("textbox", name="Prompt").input_value() == "7 & 8 = <b>9</b> "
        assert strip(opened) == ["7", "8", "9", "?"]
        assert opened.locator(points).evaluate_all("all => all.map(p => p.getAttribute('d'))") == shapes
    other.close()


def test_widgets_in_a_closed_popover_keep_what_the_link_says(page, server):
    page.goto(f"{server.url}/?temperature=0.5&reference=mle")
    wait_for_picture(page)
    page.get_by_role("button", name="Sample again").click()
    settle(page)
    page.get_by_role("button", name="T = 0.50").click()
    expect(page.get_by_role("spinbutton", name="Temperature")).to_have_value("0.50")


def test_table_and_picture_can_be_saved(page, tmp_path):
    for name, begin in (("CSV", b"index,text,place"), ("JSON", b"{")):
        with page.expect_download() as saved:
            page.get_by_role("button", name=name, exact=True).click()
        saved.value.save_as(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin)
    page.get_by_text("SVG", exact=True).click()
    settle(page)
    page.locator(".js-plotly-plot:visible").hover()
    with page.expect_download() as saved:
        page.locator(".js-plotly-plot:visible .modebar-btn").click()
    assert saved.value.suggested_filename == "delcore-panels-4.svg"


def test_steps_play_and_keep_what_stands_still(page, server):
    page.goto(f"{server.url}/loss_lab?tab=Gradient+steps&steps=10")
    wait_for_picture(page)
    before = bars(page)
    page.locator("text=▶ play").locator("visible=true").first.click()
    page.wait_for_timeout(2500)
    assert len(bars(page)) == len(before) == 7 * 20


def test_page_left_and_opened_again_is_as_it_was(page):
    ask(page, "12 + 35 = ")
    page.get_by_role("link", name="Loss lab").click()
    page.get_by_text("Where does each loss lead?").wait_for()
    settle(page)
    assert page.url.endswith("/loss_lab") and page.get_by_text("cannot be used").count() == 0
    page.get_by_role("link", name="Explore").click()
    page.get_by_text("Which digit comes next?").wait_for()
    wait_for_picture(page)
    assert strip(page) == ["1", "2", "3", "5", "?"]


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


LABELS = (
    "see https://x.example or www.x.example or a@x.example",
    ":red[9] :material/home: :streamlit: :smile: $x$ <b>7</b> &lt;",
    "a -> b <- c <-> d -- e >= f <= g ~= h",
    "**a** _b_ `c` [d](https://x.example) ~e~ ![f](g) #h",
)


def test_label_stands_letter_by_letter(chromium, tmp_path):
    app = tmp_path / "labels.py"
    app.write_text(
        f"import sys\nsys.path.insert(0, {str(APP.parent)!r})\nimport parts\nimport streamlit as st\n"
        f"for i, text in enumerate({LABELS!r}):\n    st.markdown('“' + parts.escape_markdown(text) + '”')\n"
    )
    with serve(app) as running:
        page = chromium.new_page()
        page.goto(running.url)
        shown = page.locator(".stMarkdown p")
        expect(shown).to_have_count(len(LABELS))
        assert [text.replace("\N{WORD JOINER}", "") for text in shown.all_inner_texts()] == [f"“{t}”" for t in LABELS]
        assert not page.locator(".stMarkdown p *").count(), "a text made an element"
        page.close()


def test_table_saves_through_the_button_that_disarms_formulas(page, server):
    page.goto(f"{server.url}/?tab=Numbers&text=%3D1%2B1")
    wait_until_idle(page)
    page.locator(".stDataFrame").hover()
    expect(page.get_by_role("button", name="Search: Tokens")).to_be_visible()
    expect(page.locator("[aria-label^='Download as CSV']")).to_have_count(1)
    expect(page.locator("[aria-label^='Download as CSV']")).to_be_hidden()
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV", exact=True).click()
    assert "\nembedded,'=," in Path(saved.value.path()).read_text()
