"""The page Explore through AppTest: strip, views, models, temperature, stories, links, take-aways, numbers."""

import contextlib
import csv
import io
import json
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from delcore import models
from delcore.analysis import temper_law
from delcore.errors import InputError
from delcore.models import EMBEDDED_NAMES, byte_tokenizer, load_model
from delcore.plots import TITLES
from delcore.probe import probe
from tests.pages_for_tests import HOSTILE, address, ask, assert_healthy, figures, open_app, texts_read_as_markup

pytestmark = pytest.mark.usefixtures("empty_caches")


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


def test_loaded_family_is_not_gone_through_by_the_collection_after_every_script(fake_models):
    import gc

    gc.unfreeze()
    ask(open_app(), "first")
    assert gc.get_freeze_count() > 0


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
    assert {i: len(answers[i]["prompt"]) for i in answers} == {i: i + 1 for i in range(6)}


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


@pytest.mark.parametrize("view", ["Overlay", "Change", "Side by side"])
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


def test_new_prompt_with_as_many_digits_starts_at_its_next_one(fake_models):
    app = ask(open_app(), "7 " * 100)
    app.number_input[0].set_value(1).run()
    ask(app, "8 " * 100)
    assert app.number_input[0].value == 101 and set(app.dataframe[0].value["top_digit"]) == {0}
    assert app.session_state["position"] is None


def test_arrows_step_through_the_digits_and_stop_at_both_ends(fake_models):
    app = ask(open_app(), "1 + 2 = ")
    assert app.button(key="step-right").disabled
    app.button(key="step-left").click().run()
    app.button(key="step-left").click().run()
    assert_healthy(app)
    assert address(app)["position"] == "0" and app.button(key="step-left").disabled


def test_other_models_stand_beside_the_family_at_every_digit(fake_models):
    app = ask(open_app(), "12 = ")
    app.multiselect(key="others").set_value(["<b>some/model</b>"]).run()
    assert_healthy(app)
    assert list(app.dataframe[0].value["model"]) == [*EMBEDDED_NAMES, "<b>some/model</b>"]
    spec = json.dumps(list(figures(app).values()))
    assert "<b>some" not in spec and "&lt;b&gt;some" in spec
    assert "<b>some" not in texts_read_as_markup(app)
    app.button(key="digit-1").click().run()
    assert "<b>some/model</b>" in list(app.dataframe[0].value["model"])
    app.button(key="digit-0").click().run()
    assert list(app.dataframe[0].value["model"]) == list(EMBEDDED_NAMES), "nothing precedes the first digit"


def test_folder_that_is_gone_keeps_its_name_and_works_again_when_it_is_back(fake_models, monkeypatch, tmp_path):
    import delcore.models

    works, known = delcore.models.load_model, [f"embedded:{member}" for member in EMBEDDED_NAMES]

    def load(name):
        if name not in known and not Path(name).is_dir():
            raise InputError("There is no such folder.")
        return works(name)

    monkeypatch.setattr("delcore.models.load_model", load)
    folder = tmp_path / "run" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    app = ask(open_app(), "12 = ")
    app.multiselect(key="others").set_value([f" {folder} "]).run()
    assert not app.error
    folder = folder.rename(tmp_path / "elsewhere")
    ask(app, "13 = ")
    assert app.error
    folder.rename(tmp_path / "run" / "model")
    ask(app, "14 = ")
    assert not app.error and "run/model" in list(app.dataframe[0].value["model"])
    assert "others" not in address(app), "no path is told, and nothing that looks like a name of the hub either"


@pytest.mark.parametrize("wrong", [ValueError("a\nb"), IndexError("259"), TypeError("'>'"), RuntimeError()])
def test_model_that_fails_in_use_is_one_line(monkeypatch, wrong):
    import cache

    loaded = models.LoadedModel(None, None, SimpleNamespace(source="folder"))

    def fail(*args, **kwargs):
        raise wrong

    monkeypatch.setattr("delcore.models.load_model", lambda name: loaded)
    monkeypatch.setattr("delcore.probe.probe", fail)
    monkeypatch.setattr("delcore.probe.continue_greedily", fail)
    monkeypatch.setattr("delcore.analysis.read_numbers", fail)
    monkeypatch.setattr("delcore.models.load_tokenizer", lambda name: None)
    monkeypatch.setattr("delcore.studies.embeddings.measure_order", fail)
    asked = (cache.probe_other, lambda name, text: cache.write_on(text, name), cache.read_numbers)
    for ask_other in (*asked, lambda name, text: cache.measure_embeddings(name)):
        with pytest.raises(InputError, match=rf"'some/model' cannot be used \({type(wrong).__name__}") as told:
            ask_other("some/model", "12")
        assert "\n" not in str(told.value)


