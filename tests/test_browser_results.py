"""Embeddings, Results and a workshop's server in real headless Chromium."""

import json

import pytest

from tests.benchmarks.runs_for_tests import record, write_run
from tests.measure_workshop import count_mixed, measure_browsers, measure_clients
from tests.screenshots import open_claim, serve, wait_for_picture, wait_until_idle

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)> **7**"


@pytest.fixture(scope="module")
def workshop():
    with serve(workshop=True) as running:
        yield running


@pytest.fixture
def visit(chromium):
    """Opens addresses, and at the end looks for what went wrong on any page and in the log."""
    pages, errors, servers = [], [], []

    def open_page(running, path, width=1280):
        page = chromium.new_page(viewport={"width": width, "height": 800})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}"))
        page.goto(running.url + path)
        pages.append(page)
        servers.append(running)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert not errors
    for running in servers:
        log = running.log.read_text() if running.log.exists() else ""  # a test's own server has taken its log along
        assert "Traceback" not in log and "torch.classes" not in log, log


def dots(page):
    return page.locator(".js-plotly-plot:visible .points path").evaluate_all("all => all.map(b => b.outerHTML)")


def test_first_address_of_a_new_server_may_be_any_page(visit):
    """Streamlit would run a page without its app's script where their folder is called `pages`."""
    with serve() as fresh:
        page = visit(fresh, "/embeddings")
        wait_for_picture(page)
        assert page.get_by_role("link", name="Loss lab").first.is_visible()
        assert page.locator("[data-testid=stMainBlockContainer]").bounding_box()["width"] > 1200


def test_embeddings_show_both_figures_and_follow_the_seed(visit, server):
    page = visit(server, "/embeddings?map=t-SNE")
    wait_for_picture(page)
    figures = page.locator(".js-plotly-plot:visible")
    boxes = [figures.nth(i).bounding_box() for i in range(2)]
    assert boxes[0]["y"] < 800 and boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"], "side by side"
    before = dots(page)
    page.get_by_role("spinbutton", name="Seed").fill("7")
    page.keyboard.press("Enter")
    page.wait_for_timeout(800)
    wait_until_idle(page)
    assert dots(page) != before
    page.reload()
    wait_for_picture(page)
    assert page.get_by_role("spinbutton", name="Seed").input_value() == "7", "a reload keeps what the address holds"


@pytest.mark.parametrize("path", ["/embeddings", "/results", "/results?section=Training+runs"])
def test_narrow_window_has_no_sideways_scroll(visit, server, path):
    page = visit(server, path, width=400)
    page.locator("h2").wait_for(timeout=60_000)
    wait_until_idle(page)
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_change_of_the_map_moves_nothing_below_it(visit, server):
    page = visit(server, "/embeddings")
    wait_for_picture(page)
    below = page.get_by_text("The same vectors of every stored model")
    before = below.bounding_box()["y"]
    page.get_by_text("t-SNE", exact=True).click()
    page.wait_for_timeout(1500)
    wait_until_idle(page)
    assert abs(below.bounding_box()["y"] - before) <= 60


def test_row_of_a_claim_opens_its_figure(visit, server):
    page = visit(server, "/results")
    page.locator("[data-testid=stExpander]").first.wait_for(timeout=60_000)
    open_claim(page, 9)
    wait_for_picture(page)
    assert page.locator(".js-plotly-plot:visible").count() == 1


def test_link_opens_its_claims_also_when_their_section_is_opened_later(visit, server):
    page = visit(server, "/results?section=Training+runs&claim-9=1")
    wait_for_picture(page)
    page.get_by_text("Claims", exact=True).click()
    page.locator("[data-testid=stExpander]").first.wait_for(timeout=60_000)
    wait_for_picture(page)
    rows = page.locator("[data-testid=stExpander] details")
    assert [row.get_attribute("open") is not None for row in rows.all()] == [i == 8 for i in range(10)]
    open_claim(page, 9)
    open_claim(page, 10)
    page.wait_for_function("location.search === '?claim-10=1'")


def test_link_chooses_reading_and_filter_of_a_folder_opened_later(visit, server, tmp_path):
    write_run(tmp_path / "run", [record(0, "42", "42"), record(1, "42", "41")])
    page = visit(server, "/results?section=Benchmarks&way=strict&items_that=wrong")
    page.get_by_role("textbox").first.fill(str(tmp_path))
    page.get_by_role("button", name="Open").click()
    page.locator("[data-testid=stCode]").nth(1).wait_for(timeout=60_000)
    wait_until_idle(page)
    assert page.get_by_role("radio", name="strict").get_attribute("aria-checked") == "true"
    show = page.locator("[data-testid=stSelectbox]").filter(has_text="Show").locator("input")
    assert show.input_value() == "wrong" and page.get_by_text("id item-1").is_visible()
    page.get_by_role("radio", name="flexible").click()
    page.wait_for_function("location.search === '?section=Benchmarks&items_that=wrong'")


def test_answers_of_a_model_are_shown_letter_by_letter(visit, server, tmp_path):
    lines = [record(0, "42", "42") | {"output": HOSTILE, "prompt": HOSTILE}, record(1, "42", None)]
    write_run(tmp_path / "run", lines, model=HOSTILE)
    page = visit(server, "/results?section=Benchmarks")
    page.get_by_role("textbox").first.fill(str(tmp_path))
    page.get_by_role("button", name="Open").click()
    page.locator("[data-testid=stCode]").nth(1).wait_for(timeout=60_000)
    wait_until_idle(page)
    assert page.locator("img[src=x]").count() == 0
    shown = page.locator("[data-testid=stCode]").all_inner_texts()
    assert [text.strip() for text in shown] == [HOSTILE, HOSTILE]


def test_missing_folder_is_a_sentence_and_the_next_one_works(visit, server, tmp_path):
    page = visit(server, "/results?section=Training+runs")
    box = page.get_by_role("textbox").first
    box.fill(str(tmp_path / "nothing"))
    page.get_by_role("button", name="Open").click()
    page.get_by_text("There is no folder").wait_for(timeout=60_000)
    run = tmp_path / "mle-0"
    run.mkdir()
    (run / "metrics.jsonl").write_text("".join(json.dumps({"step": i, "loss": 1 / i}) + "\n" for i in (1, 2, 3)))
    box.fill(str(tmp_path))
    page.get_by_role("button", name="Open").click()
    page.get_by_text("There is no folder").wait_for(state="hidden", timeout=60_000)
    wait_for_picture(page)


# ---------------------------------------------------------------- a workshop's server


def test_workshop_hides_every_path_and_its_address_cannot_change_that(visit, workshop):
    for path in ("/?workshop=0", "/embeddings?whose=%2Fetc", "/results?section=Benchmarks&folder_answers=%2Fetc"):
        page = visit(workshop, path)
        wait_for_picture(page)
        wanted = 1 if path.startswith("/?") else 0
        assert page.get_by_role("textbox").count() == wanted, path
        assert "/etc" not in page.locator("[data-testid=stMain]").inner_text()


def test_clients_at_once_get_the_answers_that_their_prompts_give_alone(workshop):
    found = measure_clients(workshop, 6, 3)
    assert (found["answers"], found["mixed answers"]) == (18, 0)
    log = workshop.log.read_text()
    assert " + 10" not in log, "no prompt is logged"


def test_four_browsers_at_once_are_each_shown_their_own_digits(workshop, chromium):
    assert measure_browsers(workshop, chromium, 4, 2)["wrong"] == []


def test_mixed_answers_would_be_counted():
    assert count_mixed([("1 + 1 = ", [0.0] * 8)]) == 1
