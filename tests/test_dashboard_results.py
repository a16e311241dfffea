"""The pages Embeddings and Results, and what a workshop's server refuses, through AppTest."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from delcore.errors import InputError
from delcore.models import EMBEDDED_NAMES, load_model
from delcore.studies.stored import Claim, read_study
from delcore.workshop import VARIABLE
from tests.benchmarks.runs_for_tests import record, write_run
from tests.models_for_tests import save_tiny
from tests.pages_for_tests import APP, ROOT, address, assert_healthy, texts_read_as_markup

HOSTILE = "<img src=x onerror=alert(1)> **7** $x^2$ [a](javascript:alert(1))"

pytestmark = pytest.mark.usefixtures("empty_caches")


@pytest.fixture
def workshop(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """A folder of studies that a test fills."""
    for module in ("delcore.studies.stored", "cache_results"):
        monkeypatch.setattr(f"{module}.studies_folder", lambda: tmp_path)
    return tmp_path


def open_page(view: str, **query: str) -> AppTest:
    app = AppTest.from_file(str(APP), default_timeout=120)
    app.run()
    for key, value in query.items():
        app.query_params[key] = value
    app.switch_page(f"views/{view}.py").run()
    assert_healthy(app)
    return app


def charts(app: AppTest) -> list[str]:
    return [element.proto.spec for element in app.get("plotly_chart")]


def shown_text(app: AppTest) -> str:
    return "\n".join(element.value for element in app.text)


def labels(app: AppTest, kind: str) -> list[str]:
    return [element.label for element in app.get(kind)]


def submit(app: AppTest, key: str, value: object, button: str) -> AppTest:
    app.text_input(key=key).set_value(str(value))
    next(one for one in app.button if one.label == button).click().run()
    assert_healthy(app)
    return app


# ---------------------------------------------------------------- embeddings


@pytest.mark.parametrize(("view", "figures"), [("embeddings", 3), ("results", 0)])
def test_first_screen_shows_what_is_stored_and_imports_no_torch(view, figures):
    code = (
        "import sys\n"
        "from streamlit.testing.v1 import AppTest\n"
        f"app = AppTest.from_file({str(APP)!r}, default_timeout=60).run()\n"
        f"app.switch_page('views/{view}.py').run()\n"
        "assert not app.exception, app.exception\n"
        f"assert len(app.get('plotly_chart')) == {figures}, len(app.get('plotly_chart'))\n"
        "heavy = {'torch', 'transformers', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def test_embeddings_show_the_stored_statistic_of_the_chosen_model_and_vectors():
    app = open_page("embeddings")
    rows = read_study("embeddings")["rows"]
    app.selectbox(key="whose").set_value("embedded:del").run()
    app.segmented_control(key="vectors").set_value("state in symbols").run()
    assert_healthy(app)
    row = next(r for r in rows if (r["model"], r["context"], r["headline"]) == ("embedded:del", "symbol", True))
    assert [metric.value for metric in app.metric] == [
        f"{row['spearman']:.2f}",
        f"{row['p_value']:.2g}",
        f"{row['neighbour_share']:.0%}",
    ]
    assert ", ".join(f"{i}→{near}" for i, near in enumerate(row["nearest"])) in app.caption[0].value
    table = app.dataframe[0].value
    assert len(table) == len({r["model"] for r in rows})


def test_stored_embeddings_are_those_of_the_shipped_weights():
    revisions = {row["model"]: row["revision"] for row in read_study("embeddings")["rows"]}
    for name in EMBEDDED_NAMES:
        assert revisions[f"embedded:{name}"] == load_model(f"embedded:{name}").card.revision


def test_tsne_follows_its_seed_and_keeps_to_its_range():
    app = open_page("embeddings", map="t-SNE")
    slider = app.slider(key="perplexity")
    assert (slider.min, slider.value) == (1.0, 3.0) and slider.max < 10
    first = charts(app)
    app.number_input(key="seed").set_value(5).run()
    assert_healthy(app)
    assert charts(app) != first
    app.number_input(key="seed").set_value(0).run()
    assert charts(app) == first, "the same seed gives the same picture"
    assert "mean nothing" in texts_read_as_markup(app)


def test_tsne_refuses_a_perplexity_from_a_link_that_ten_points_cannot_have():
    app = open_page("embeddings", map="t-SNE", perplexity="30")
    assert "perplexity" in app.warning[0].value
    assert app.slider(key="perplexity").value == 3.0


def test_model_that_a_user_names_is_measured_and_agrees_with_what_is_stored():
    app = open_page("embeddings")
    app.selectbox(key="whose").set_value("another model …").run()
    assert "Name a model" in shown_text(app)
    submit(app, "embeddings_of", "embedded:dist2", "Measure")
    row = next(r for r in read_study("embeddings")["rows"] if r["model"] == "embedded:dist2" and r["headline"])
    assert app.metric[0].value == f"{row['spearman']:.2f}"


def test_damaged_model_is_one_sentence_and_a_whole_one_in_its_place_works(tmp_path):
    import torch

    from tests.models_for_tests import tiny_loaded

    folder = save_tiny(tmp_path / "model")
    broken = tiny_loaded().model
    with torch.no_grad():
        broken.get_input_embeddings().weight.fill_(float("nan"))
    broken.save_pretrained(folder)
    app = open_page("embeddings")
    app.selectbox(key="whose").set_value("another model …").run()
    submit(app, "embeddings_of", str(folder), "Measure")
    assert "NaN" in shown_text(app) or "damaged" in shown_text(app)
    tiny_loaded(seed=1).model.save_pretrained(folder)
    app.run()
    assert_healthy(app)
    assert not app.error and app.metric


@pytest.mark.parametrize("name", ["/nowhere/<b>x</b>", "/" + "x" * 5000, "~no-such-user/x", "a/b/c", "nul\0"])
def test_unknown_model_is_one_sentence_and_stored_ones_stay(name):
    app = open_page("embeddings")
    app.selectbox(key="whose").set_value("another model …").run()
    submit(app, "embeddings_of", name, "Measure")
    assert app.error and "<b>" not in texts_read_as_markup(app)
    app.selectbox(key="whose").set_value("embedded:mle").run()
    assert_healthy(app)
    assert not app.error and len(app.metric) == 3


@pytest.mark.parametrize("content", [None, "{", '{"rows": 1}', json.dumps({"rows": [], "permutations": 1})])
def test_missing_or_damaged_study_is_one_sentence(stored, content):
    if content:
        (stored / "embeddings").mkdir()
        (stored / "embeddings" / "results.json").write_text(content)
    app = open_page("embeddings")
    assert app.error


def test_link_to_another_model_is_read_again_but_names_none(monkeypatch):
    app = open_page("embeddings", whose="another model …")
    assert not app.warning and "Name a model" in shown_text(app)
    monkeypatch.setenv(VARIABLE, "1")
    assert "whose" in open_page("embeddings", whose="another model …").warning[0].value


# ---------------------------------------------------------------- claims


def test_each_claim_is_a_row_and_opens_its_figure():
    app = open_page("results")
    rows = [label for label in labels(app, "expander") if " · " in label]
    assert [row.split(" · ")[0] for row in rows] == [str(i) for i in range(1, len(rows) + 1)] and len(rows) == 10
    assert not charts(app)
    app.session_state["claim-9"] = True
    app.run()
    assert_healthy(app)
    assert len(charts(app)) == 1 and "decimal" in charts(app)[0]
    app.session_state["claim-6"] = True
    app.run()
    assert_healthy(app)
    assert len(charts(app)) == 2
    app.session_state["claim-7"] = app.session_state["claim-8"] = True
    app.run()
    assert_healthy(app)
    assert sum("KL" in chart for chart in charts(app)) == len(charts(app)) - 2 == 4  # each for wide and narrow pages


def test_link_opens_the_claims_that_were_open():
    app = open_page("results")
    assert address(app) == {}
    for number in (3, 9):
        app.session_state[f"claim-{number}"] = True
    app.run()
    assert address(app) == {"claim-3": "1", "claim-9": "1"}
    again = open_page("results", **address(app))
    assert charts(again) == charts(app) and shown_text(again) == shown_text(app) and not again.warning
    again.session_state["claim-3"] = False
    again.run()
    assert address(again) == {"claim-9": "1"} and len(charts(again)) == 1


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"claim-9": "yes"}, "`claim-9`"),
        ({"claim-99": "1"}, "an unknown name"),
        ({"section": "<b>"}, "`section`"),
        ({"way": "loose"}, "`way`"),
        ({"items_that": "1"}, "`items_that`"),
        ({"folder_runs": "/etc"}, "an unknown name"),
        ({"task": "gsm8k", "items_of": "m", "item": "9" * 400}, "an unknown name"),
    ],
)
def test_entry_of_a_link_that_does_not_fit_is_told_and_the_rest_is_shown(bad, told):
    app = open_page("results", **{"claim-10": "1"} | bad)
    assert [w.value for w in app.warning] == [f"A part of this link cannot be used and was ignored: {told}."]
    assert address(app) == {"claim-10": "1"} and len(charts(app)) == 1


def claim(**fields: object) -> Claim:
    facts = {
        "number": 1,
        "claim": "x",
        "test": "t",
        "result": "r",
        "verdict": "agrees",
        "link": "n",
        "figure": "losses:gap_nats",
        "brief": "b",
    }
    return Claim(**facts | fields)


def write_losses(folder: Path) -> None:
    """A made-up study of two losses; its numbers mean nothing."""
    value = {"mean": 0.1, "low": 0.05, "high": 0.15, "count": 3}
    groups = ("readings", "reading integers", "reading decimals")
    study = {
        "study": "losses",
        "settings": {"seeds": [2, 3, 4], "steps": 10, "batch_size": 4},
        "variants": [{"name": "mle", "loss": "mle"}, {"name": "dist2-matched", "loss": "dist2"}],
        "equilibrium_gap_nats": {"mle": dict.fromkeys(groups, 0.0), "dist2-matched": None},
        "rows": [
            {"variant": variant, "group": group, "measure": "gap_nats", "value": value, "difference": None}
            for variant in ("mle", "dist2-matched")
            for group in groups
        ],
    }
    (folder / "losses").mkdir(parents=True, exist_ok=True)
    (folder / "losses" / "results.json").write_text(json.dumps(study))


def test_claim_whose_study_is_missing_says_so_and_shows_it_once_it_is_there(stored, monkeypatch):
    monkeypatch.setattr("cache_results.read_claims", lambda: [claim()])
    app = open_page("results")
    app.session_state["claim-1"] = True
    app.run()
    assert_healthy(app)
    assert app.info[0].value == "There is no figure yet." and "losses" in shown_text(app)
    write_losses(stored)
    app.run()
    assert_healthy(app)
    assert not charts(app) or "DIST2Loss, matched" in charts(app)[0]
    assert "DIST2Loss, matched" in "".join(charts(app)), "what can be shown is, though SmolLM2's study is missing"


def test_text_of_a_claim_is_never_markup(monkeypatch):
    monkeypatch.setattr("cache_results.read_claims", lambda: [claim(claim=HOSTILE, test=HOSTILE, result=HOSTILE)])
    app = open_page("results")
    app.session_state["claim-1"] = True
    app.run()
    assert_healthy(app)
    assert HOSTILE in shown_text(app)
    assert "onerror" not in texts_read_as_markup(app)
    label = next(one for one in labels(app, "expander") if one.startswith("1 · "))
    assert "\\<img" in label and "\\*\\*7" in label and "\\[a\\]" in label


def test_missing_ledger_is_one_sentence_and_other_sections_work(stored):
    app = open_page("results", **{"claim-1": "1"})
    assert app.error[0].value == "There is no ledger of claims." and len(app.warning) == 1
    app.segmented_control(key="section").set_value("Training runs").run()
    assert_healthy(app)


# ---------------------------------------------------------------- training runs


def write_log(folder: Path, steps: int, *, asked: int = 20, cut: str = "", **terms: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": 10 * i + 10, "loss": 1.0 / (i + 1), **terms}) + "\n" for i in range(steps)]
    (folder / "metrics.jsonl").write_text("".join(lines) + cut)
    settings = {"loss": folder.name.partition("-")[0], "seed": 0, "steps": asked}
    (folder / "delcore.json").write_text(json.dumps({"settings": settings}))
    return folder


def training(folder: object) -> AppTest:
    app = open_page("results", section="Training runs")
    return submit(app, "folder_runs", folder, "Open")


def test_runs_show_every_logged_term_and_their_states(tmp_path):
    write_log(tmp_path / "mle-0", 2, grad_norm=0.5)
    write_log(tmp_path / "del-0", 1, cut='{"step": 20, "lo')
    (tmp_path / "notes").mkdir()
    app = training(tmp_path)
    assert len(charts(app)) == 2 and "norm of the gradient" in charts(app)[0]
    table = app.dataframe[0].value.set_index("name")
    assert table.loc["mle-0", "state"] == "finished" and table.loc["del-0", "state"].startswith("under way, or stopped")
    write_log(tmp_path / "del-0", 2)
    app.run()
    assert app.dataframe[0].value.set_index("name").loc["del-0", "state"] == "finished", "it is read again"


def test_numbers_that_are_none_leave_a_gap_and_a_log_without_lines_is_a_sentence(tmp_path):
    write_log(tmp_path / "mle-0", 2, digit_term=float("nan"))
    app = training(tmp_path)
    assert not app.error and "NaN" not in charts(app)[0]
    (tmp_path / "mle-0" / "metrics.jsonl").write_text("")
    app.run()
    assert_healthy(app)
    assert "nothing to show yet" in shown_text(app)


@pytest.mark.parametrize(
    "folder", ["/nowhere/<b>x</b>", "/" + "x" * 5000, "~no-such-user/x", "nul\0", str(ROOT / "tests")]
)
def test_folder_without_runs_is_one_sentence_and_the_next_one_works(tmp_path, folder):
    app = training(folder)
    assert app.error and "<b>" not in texts_read_as_markup(app)
    write_log(tmp_path / "mle-0", 2)
    submit(app, "folder_runs", tmp_path, "Open")
    assert not app.error and charts(app)


def test_damaged_log_is_named(tmp_path):
    write_log(tmp_path / "mle-0", 0, cut="no json\n{}\n")
    app = training(tmp_path)
    assert "line 1 is no entry of a log" in shown_text(app) and len(app.error) == 1 and not charts(app)


def test_damaged_files_of_a_sweep_are_told_beside_the_other_runs(tmp_path):
    write_log(tmp_path / "mle-0", 2)
    write_log(tmp_path / "del-0", 0, cut="no json\n")
    (tmp_path / "table.json").write_text("{")
    app = training(tmp_path)
    assert [error.value for error in app.error] == ["A file of this folder cannot be read."] * 2
    assert "del-0/metrics.jsonl, line 1" in shown_text(app) and "table.json cannot be read" in shown_text(app)
    assert list(app.dataframe[0].value["name"]) == ["mle-0"] and len(charts(app)) == 2


@pytest.mark.parametrize("huge", ["9" * 30, "9" * 400, "1e400"])
def test_number_beyond_any_table_is_no_traceback(tmp_path, huge):
    folder = write_log(tmp_path / "mle-0", 2, cut=f'{{"step": 30, "loss": {huge}, "cross_entropy": {huge}}}\n')
    (folder / "delcore.json").write_text(f'{{"settings": {{"loss": "mle", "seed": {huge}, "steps": {huge}}}}}')
    app = training(tmp_path)
    assert not app.error and charts(app)
    write_log(tmp_path / "mle-0", 2, cut=f'{{"step": {huge}, "loss": 1}}\n')
    app.run()
    assert_healthy(app)
    assert "line 3 is no entry of a log" in shown_text(app)


def test_log_of_hundreds_of_terms_shows_the_first_and_says_so(tmp_path):
    write_log(tmp_path / "mle-0", 1, **{f"term{i}": i for i in range(300)})
    app = training(tmp_path)
    assert "first 24 of 301 logged terms" in texts_read_as_markup(app)
    assert "term22" in charts(app)[0] and "term23" not in charts(app)[0]


def test_half_a_character_in_names_and_logs_is_shown_as_a_question_mark(tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff-0"
    os.mkdir(folder)
    write_log(Path(os.fsdecode(folder)), 2)
    (tmp_path / "del-0").mkdir()
    (tmp_path / "del-0" / "metrics.jsonl").write_text('{"step": 1, "\\ud83d": 1.0}\n')
    (tmp_path / "del-0" / "delcore.json").write_text('{"settings": {"loss": "\\ud83d"}}')
    app = training(tmp_path)
    assert not app.error and set(app.dataframe[0].value["name"]) == {"?-0", "del-0"}
    os.truncate(folder + b"/metrics.jsonl", 5)
    with open(folder + b"/metrics.jsonl", "a") as file:
        file.write("\n")
    app.run()
    assert_healthy(app)
    assert "?-0/metrics.jsonl, line 1" in shown_text(app)


def test_sweep_shows_its_means_beside_the_runs(tmp_path):
    from delcore.sweep import MEASURES, tabulate, write_tables

    write_log(tmp_path / "mle-0", 2)
    finals = {loss: {seed: dict.fromkeys(MEASURES, 0.5 + seed / 10) for seed in range(2)} for loss in ("mle", "del")}
    write_tables(tmp_path, tabulate(finals))
    app = training(tmp_path)
    assert not app.error and len(charts(app)) == 3 and "less that of MLE" in charts(app)[2]


# ---------------------------------------------------------------- benchmarks


def benchmarks(folder: object) -> AppTest:
    app = open_page("results", section="Benchmarks")
    return submit(app, "folder_answers", folder, "Open")


@pytest.fixture
def evaluated(tmp_path):
    """Two models on four items, the second of which wrote markup."""
    lines = [record(0, "42", "42"), record(1, "42", "41"), record(2, "42", None), record(3, "42", None, flexible="42")]
    lines[0] |= {"output": HOSTILE, "prompt": HOSTILE}
    write_run(tmp_path / "a", lines)
    write_run(tmp_path / "b", [record(i, "42", "42") for i in range(4)], model=HOSTILE, model_fingerprint="b" * 64)
    return tmp_path


def test_benchmarks_show_accuracies_with_intervals_and_paired_differences(evaluated):
    app = benchmarks(evaluated)
    assert not app.error
    accuracy = app.dataframe[0].value
    assert list(accuracy["items"]) == ["4 of 4", "4 of 4"]
    assert accuracy["strict"][0].startswith("25.0 (") and accuracy["flexible"][0].startswith("50.0 (")
    assert "difference" in app.dataframe[1].value
    assert "<img" not in "".join(charts(app))


def test_half_a_character_in_an_answer_is_shown_as_a_question_mark(tmp_path):
    lines = [record(0, output="12 \ud83d", prompt="\ud800")]
    write_run(tmp_path / "a", lines, model="m\ud83d")
    write_run(tmp_path / os.fsdecode(b"\xff"), lines, model="m\ud83d", model_fingerprint="b" * 64)
    app = benchmarks(tmp_path)
    labels = [f"{tmp_path.name}/{name}: m?" for name in ("a", "?")]
    assert not app.error and list(app.dataframe[0].value["label"]) == labels and len(app.dataframe) == 2
    assert {"12 ?", "?"} <= {element.value for element in app.get("code")}


def test_item_browser_shows_all_of_an_item_as_plain_text(evaluated):
    app = benchmarks(evaluated)
    assert [code.value for code in app.code] == [HOSTILE, HOSTILE]
    assert all(not code.language or code.language == "plaintext" for code in app.code)
    assert "onerror" not in texts_read_as_markup(app)
    app.number_input(key="item").set_value(3).run()
    assert_healthy(app)
    assert "nothing read" in shown_text(app) and "id item-2" in shown_text(app) and "42" in shown_text(app)


@pytest.mark.parametrize(
    ("wanted", "count"), [("all", 4), ("right", 2), ("wrong", 2), ("unread", 1), ("readings differ", 1)]
)
def test_items_can_be_filtered_by_verdict(evaluated, wanted, count):
    app = benchmarks(evaluated)
    app.number_input(key="item").set_value(4).run()
    app.selectbox(key="items_that").set_value(wanted).run()
    assert_healthy(app)
    assert app.number_input(key="item").max == count and app.number_input(key="item").value <= count


def test_link_keeps_reading_and_filter_and_names_no_folder(evaluated):
    app = benchmarks(evaluated)
    app.segmented_control(key="way").set_value("strict")
    app.selectbox(key="items_that").set_value("wrong").run()
    assert address(app) == {"section": "Benchmarks", "way": "strict", "items_that": "wrong"}
    again = open_page("results", **address(app))
    assert not again.warning and "200 items" in charts(again)[0], "the stored study, until a folder is named"
    submit(again, "folder_answers", evaluated, "Open")
    assert charts(again) == charts(app) and shown_text(again) == shown_text(app) and address(again) == address(app)


def test_filter_without_items_is_a_sentence(evaluated):
    app = benchmarks(evaluated)
    app.selectbox(key="items_that").set_value("cut for length").run()
    assert_healthy(app)
    assert "No item of this run" in shown_text(app) and not app.code


def test_killed_and_damaged_runs_are_told_beside_the_others(evaluated):
    (evaluated / "a" / "records.jsonl").unlink()
    (evaluated / "c").mkdir()
    (evaluated / "c" / "evaluation.json").write_text("{")
    app = benchmarks(evaluated)
    assert app.error[0].value == "A run cannot be read." and "evaluation.json is cut" in shown_text(app)
    assert list(app.dataframe[0].value["items"]) == ["0 of 4", "4 of 4"]
    assert "No item has been answered yet." in shown_text(app)


def test_runs_that_cannot_be_compared_say_why(evaluated):
    header = json.loads((evaluated / "b" / "evaluation.json").read_text())
    (evaluated / "b" / "evaluation.json").write_text(json.dumps(header | {"data_sha256": "e" * 64}))
    app = benchmarks(evaluated)
    assert "No paired differences" in shown_text(app) and "data_sha256" in shown_text(app)


def test_stored_answers_are_shown_without_a_folder():
    app = open_page("results", section="Benchmarks")
    answers = read_study("smollm2")["answers"]
    assert len(charts(app)) == len(answers) and all("200 items" in chart for chart in charts(app))
    told = [caption.value for caption in app.caption if caption.value.startswith("Without an answer")]
    shares = [100 * facts["unread"]["mean"] for facts in answers["sat"].values()]
    assert [float(share) for share in re.findall(r"[\d.]+(?= %)", told[2].replace("\\", ""))] == pytest.approx(shares)


# ---------------------------------------------------------------- a workshop's server


def test_workshop_asks_for_no_path_and_no_model_on_any_page(workshop):
    app = AppTest.from_file(str(APP), default_timeout=60).run()
    assert_healthy(app)
    assert [box.label for box in app.text_input] == ["Prompt"]
    for section in ("Claims", "Training runs", "Benchmarks"):
        page = open_page("results", section=section)
        assert not page.text_input
    page = open_page("embeddings")
    assert not page.text_input and "another model …" not in page.selectbox(key="whose").options


@pytest.mark.parametrize(
    "query",
    [
        {"workshop": "0", "others": "/etc", "whose": "/etc/passwd"},
        {VARIABLE: "0", "folder_runs": "/etc", "embeddings_of": "embedded:del"},
    ],
)
@pytest.mark.parametrize("view", ["explore", "loss_lab", "embeddings", "results"])
def test_no_address_switches_a_workshop_off_or_names_a_path(workshop, monkeypatch, view, query):
    asked = []
    monkeypatch.setattr("delcore.models.load_model", lambda name: asked.append(name))
    app = open_page(view, section="Training runs", **query)
    assert "/etc" not in shown_text(app) and "/etc" not in texts_read_as_markup(app)
    assert asked == []
    assert not [box.label for box in app.text_input if "folder" in box.label.lower() or "model" in box.label.lower()]


def test_workshop_refuses_names_where_they_would_be_read_not_only_on_the_pages(workshop, tmp_path):
    import cache
    import cache_results

    write_log(tmp_path / "mle-0", 2)
    for refused in (
        lambda: cache.probe_other("embedded:del", "1 + 1 = "),
        lambda: cache.measure_embeddings("embedded:del"),
        lambda: cache_results.read_logs(str(tmp_path)),
        lambda: cache_results.read_evaluations(str(tmp_path)),
    ):
        with pytest.raises(InputError, match="workshop"):
            refused()


def test_forged_state_of_a_session_opens_no_folder_in_a_workshop(workshop, tmp_path):
    write_log(tmp_path / "mle-0", 2, secret_term=1.0)
    app = open_page("results", section="Training runs")
    app.session_state["folder_runs"] = str(tmp_path)
    app.run()
    assert_healthy(app)
    assert "secret" not in "".join(charts(app))


def test_stored_logs_are_shown_where_they_lie():
    app = open_page("results", section="Training runs")
    assert len(charts(app)) == 2 and not app.info and not app.error


def test_installation_without_stored_logs_says_so_and_opens_a_folder(stored, tmp_path):
    app = open_page("results", section="Training runs")
    assert [info.value for info in app.info] == ["No runs are stored in this installation."] and not app.error
    submit(app, "folder_runs", write_log(tmp_path / "mle-0", 2), "Open")
    assert charts(app) and not app.info
