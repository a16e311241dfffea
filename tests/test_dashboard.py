"""The pages through AppTest: most with a made-up probe, the bad inputs with the real embedded family."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from delcore.analysis import known_law
from delcore.errors import InputError
from delcore.models import EMBEDDED_DIR, EMBEDDED_NAMES, LoadedModel, load_model
from delcore.plots import TITLES
from delcore.probe import probe

ROOT = Path(__file__).resolve().parent.parent
APP = ROOT / "dashboard" / "streamlit_app.py"
HOSTILE = ("<img src=x onerror=alert(1)> 12", "<b>7</b>", "</div><script>1</script>")
MARKDOWN_ELEMENTS = ("markdown", "caption", "error", "warning", "info", "success", "title", "header", "subheader")


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch):
    """No test meets what another one left; the app's folder is on the path, as Streamlit puts it."""
    monkeypatch.syspath_prepend(str(APP.parent))
    st.cache_data.clear()
    st.cache_resource.clear()
    yield
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def fake_models(monkeypatch):
    """A family that is never loaded: `loads` counts, and the top digit of a prompt is its length mod 10."""
    loads = []

    def load(name):
        loads.append(name)
        return LoadedModel(model=None, tokenizer=None, card=None)

    def ask(prompt, models, *, all_positions=False, continuation=""):
        assert all_positions or list(models) != list(EMBEDDED_NAMES)
        digits = [c for c in prompt + continuation if c in "0123456789"]
        return {
            "prompt": prompt,
            "positions": [fake_position(i, text, models, len(prompt)) for i, text in enumerate([*digits, ""])],
        }

    monkeypatch.setattr("delcore.models.load_model", load)
    monkeypatch.setattr("delcore.probe.probe", ask)
    monkeypatch.setattr("delcore.probe.continue_greedily", lambda model, tokenizer, prompt: "42 ok")
    return loads


def fake_position(i, text, models, length):
    probabilities = [0.91 if k == (length + i) % 10 else 0.01 for k in range(10)]
    told = {"probabilities": probabilities, "digit_mass": 0.5, "entropy_nats": 0.5003, "expected_digit": 4.0}
    return {"index": i, "text": text, "place": None, "weight": None, "models": dict.fromkeys(models, told)}


def open_app() -> AppTest:
    app = AppTest.from_file(str(APP), default_timeout=60).run()
    assert_healthy(app)
    return app


def assert_healthy(app):
    assert not app.exception, [e.message for e in app.exception]


def ask(app, prompt):
    app.text_input(key="prompt_box").set_value(prompt)
    app.button(key="FormSubmitter:ask-Show digits").click().run()
    assert_healthy(app)
    return app


def figures(app) -> dict:
    """Plotly figures on the page, by the end of their key."""
    found = {}
    for element in app.get("plotly_chart"):
        spec = json.loads(element.proto.spec)
        found[element.proto.id.rpartition("-None-")[2] or element.proto.id] = spec
    return found


def texts_read_as_markup(app) -> str:
    return "\n".join(str(element.value) for kind in MARKDOWN_ELEMENTS for element in app.get(kind))


# ---------------------------------------------------------------- opening