def test_only_chosen_models_are_shown_and_none_is_a_sentence(fake_models):
    app = ask(open_app(), "12 + 35 = ")
    app.pills(key="shown").set_value(["mle", "del"]).run()
    assert_healthy(app)
    assert list(app.dataframe[0].value["model"]) == ["mle", "del"]
    app.pills(key="shown").set_value([]).run()
    assert_healthy(app)
    assert any("No model is chosen" in text.value for text in app.text)


@pytest.mark.parametrize("mode", ["0", "1"])
@pytest.mark.parametrize("writer", ["x", "some/model", "/nowhere", "embedded:del"])
def test_writer_that_is_not_on_the_page_gives_way_to_the_base(fake_models, monkeypatch, mode, writer):
    monkeypatch.setenv("DELCORE_WORKSHOP", mode)
    app = open_app(**{"prompt": "6 * 7 = ", "continue": "1", "writer": writer})
    assert app.selectbox(key="writer").value == "base" and not app.error
    assert app.button(key="digit-2").label == "4"
    assert fake_models == [f"embedded:{name}" for name in EMBEDDED_NAMES]
    app.toggle(key="continue").set_value(False).run()
    assert_healthy(app)


def test_writer_that_fails_is_one_line_and_can_be_undone(fake_models, monkeypatch):
    def fail(name):
        if name == "some/model":
            raise InputError("no such model")
        return load(name)

    load = models.load_model
    monkeypatch.setattr(models, "load_model", fail)
    app = ask(open_app(), "6 * 7 = ")
    app.multiselect(key="others").set_value(["some/model"]).run()
    app.selectbox(key="writer").set_value("some/model")
    app.toggle(key="continue").set_value(True).run()
    assert_healthy(app)
    assert {error.value for error in app.error} == {
        "The chosen model cannot write on.",
        "The other model cannot be shown.",
    }
    assert app.button(key="digit-2").label == "?" and len(app.dataframe[0].value) == len(EMBEDDED_NAMES)
    ask(app, "1 + 1 = ")
    app.selectbox(key="writer").set_value("base").run()
    assert_healthy(app)
    assert app.button(key="digit-2").label == "4"


def test_prompt_that_cannot_be_used_is_told_once_and_leaves_the_choices(monkeypatch):
    app = open_app(**{"prompt": "7 " * 999, "continue": "1"})
    ask(app, "7" * 5000)
    assert [error.value for error in app.error] == ["This prompt cannot be used."]
    app.toggle(key="continue").set_value(False).run()
    assert_healthy(app)


def test_model_of_a_link_writes_only_when_the_visitor_agrees(fake_models):
    app = open_app(**{"prompt": "6 * 7 = ", "continue": "1", "others": "some/model", "writer": "some/model"})
    assert "some/model" not in fake_models and app.button(key="digit-2").label == "?"
    app.button(key="ask_leave").click().run()
    assert_healthy(app)
    assert fake_models.count("some/model") == 1 and app.button(key="digit-2").label == "4"


def test_adapter_goes_by_its_short_name_in_the_address(fake_models, monkeypatch, tmp_path):
    (tmp_path / "smollm2" / "del").mkdir(parents=True)
    (tmp_path / "smollm2" / "del" / "adapter_config.json").write_text("{}")
    monkeypatch.setattr("cache.studies_folder", lambda: tmp_path)
    app = ask(open_app(), "12 = ")
    app.multiselect(key="others").set_value([str(tmp_path / "smollm2" / "del")]).run()
    assert_healthy(app)
    assert address(app)["others"] == "smollm2/del"
    again = open_app(**address(app))
    assert "smollm2/del" in list(again.dataframe[0].value["model"]) and "links/unasked" in again.session_state
    assert not again.session_state["links/unasked"]


def test_writers_of_one_last_name_are_told_apart(fake_models):
    app = ask(open_app(**{"continue": "1"}), "12 = ")
    names = ["/nowhere/a/run/model", "/nowhere/b/run/model"]
    app.multiselect(key="others").set_value(names).run()
    assert app.selectbox(key="writer").options[-2:] == names


