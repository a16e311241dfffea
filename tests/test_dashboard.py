"""The dashboard as it opens, and bad input on Explore with the real embedded family."""

import json
import subprocess
import sys

import pytest
from streamlit.testing.v1 import AppTest

from delcore.analysis import known_law
from delcore.errors import InputError
from delcore.models import EMBEDDED_DIR, EMBEDDED_NAMES, load_model
from delcore.probe import probe
from tests.pages_for_tests import (
    APP,
    HOSTILE,
    ROOT,
    ask,
    assert_healthy,
    figures,
    open_app,
    texts_read_as_markup,
)

pytestmark = pytest.mark.usefixtures("empty_caches")

# ---------------------------------------------------------------- opening


def test_first_page_shows_the_saved_record_and_imports_no_torch():
    code = (
        "import sys\n"
        "from streamlit.testing.v1 import AppTest\n"
        f"app = AppTest.from_file({str(APP)!r}, default_timeout=60).run()\n"
        "assert not app.exception, app.exception\n"
        "assert len(app.get('plotly_chart')) == 2 and len(app.dataframe) == 2\n"
        "heavy = {'torch', 'transformers', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def test_opening_record_is_what_the_shipped_models_say():
    saved = json.loads((EMBEDDED_DIR / "opening.json").read_text())
    models = {name: load_model(f"embedded:{name}") for name in EMBEDDED_NAMES}
    fresh = probe(saved["prompt"], models, all_positions=True)
    assert list(saved["positions"][-1]["models"]) == list(EMBEDDED_NAMES)
    assert len(saved["positions"]) == len(fresh["positions"])
    for name, told in fresh["positions"][-1]["models"].items():
        kept = saved["positions"][-1]["models"][name]["probabilities"]
        assert kept == pytest.approx(told["probabilities"], abs=1e-3), name


def test_opening_prompt_has_a_known_law_which_is_told():
    app = open_app()
    assert known_law("sensor B reads ").name == "peaked at 7"
    assert "1.271 nats" in app.caption[-1].value
    names = {trace["name"] for spec in figures(app).values() for trace in spec["data"]}
    assert "true law" in names and "base model" in names
    assert set(app.dataframe[0].value["verdict"]) == {"sharper", "alike", "flatter"}


# ---------------------------------------------------------------- bad input, with the real family


@pytest.mark.parametrize("prompt", ["", "   ", "\n"])
def test_empty_prompt_is_one_line_and_the_next_one_works(prompt):
    app = ask(open_app(), prompt)
    assert app.error[0].value == "This prompt cannot be used."
    assert "prompt is empty" in app.text[0].value
    ask(app, "12 + 35 = ")
    assert not app.error and list(app.dataframe[0].value["model"]) == list(EMBEDDED_NAMES)


@pytest.mark.parametrize("prompt", ["", " "])
def test_link_with_an_empty_prompt_opens_the_example(prompt):
    app = open_app(prompt=prompt)
    assert not app.error and not app.warning and figures(app) == figures(open_app())


def test_prompt_over_the_context_says_by_how_much_and_the_next_one_works():
    app = ask(open_app(), "7 " * 200_000)
    assert "400,001 tokens, the limit is 2,048: shorten it by 397,953" in app.text[0].value
    assert "prompt" not in app.query_params, "no address is as long"
    ask(app, "12 + 35 = ")
    assert not app.error


@pytest.mark.parametrize("prompt", HOSTILE)
def test_html_in_a_prompt_is_never_markup(prompt):
    app = ask(open_app(), prompt)
    assert not app.error
    assert prompt not in texts_read_as_markup(app) and "onerror" not in texts_read_as_markup(app)
    assert "<img" not in json.dumps(list(figures(app).values()))
    digits = [c for c in prompt if c.isdigit()]
    assert [app.button(key=f"digit-{i}").label for i in range(len(digits))] == digits


@pytest.mark.parametrize(
    ("prompt", "digits"), [('המחיר הוא 12 ש"ח', ["1", "2"]), ("👨‍👩‍👧 has 3", ["3"]), ("٣ apples and 4", ["4"])]
)
def test_other_scripts_keep_their_order_and_show_no_broken_characters(prompt, digits):
    app = ask(open_app(), prompt)
    strip = [button.label for button in app.button if str(button.key).startswith("digit-")]
    assert strip == [*digits, "?"]
    assert not any("\ufffd" in text.value for text in app.text)
    assert "".join(text.value for text in app.text).startswith(prompt.split(digits[0])[0].strip())


@pytest.mark.parametrize("name", ["/nowhere/<b>x</b>", "/" + "x" * 5000, "~no-such-user/x", "a/b/c", "nul\0"])
def test_unknown_model_is_one_line_and_the_family_stays(name):
    app = open_app()
    app.multiselect(key="others").set_value([name]).run()
    assert_healthy(app)
    assert app.error[0].value == "The other model cannot be shown."
    problem = next(text.value for text in app.text if "--model" in text.value or "cannot be loaded" in text.value)
    assert len(problem.splitlines()) == 1
    assert name not in texts_read_as_markup(app)
    assert list(app.dataframe[0].value["model"]) == list(EMBEDDED_NAMES)


def test_failing_model_is_no_traceback(fake_models, monkeypatch):
    def fail(*args, **kwargs):
        raise InputError("The model answered with NaN or infinite scores; its weights are damaged.")

    monkeypatch.setattr("delcore.probe.probe", fail)
    app = ask(open_app(), "1 = ")
    assert "NaN" in app.text[0].value


def test_unknown_cache_file_is_never_silent(monkeypatch, tmp_path):
    """A page never shows a traceback, yet a missing opening record is an error for the log."""
    import cache

    monkeypatch.setattr(cache, "OPENING_FILE", tmp_path / "missing.json")
    app = AppTest.from_file(str(APP), default_timeout=60).run()
    assert app.exception


@pytest.mark.network
def test_real_model_stands_beside_the_family(monkeypatch):
    """SmolLM2 out of a GGUF file, with other tokens than the family's."""
    from tests.models_for_tests import smollm2_file

    monkeypatch.chdir(smollm2_file().parent)  # AppTest's box sends the last name of a path
    page = AppTest.from_file(str(APP), default_timeout=180).run()
    page.multiselect(key="others").set_value([smollm2_file().name]).run()
    assert not page.exception
    table = page.dataframe[0].value
    assert list(table["model"]) == [*EMBEDDED_NAMES, "SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert 0 < float(table["digit_mass"].iloc[-1]) <= 1
