"""The state of a page in its address, through a small page of its own."""

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages_for_tests import APP


def small_page():
    import links
    import streamlit as st

    parameters = {
        "words": links.text("hello"),
        "view": links.choice(["one", "two"]),
        "losses": links.several(["mle", "del"], ["mle"]),
        "tau": links.number(0.1, 10.0, 1.0),
        "position": links.whole(0, 9),
        "law": links.numbers(3, 3.0, (1.0, 2.0, 3.0)),
        "on": links.flag(),
        "model": links.model({"short": "/models/short", "": ""}, ""),
        "models": links.models({"short": "/models/short"}, 2),
    }
    links.restore("small", parameters)
    st.text_input("words", key="words")
    st.segmented_control("view", ["one", "two"], key="view")
    st.pills("losses", ["mle", "del"], selection_mode="multi", key="losses")
    if st.session_state.view == "one":
        st.slider("tau", 0.1, 10.0, key="tau")
    st.toggle("on", key="on")
    links.ask_leave([st.session_state.model, *st.session_state.models])
    links.publish("small", parameters)


@pytest.fixture(autouse=True)
def dashboard_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(APP.parent))


def open_page(**query):
    page = AppTest.from_function(small_page)
    for key, value in query.items():
        page.query_params[key] = value
    page.run()
    assert not page.exception, [e.message for e in page.exception]
    return page


def told(page) -> dict:
    return {key: value if isinstance(value, str) else value[-1] for key, value in page.query_params.items()}


def test_page_without_parameters_opens_with_defaults_and_a_bare_address():
    page = open_page()
    assert page.session_state["words"] == "hello" and page.session_state["law"] == (1.0, 2.0, 3.0)
    assert told(page) == {} and not page.warning


def test_second_browser_restores_exactly_what_the_first_one_shows():
    first = open_page()
    first.text_input(key="words").set_value("a&b=<b>ü</b> 1 + 2 = ")
    first.segmented_control(key="view").set_value("two")
    first.pills(key="losses").set_value([])
    first.toggle(key="on").set_value(True)
    first.slider(key="tau").set_value(2.53).run()
    second = open_page(**told(first))
    for key in ("words", "view", "losses", "on", "position", "law"):
        assert second.session_state[key] == first.session_state[key], key
    assert told(second) == told(first) and told(first)["tau"] == "2.53", "also what is not shown now"


def test_hidden_widget_keeps_its_value():
    page = open_page(tau="4.5")
    page.segmented_control(key="view").set_value("two").run()
    page.toggle(key="on").set_value(True).run()
    page.segmented_control(key="view").set_value("one").run()
    assert page.slider(key="tau").value == 4.5


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("view", "<b>three</b>"),
        ("losses", "mle,none"),
        ("tau", "nan"),
        ("tau", "1e400"),
        ("tau", "11"),
        ("position", "1.5"),
        ("position", "9" * 5000),
        ("law", "1,2"),
        ("law", "1,2,-3"),
        ("law", "1,2,inf"),
        ("law", "3.1,0,0"),
        ("law", "0,0,-0"),
        ("model", "/etc"),
        ("model", " ~/model"),
        ("model", "runs/a/model"),
        ("model", "tests"),
        ("model", "nul\0"),
        ("model", "\\\\host\\share"),
        ("models", "some/model\n./model"),
        ("on", "yes"),
        ("words", "7 " * 2000),
    ],
)
def test_entry_that_cannot_be_used_is_ignored_in_one_sentence(key, word):
    page = open_page(**{key: word}, words="kept") if key != "words" else open_page(words=word)
    assert [w.value for w in page.warning] == [f"A part of this link cannot be used and was ignored: `{key}`."]
    assert page.session_state["words"] == ("kept" if key != "words" else "hello")
    assert key not in told(page)


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_blank_text_counts_as_absent_and_is_not_told(blank):
    page = open_page(words=blank)
    assert page.session_state["words"] == "hello" and not page.warning
    page.text_input(key="words").set_value(blank).run()
    assert page.text_input(key="words").value == blank and told(page) == {}


def test_unknown_name_is_ignored_and_not_repeated():
    page = open_page(**{"<img src=x>": "1"})
    assert "unknown name" in page.warning[0].value and "<img" not in page.warning[0].value
    assert told(page) == {}


# ---------------------------------------------------------------- names of models


def unasked(page) -> set[str]:
    return page.session_state["links/unasked"]


def test_name_from_a_link_waits_for_its_button():
    page = open_page(model=" some/model ", models="short\nother/model")
    assert page.session_state["model"] == "some/model", "a space makes no other name"
    assert page.session_state["models"] == ["/models/short", "other/model"]
    assert unasked(page) == {"some/model", "other/model"}, "a link may name what the page knows"
    assert page.text[-1].value == "some/model\nother/model"
    page.button(key="ask_leave").click().run()
    assert not unasked(page) and not page.button
    assert told(page) == {"model": "some/model", "models": "short\nother/model"}


def test_path_is_not_told_to_the_address(tmp_path):
    page = open_page()
    page.session_state["model"] = str(tmp_path)
    page.session_state["models"] = [str(tmp_path), "/models/short", "some/model"]
    page.run()
    assert told(page) == {"models": "short\nsome/model"} and not page.button
    page.session_state["models"] = [str(tmp_path)]
    page.run()
    assert told(page) == {}


def test_workshop_reads_no_name_but_those_the_page_knows(monkeypatch):
    monkeypatch.setenv("DELCORE_WORKSHOP", "1")
    page = open_page(model="some/model", models="short")
    assert "`model`" in page.warning[0].value and page.session_state["models"] == ["/models/short"]