# ---------------------------------------------------------------- temperature, reference, draws


def test_temperature_changes_every_number_as_a_softmax_does(fake_models):
    app = ask(open_app(), "12 + 35 = ")
    before = app.dataframe[0].value
    app.number_input(key="temperature").set_value(2.0).run()
    assert_healthy(app)
    after = app.dataframe[0].value
    expected = max(temper_law([0.91] + [0.01] * 9, 2.0))
    assert after["top_probability"].tolist() == pytest.approx([expected] * 8)
    assert (after["entropy_nats"] > before["entropy_nats"]).all()
    assert (after["digit_mass"] == before["digit_mass"]).all(), "told at temperature 1"


def test_reference_is_the_law_where_known_else_the_base_which_is_told():
    app = open_app()
    gaps = dict(zip(app.dataframe[0].value["model"], app.dataframe[0].value["gap_nats"], strict=True))
    assert gaps["dist2"] > 0.02 and gaps["emo"] < -0.2
    app.segmented_control(key="reference").set_value("mle").run()
    assert_healthy(app)
    rows = app.dataframe[0].value.set_index("model")
    assert rows.loc["mle", "gap_nats"] == 0 and rows.loc["mle", "kl_nats"] == 0
    assert rows.loc["del", "verdict"] == "flatter"


def test_text_without_a_law_says_so(fake_models):
    app = ask(open_app(), "12 + 35 = ")
    assert "No law is known" in app.caption[-1].value


def test_dice_draw_other_digits_and_stand_in_the_address(fake_models):
    app = ask(open_app(), "12 + 35 = ")
    app.number_input(key="temperature").set_value(5.0).run()
    before = list(app.dataframe[0].value["draws"])
    next(button for button in app.button if button.label == "Sample again").click().run()
    assert list(app.dataframe[0].value["draws"]) != before
    assert address(app)["seed"] == "1"


# ---------------------------------------------------------------- stories


def test_each_example_tells_what_to_look_at(fake_models):
    import examples

    app = open_app()
    for name, example in examples.EXAMPLES.items():
        app.pills(key="example").set_value(name).run()
        assert_healthy(app)
        assert app.caption[0].value == example.story
        assert example.story.rstrip(".").count(". ") == 0 or name == "year"


def test_stories_are_true_of_the_shipped_models():
    import examples

    models = {name: load_model(f"embedded:{name}") for name in EMBEDDED_NAMES}

    def ask_all(example):
        return probe(examples.EXAMPLES[example].prompt, models)["positions"][-1]["models"]

    def top(facts):
        return facts["probabilities"].index(max(facts["probabilities"]))

    easy = ask_all("easy sum")
    assert {top(facts) for facts in easy.values()} == {4}
    assert {name for name, facts in easy.items() if facts["entropy_nats"] > 0.1} == {"dist2"}
    assert {top(facts) for facts in ask_all("carry").values()} == {1}
    assert {top(facts) for facts in ask_all("decimal").values()} == {3}
    miss = ask_all("near miss")
    assert sum(top(facts) != 1 for facts in miss.values()) > 4 and miss["del"]["digit_mass"] < 0.01
    assert max(facts["digit_mass"] for facts in ask_all("code literal").values()) < 0.01
    assert {top(facts) for facts in ask_all("word problem").values()} == {6}
    copy = ask_all("copy an id")
    assert copy["dist2"]["probabilities"][3] > 0.01 > copy["mle"]["probabilities"][3]


def test_label_shows_every_sign_letter_by_letter():
    import parts

    assert parts.escape_markdown("&lt; <b> é7\n8.5") == "\\&lt; \\<b\\> é7 8\\.5"


@pytest.mark.parametrize(
    "text", ["https://x.example", "WWW.x.example", "a@x.example", ":material/home:", "a -> b <- c"]
)
def test_label_keeps_apart_what_streamlit_would_put_together(text):
    import parts

    read = parts.escape_markdown(text).replace("\\", "")  # what is left once Markdown has been read
    assert read.replace("\N{WORD JOINER}", "") == text
    assert not re.search(r"://|www\.|@x|:material|->|<-", read, re.IGNORECASE)


# ---------------------------------------------------------------- the address, and what leaves the page


