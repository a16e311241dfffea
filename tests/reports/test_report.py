"""Reports: our numbers and others' apart, what is missing is said, what does not match is refused."""

import json
import re

import pytest

from delcore import InputError
from delcore.benchmarks.metrics import compare
from delcore.benchmarks.saved_runs import load_run
from delcore.benchmarks.tasks import SEVEN, TASKS
from delcore.reports.published import PUBLISHED
from delcore.reports.report import build_sections, write_report
from delcore.reports.sections import unread_form
from tests.benchmarks.runs_for_tests import header, records, write_run

OTHER = {"model": "model-b", "model_fingerprint": "b" * 64}


def section(title, *folders):
    return next(one for one in build_sections([load_run(folder) for folder in folders]) if one.title == title)


@pytest.fixture
def pair(tmp_path):
    first = write_run(tmp_path / "first", records("42", "41", None, "42", "7"))
    return first, write_run(tmp_path / "second", records("42", "42", "42", "1", "7"), **OTHER)


def test_report_of_one_run_lies_in_its_folder(pair):
    paths = write_report([pair[0]])
    assert paths == (pair[0] / "report.md", pair[0] / "report.html")
    assert all(path.read_text(encoding="utf-8") for path in paths)


def test_report_of_several_lies_beside_them_or_where_asked(pair, tmp_path):
    assert write_report(pair)[0] == tmp_path / "report.md"
    assert write_report(pair, tmp_path / "new" / "out")[1] == tmp_path / "new" / "out" / "report.html"