def test_first_page_shows_the_saved_record_and_imports_no_torch():
    code = (
        "import sys\n"
        "from streamlit.testing.v1 import AppTest\n"
        f"app = AppTest.from_file({str(APP)!r}, default_timeout=60).run()\n"
        "assert not app.exception, app.exception\n"
        "assert len(app.get('plotly_chart')) == 2 and len(app.dataframe) == 1\n"
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
    assert "1.271 nats" in app.caption[0].value
    names = {trace["name"] for spec in figures(app).values() for trace in spec["data"]}
    assert "true law" in names and "base model" in names
    assert "entropy_minus_law" in app.dataframe[0].value.columns


# ---------------------------------------------------------------- explore


def test_new_prompt_shows_its_distributions(fake_models):
    app = ask(open_app(), "12 + 35 = ")
    table = app.dataframe[0].value
    assert list(table["model"]) == list(EMBEDDED_NAMES)
    assert set(table["top_digit"]) == {4}  # ten characters and four digits before
    assert list(table["title"]) == [TITLES[name] for name in EMBEDDED_NAMES]
    assert fake_models == [f"embedded:{name}" for name in EMBEDDED_NAMES]


def test_family_is_loaded_once_for_many_prompts_and_sessions(fake_models):
    first, second = open_app(), open_app()
    for i in range(5):
        ask(first, f"first {i}")
        ask(second, f"second {i}")
    assert len(fake_models) == len(EMBEDDED_NAMES)


def test_two_sessions_at_once_load_one_copy_and_get_their_own_answers(fake_models):
    import cache

    answers = {}
    threads = [
        threading.Thread(target=lambda i=i: answers.update({i: cache.probe_family("x" * (i + 1))})) for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake_models) == len(EMBEDDED_NAMES)
    assert {i: len(answers[i]["record"]["prompt"]) for i in answers} == {i: i + 1 for i in range(6)}


def test_click_on_a_digit_shows_that_position(fake_models):
    app = ask(open_app(), "12 + 35 = ")
    assert [app.button(key=f"digit-{i}").label for i in range(5)] == ["1", "2", "3", "5", "?"]
    app.button(key="digit-1").click().run()
    assert_healthy(app)
    assert set(app.dataframe[0].value["top_digit"]) == {1}
    ask(app, "7 = ")
    assert set(app.dataframe[0].value["top_digit"]) == {5}, "a new prompt starts at its next token"


def test_example_fills_the_box_and_typing_forgets_the_example(fake_models):
    app = open_app()
    app.pills(key="example").set_value("carry").run()
    assert_healthy(app)
    assert app.text_input(key="prompt_box").value == "58 + 67 = "
    ask(app, "1 + 1 = ")
    assert app.session_state["example"] is None


def test_continuation_adds_its_digits_and_starts_at_the_first(fake_models):
    app = ask(open_app(), "6 * 7 = ")
    app.toggle(key="continue").set_value(True).run()
    assert_healthy(app)
    assert [app.button(key=f"digit-{i}").label for i in range(5)] == ["6", "7", "4", "2", "?"]
    assert set(app.dataframe[0].value["top_digit"]) == {(8 + 2) % 10}
    app.selectbox(key="writer").set_value("del").run()
    assert_healthy(app)


@pytest.mark.parametrize("view", ["Overlay", "Change to base", "Side by side"])
def test_each_view_shows_a_figure(fake_models, view):
    app = ask(open_app(), "12 + 35 = ")
    app.segmented_control(key="view").set_value(view).run()
    assert_healthy(app)
    assert len(app.get("plotly_chart")) == (1 if view == "Overlay" else 2)


def test_many_digits_are_picked_by_number(fake_models):
    app = ask(open_app(), "7 " * 100)
    assert app.number_input[0].value == 101
    app.number_input[0].set_value(1).run()
    assert_healthy(app)
    assert set(app.dataframe[0].value["top_digit"]) == {0}


def test_other_model_stands_beside_the_family_at_the_next_token(fake_models):
    app = ask(open_app(), "12 = ")
    app.text_input(key="other_box").set_value("<b>some/model</b>")
    app.button(key="FormSubmitter:ask_other-Compare").click().run()
    assert_healthy(app)
    assert list(app.dataframe[0].value["model"]) == [*EMBEDDED_NAMES, "<b>some/model</b>"]
    spec = json.dumps(list(figures(app).values()))
    assert "<b>some" not in spec and "&lt;b&gt;some" in spec
    app.button(key="digit-0").click().run()
    assert list(app.dataframe[0].value["model"]) == list(EMBEDDED_NAMES)
    assert "next digit" in texts_read_as_markup(app)


# ---------------------------------------------------------------- bad input, with the real family


@pytest.mark.parametrize("prompt", ["", "   ", "\n"])
def test_empty_prompt_is_one_line_and_the_next_one_works(prompt):
    app = ask(open_app(), prompt)
    assert app.error[0].value == "This prompt cannot be used."
    assert "prompt is empty" in app.text[0].value
    ask(app, "12 + 35 = ")
    assert not app.error and len(app.dataframe) == 1


def test_prompt_over_the_context_says_by_how_much_and_the_next_one_works():
    app = ask(open_app(), "7 " * 200_000)
    assert "400,001 tokens, the limit is 2,048: shorten it by 397,953" in app.text[0].value
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
    app.text_input(key="other_box").set_value(name)
    app.button(key="FormSubmitter:ask_other-Compare").click().run()
    assert_healthy(app)
    assert app.error[0].value == "The other model cannot be shown."
    assert len(app.text[-1].value.splitlines()) == 1
    assert name not in texts_read_as_markup(app)
    assert len(app.dataframe) == 1


def test_failing_model_is_no_traceback(fake_models, monkeypatch):
    def fail(*args, **kwargs):
        raise InputError("The model answered with NaN or infinite scores; its weights are damaged.")

    monkeypatch.setattr("delcore.probe.probe", fail)
    app = ask(open_app(), "1 = ")
    assert "NaN" in app.text[0].value


# ---------------------------------------------------------------- loss lab


@pytest.fixture
def lab():
    app = open_app()
    app.switch_page("views/loss_lab.py").run()
    assert_healthy(app)
    return app


def test_loss_lab_shows_the_equilibria_of_the_design_law(lab):
    table = lab.dataframe[0].value.set_index("name")
    assert table.loc["mle", "entropy_nats"] == pytest.approx(1.2712, abs=1e-3)
    assert table.loc["mixce", "entropy_nats"] == pytest.approx(1.0464, abs=1e-3)
    assert table.loc["dist2", "entropy_nats"] == pytest.approx(1.3093, abs=1e-3)
    assert table.loc["del", "entropy_nats"] == pytest.approx(1.2885, abs=1e-3)
    assert set(table["attained"]) == {"reached"}
    assert len(lab.get("plotly_chart")) == 4  # two figures, each wide and narrow


def test_loss_lab_slider_moves_only_its_loss(lab):
    before = lab.dataframe[0].value.set_index("name")["entropy_nats"]
    lab.slider(key="dist2_alpha").set_value(1.0).run()
    assert_healthy(lab)
    after = lab.dataframe[0].value.set_index("name")["entropy_nats"]
    assert after["dist2"] == pytest.approx(1.4586, abs=1e-3)
    assert (after.drop("dist2") == before.drop("dist2")).all()


def test_loss_lab_says_that_the_distance_term_has_no_equilibrium(lab):
    lab.toggle(key="distance").set_value(True).run()
    assert_healthy(lab)
    assert "no equilibrium" in lab.warning[0].value
    assert lab.dataframe[0].value.set_index("name").loc["del", "attained"] == "none"


@pytest.mark.parametrize("law", ["flat", "two peaks", "falling", "sure of 4", "even"])
def test_loss_lab_takes_every_law(lab, law):
    lab.selectbox(key="law").set_value(law).run()
    assert_healthy(lab)
    assert not lab.error


def test_loss_lab_normalises_edited_weights_and_refuses_none(lab, monkeypatch):
    monkeypatch.setattr("streamlit.data_editor", lambda rows, **_: [{"digit": "0", "weight": 3.0}] * 10)
    lab.run()
    assert_healthy(lab)
    assert lab.dataframe[0].value.set_index("name").loc["mle", "entropy_nats"] == pytest.approx(2.3026, abs=1e-3)
    monkeypatch.setattr("streamlit.data_editor", lambda rows, **_: [{"digit": "0", "weight": None}] * 10)
    lab.run()
    assert_healthy(lab)
    assert "not all 0" in lab.warning[0].value


def test_loss_lab_averages_over_the_law(lab):
    lab.selectbox(key="true_digit").select("any, drawn from the true law").run()
    assert_healthy(lab)
    gradient = lab.dataframe[0].value.set_index("name").loc["mle", "gradient"]
    assert max(map(abs, gradient)) < 2e-3, "the prediction is the law, where the expected gradient of MLE vanishes"


def test_unknown_cache_file_is_never_silent(monkeypatch, tmp_path):
    """A page never shows a traceback, yet a missing opening record is an error for the log."""
    import cache

    monkeypatch.setattr(cache, "OPENING_FILE", tmp_path / "missing.json")
    app = AppTest.from_file(str(APP), default_timeout=60).run()
    assert app.exception


@pytest.mark.network
def test_real_model_stands_beside_the_family():
    """SmolLM2 out of a GGUF file, with other tokens than the family's."""
    from tests.models_for_tests import smollm2_file

    page = AppTest.from_file(str(APP), default_timeout=180).run()
    page.text_input(key="other_box").set_value(str(smollm2_file()))
    next(button for button in page.button if button.label == "Compare").click().run()
    assert not page.exception
    table = page.dataframe[0].value
    assert list(table["model"]) == [*EMBEDDED_NAMES, "SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert 0 < float(table["digit_mass"].iloc[-1]) <= 1