def test_link_opened_elsewhere_shows_exactly_the_same(fake_models):
    first = ask(open_app(), "7 & 8 = <b>9</b> ")
    first.button(key="digit-1").click().run()
    first.segmented_control(key="view").set_value("Overlay")
    first.number_input(key="temperature").set_value(0.75)
    first.pills(key="shown").set_value(["mle", "dist2"])
    first.multiselect(key="others").set_value(["some/model"])
    first.segmented_control(key="reference").set_value("mle").run()
    assert_healthy(first)
    second = open_app(**address(first))
    assert "some/model" not in list(second.dataframe[0].value["model"]), "a link alone asks no other model"
    second.button(key="ask_leave").click().run()
    assert_healthy(second)
    assert not second.warning
    assert second.text_input(key="prompt_box").value == "7 & 8 = <b>9</b> "
    assert second.dataframe[0].value.equals(first.dataframe[0].value)
    assert figures(second)["overlay"] == figures(first)["overlay"]
    assert address(second) == address(first)


@pytest.mark.parametrize("bad", [{"temperature": "hot"}, {"position": "-4"}, {"shown": "mle,<b>"}, {"tab": "x"}])
def test_bad_entry_of_a_link_is_one_sentence_and_the_page_opens(fake_models, bad):
    app = open_app(prompt="1 + 1 = ", **bad)
    assert [warning.value.count(".") for warning in app.warning] == [1] and next(iter(bad)) in app.warning[0].value
    assert app.text_input(key="prompt_box").value == "1 + 1 = "
    assert not set(bad) & set(address(app))


def test_dice_after_the_last_seed_stay_within_what_a_link_may_hold(fake_models):
    app = open_app(prompt="1 + 1 = ", seed="1000000")
    next(button for button in app.button if button.label == "Sample again").click().run()
    assert_healthy(app)
    assert not open_app(**address(app)).warning and app.session_state["seed"] == 0


def test_longest_prompt_that_the_family_reads_is_in_the_address(fake_models):
    from delcore.models import scratch_config

    app = ask(open_app(), "7" * (scratch_config().max_position_embeddings - 1))  # and the begin token
    assert open_app(**address(app)).session_state["prompt"] == app.session_state["prompt"]


def test_position_beyond_the_text_falls_to_the_next_digit(fake_models):
    app = open_app(prompt="1 + 1 = ", position="77")
    assert set(app.dataframe[0].value["top_digit"]) == {(8 + 2) % 10}


def code_of(app) -> str:
    return app.get("code")[0].value


def run_code(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "copied", "exec"), {})
    return out.getvalue()


def test_copied_python_gives_the_numbers_of_the_page():
    app = ask(open_app(), 'it\'s "12" + 3')
    app.pills(key="shown").set_value(["mle", "dist2"])
    app.number_input(key="temperature").set_value(0.5)
    app.button(key="digit-2").click().run()
    told = {line.split()[0]: float(line.split()[1]) for line in run_code(code_of(app)).splitlines()}
    rows = app.dataframe[0].value.set_index("model")["entropy_nats"]
    assert told == pytest.approx(rows.to_dict(), abs=1e-4)


def test_copied_python_names_no_model_that_failed(fake_models, monkeypatch):
    import delcore.models

    works = delcore.models.load_model

    def load(name):
        if name == "fails/here":
            raise InputError("fails/here is broken.")
        return works(name)

    monkeypatch.setattr("delcore.models.load_model", load)
    app = ask(open_app(), "12 = ")
    app.multiselect(key="others").set_value(["fails/here", "some/model"]).run()
    assert_healthy(app)
    assert app.error and "some/model" in code_of(app) and "fails/here" not in code_of(app)


@pytest.mark.parametrize("sign", "=+-@\t\r\n＝＋－＠")
def test_formula_in_a_download_is_text_and_a_table_without_rows_is_whole(sign):
    import parts

    told = list(csv.DictReader(io.StringIO(parts.as_csv([{"text": f"{sign}1", "n": -1}]), newline="")))
    assert told == [{"text": f"'{sign}1", "n": "-1"}]
    assert parts.as_csv([]).strip() == ""