def test_report_is_the_same_each_time(pair, tmp_path):
    one, other = (write_report(pair, tmp_path / name) for name in ("one", "other"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


def test_accuracy_table_holds_the_share_cut_at_the_length_limit(tmp_path):
    lines = records("42", "42", "1", None)
    for line, finish in zip(lines, ["length", "end", "marker", "length"], strict=True):
        line["finish"] = finish
    table = section("Accuracy", write_run(tmp_path / "run", lines)).table
    row = dict(zip(table.header, table.rows[0], strict=True))
    assert row["cut"] == "50.0 (15.0–85.0)"


def test_accuracy_table_counts_prompts_that_did_not_fit_where_there_are_any(tmp_path):
    lines = records("42", None, None)
    for line in lines[1:]:
        line |= {"finish": "prompt_too_long", "output": "", "tokens": 0}
    some = write_run(tmp_path / "some", lines)
    none = write_run(tmp_path / "none", records("42", "1", "2"), **OTHER)
    both = section("Accuracy", some, none)
    assert [dict(zip(both.table.header, row, strict=True))["no room"] for row in both.table.rows] == ["2", "0"]
    assert "did not fit" in both.text[0]
    alone = section("Accuracy", none)
    assert "no room" not in alone.table.header
    assert "did not fit" not in alone.text[0]


def test_accuracy_table_holds_both_readings_and_the_unread_share(pair):
    table = section("Accuracy", *pair).table
    assert table.rows[0][:4] == ["GSM8K", "model-a", "cot", "5"]
    assert table.rows[0][4:] == [
        "40.0 (11.8–76.9)",
        "40.0 (11.8–76.9)",
        "20.0 (3.6–62.4)",
        "20.0 (3.6–62.4)",
        "0.0 (0.0–43.4)",
    ]
    assert table.rows[1][1] == "model-b"


def test_comparison_is_that_of_the_metrics(pair):
    row = section("Comparison", *pair).table.rows[0]
    found = compare(*(load_run(folder).records for folder in pair))
    assert row[:4] == ["GSM8K", "model-a", "model-b", "strict"]
    assert row[4].startswith("+20.0 (") and row[5:7] == [str(found.lost), str(found.gained)] == ["1", "2"]
    assert row[7] == f"{found.p:.3f}" == "1.000"


def test_one_model_is_compared_with_nothing(pair):
    assert section("Comparison", pair[0]).table is None


def test_published_numbers_are_marked_and_never_among_ours(pair):
    parts = build_sections([load_run(folder) for folder in pair])
    (published,) = [part for part in parts if part.published]
    assert "not ours" in published.title and "published" in published.table.header[2]
    assert len(published.table.rows) == len(PUBLISHED) == 12
    ours = json.dumps([part.table.rows for part in parts if part.table and not part.published])
    assert not any(str(one.mean_accuracy) in ours for one in PUBLISHED)


def test_mean_is_told_only_where_all_seven_are_there(tmp_path):
    folders = [
        write_run(tmp_path / f"{task}-{name}", records("42", answer), task=task, model=name, model_fingerprint=name)
        for task in SEVEN
        for name, answer in (("a", "1"), ("b", "42"))
    ]
    table = section("Mean of the seven, measured here", *folders).table
    assert [(row[0], row[1].split(" (")[0]) for row in table.rows] == [("a", "50.0"), ("b", "100.0")]
    assert section("Comparison", *folders).table.rows[-1][:4] == ["mean of the seven", "a", "b", "flexible"]
    assert "the two-sided test of the mean that is shown" in section("Comparison", *folders).text[1]
    assert len(section("Comparison", *folders[:2]).text) == 1
    less = section("Mean of the seven, measured here", *folders[2:])
    assert less.table is None
    assert less.text == ["No mean over the seven for a, b (missing: GSM8K)."]
    uneven = section("Mean of the seven, measured here", *folders[2:-1])
    assert uneven.text == [
        f"No mean over the seven for a (missing: GSM8K); b (missing: GSM8K, {TASKS[SEVEN[-1]].title})."
    ]


def test_math_500_does_not_stand_for_math(tmp_path):
    tasks = [task if task != "math" else "math500" for task in SEVEN]
    folders = [write_run(tmp_path / task, records("42"), task=task) for task in tasks]
    assert section("Mean of the seven, measured here", *folders).text[0].endswith(" (missing: MATH).")


def test_every_report_says_how_its_runs_were_made(pair, tmp_path):
    for path in write_report(pair, tmp_path / "out"):
        text = path.read_text(encoding="utf-8")
        for fact in ("a" * 64, "b" * 64, "d" * 64, "max", "seed", "version"):
            assert fact in text


def test_reader_is_listed_and_a_run_without_its_version_is_reported_alone(tmp_path):
    folder = write_run(tmp_path / "run", records("42"), rescored_with={"delcore": "0.2.0"})
    facts = dict(section("GSM8K, model-a", folder).table.rows)
    assert (facts["reader_version"], facts["rescored_with"]) == ("1", '{"delcore": "0.2.0"}')
    old = {key: value for key, value in header(1).items() if key != "reader_version"}
    (folder / "evaluation.json").write_text(json.dumps(old))
    write_report([folder])
    facts = dict(section("GSM8K, model-a", folder).table.rows)
    assert facts["reader_version"] == facts["rescored_with"] == "–"


def test_places_have_a_table_and_a_figure_with_one_library(pair, tmp_path):
    other = write_run(tmp_path / "svamp", records("42", "1.5", gold="1.5"), task="svamp")
    shown = section("Digits by place: GSM8K", *pair, other).table
    assert shown.header == ["place", "items", "model-a", "model-b"]
    assert [row[:2] for row in shown.rows] == [["tens", "5"], ["units", "5"]]
    page = write_report([*pair, other], tmp_path / "out")[1].read_text(encoding="utf-8")
    assert page.count("plotly-graph-div") == 2 and page.count("plotly.js v") == 1
    assert not re.search(r"<(script|link|img)[^>]* (src|href)=", page)


def test_letters_have_neither_places_nor_distances(tmp_path):
    folder = write_run(tmp_path / "aqua", records("C", None, gold="C", kind="choice"), task="aqua")
    titles = [part.title for part in build_sections([load_run(folder)])]
    assert not any("place" in title or "Distance" in title for title in titles)


def test_huge_answers_are_reported(tmp_path):
    folder = write_run(tmp_path / "run", records("9" * 5000, "1e999999999999999999", gold="7" * 5000))
    row = section("Distance from the right number", folder).table.rows[0]
    assert row[4] == "5.000e+9999"
    assert len(section("Digits by place: GSM8K", folder).table.rows) == 10


# ---------------------------------------------------------------- unread forms, programs


@pytest.mark.parametrize(
    ("output", "form"),
    [
        ("", "(nothing)"),
        (" \n\t\n", "(nothing)"),
        ("one\n 12,500.75  and 3. \n\n", "0 and 0."),
        ("x" * 5000, "x" * 59 + "…"),
        ("9" * 500_000, "0"),
    ],
)
def test_unread_form_is_the_last_line_without_its_numbers(output, form):
    assert unread_form(output) == form


def test_unread_forms_are_counted_and_the_most_frequent_come_first(tmp_path):
    lines = records(*[None] * 4, output="Is it 5?") + records("42")
    for index, line in enumerate(lines):
        line |= {"index": index, "id": str(index)}
    lines[0] |= {"output": "Is it 12?", "finish": "length"}
    lines[1] |= {"flexible": "42", "output": ""}
    rows = section("Unread forms", write_run(tmp_path / "run", lines)).table.rows
    assert [row[2:] for row in rows] == [["Is it 0?", "3", "0", "1"], ["(nothing)", "1", "1", "0"]]


def test_everything_read_is_said(tmp_path):
    assert section("Unread forms", write_run(tmp_path / "run", records("42"))).table is None


def test_programs_are_counted_by_how_they_ended(tmp_path):
    lines = records("42", "42", None, "1")
    for line, outcome in zip(lines, ["ok", "timeout", None, "odd <b>"], strict=True):
        line |= {"outcome": outcome, "from": "program" if outcome == "ok" else "text"}
    table = section("Programs", write_run(tmp_path / "run", lines, style="pot")).table
    row = dict(zip(table.header, table.rows[0], strict=True))
    assert (row["ok"], row["timeout"], row["error"], row["none"]) == ("1", "1", "0", "1")
    assert (row["odd <b>"], row["answered by program"]) == ("1", "1")


# ---------------------------------------------------------------- hostile text, bad input


def test_hostile_names_and_texts_are_only_text(tmp_path):
    bad = '<script>alert("x")</script>|`\n\u202e\ud800</td>'
    lines = records("42", None, output=bad, outcome=bad)
    changes = {"model": bad, "task": bad, "model_source": bad, "settings": {bad: bad}, "style": bad}
    markdown, page = write_report([write_run(tmp_path / "run", lines, **changes)])
    text, html = markdown.read_text(encoding="utf-8"), page.read_text(encoding="utf-8")
    assert "<script>alert" not in text + html and "\u202e" not in text + html
    assert "&lt;script&gt;alert" in html and "`" not in text


def test_empty_run_is_reported_without_nan(tmp_path):
    empty = write_run(tmp_path / "empty", [])
    other = write_run(tmp_path / "other", [], **OTHER)
    for path in write_report([empty, other]):
        assert not re.search(r"\bnan\b", path.read_text(encoding="utf-8"), re.IGNORECASE)
    assert section("Accuracy", empty).table.rows[0][4:] == ["–"] * 5


def test_models_of_one_name_are_told_apart_by_their_fingerprints(tmp_path):
    folders = [write_run(tmp_path / c, records("42"), model_fingerprint=c * 64) for c in "ab"]
    assert [row[1] for row in section("Accuracy", *folders).table.rows] == [
        "model-a (aaaaaaaaaaaa)",
        "model-a (bbbbbbbbbbbb)",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"style": "pot"}, "`style`"),
        ({"task_version": 2}, "`task_version`"),
        ({"data_sha256": "e" * 64}, "`data_sha256`"),
        ({"settings": {"limit": 5}}, "`limit`"),
        ({"model": "model-a", "model_fingerprint": "a" * 64}, "`model_fingerprint`"),
    ],
)
def test_runs_that_do_not_match_leave_no_report(pair, tmp_path, change, said):
    other = write_run(tmp_path / "changed", records("42", "42", "42", "1", "7"), **OTHER | change)
    with pytest.raises(InputError, match=said) as caught:
        write_report([pair[0], other], tmp_path / "out")
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_no_runs_and_an_output_that_is_a_file_are_refused(pair):
    with pytest.raises(InputError, match="`runs`"):
        write_report([])
    with pytest.raises(InputError, match="`out`"):
        write_report(pair, pair[0] / "records.jsonl")