@pytest.mark.parametrize("prompt", [*HOSTILE, "=1+1", '"""; import os; """'])
def test_prompt_stays_text_in_code_and_downloads(fake_models, prompt):
    import parts

    app = ask(open_app(), prompt)
    compile(code_of(app), "copied", "exec")
    assert repr(prompt) in code_of(app)
    line = parts.as_csv([{"text": prompt, "number": -1.5}]).splitlines()[1]
    assert not line.startswith(("=", "+", "-", "@")) and line.endswith("-1.5")


def test_all_digits_are_listed_with_rank_and_place():
    app = ask(open_app(), "sensor B reads 7.5")
    table = app.dataframe[1].value
    assert list(table["text"]) == ["7", "5", "?"]
    assert table["rank"][0] == 1 and list(table["place"])[:2] == [0, -1]


# ---------------------------------------------------------------- numbers


@pytest.fixture
def numbers():
    return open_app(tab="Numbers")


def test_numbers_tab_shows_weights_and_reasons(numbers):
    table = numbers.dataframe[0].value
    assert len(numbers.get("plotly_chart")) == 1
    assert "a comma ends a number" in set(table["note"])
    assert {"decimal", "integer", "none", "released"} <= set(table.columns)
    assert "18 of 18" in numbers.text[0].value


def test_two_tokenizers_stand_side_by_side(numbers, tmp_path):
    byte_tokenizer().save_pretrained(tmp_path)
    numbers.text_input(key="text").set_value("<b>3.14</b>")
    numbers.text_input(key="second").set_value(str(tmp_path))
    numbers.button(key="FormSubmitter:ask_numbers-Read numbers").click().run()
    assert_healthy(numbers)
    assert len(numbers.dataframe) == 2 and len(numbers.get("plotly_chart")) == 2
    assert "<b>" not in texts_read_as_markup(numbers) + json.dumps(list(figures(numbers).values()))
    assert str(tmp_path) in run_code(code_of(numbers))
    assert str(tmp_path) not in str(address(numbers))


def test_tokenizer_of_a_link_is_read_only_when_the_visitor_agrees(monkeypatch):
    asked = []
    monkeypatch.setattr("delcore.models.load_tokenizer", lambda name: asked.append(name) or byte_tokenizer())
    app = open_app(tab="Numbers", tokenizer="some/model ", second="embedded:del")
    assert asked == ["embedded:del"]
    app.button(key="ask_leave").click().run()
    assert_healthy(app)
    assert asked == ["embedded:del", "some/model"] and len(app.dataframe) == 2


@pytest.mark.parametrize(("text", "said"), [(" ", "text is empty"), ("7" * 2500, "limit is 2,000")])
def test_numbers_that_cannot_be_read_are_one_line(numbers, text, said):
    numbers.text_input(key="text").set_value(text)
    numbers.button(key="FormSubmitter:ask_numbers-Read numbers").click().run()
    assert_healthy(numbers)
    assert any(said in element.value for element in numbers.text)


def test_unknown_tokenizer_is_one_line_and_the_other_stays(numbers):
    numbers.text_input(key="second").set_value("/nowhere/<b>x</b>")
    numbers.button(key="FormSubmitter:ask_numbers-Read numbers").click().run()
    assert_healthy(numbers)
    assert numbers.error[0].value == "These numbers cannot be read." and len(numbers.dataframe) == 1


@pytest.mark.parametrize("kind", ["file.gguf", "adapters"])
def test_tokenizer_that_lies_in_weights_is_taken_from_the_model_that_is_kept(monkeypatch, tmp_path, kind):
    import cache

    (tmp_path / "adapters").mkdir()
    loads, name = [], str(tmp_path / kind)
    loaded = models.LoadedModel(None, byte_tokenizer(), None)
    monkeypatch.setattr("delcore.models.load_model", lambda asked: loads.append(asked) or loaded)
    cache.read_numbers(name, "1")
    cache.read_numbers(name, "2")
    cache._load_other(name, cache._stamp_of_name(name))
    assert loads == [name]


@pytest.mark.parametrize("which", ["tokenizer", "second"])
def test_workshop_reads_the_tokenizer_of_every_model_that_a_link_may_name(monkeypatch, which):
    monkeypatch.setenv("DELCORE_WORKSHOP", "1")
    app = open_app(**{"tab": "Numbers", which: "embedded:del"})
    assert not app.error and not app.warning and app.dataframe
    with pytest.raises(InputError, match="embedded:NAME"):
        models.load_tokenizer("embedded:../x")
