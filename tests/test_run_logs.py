"""Reading the logs of runs, whole or not, and the figures of what they and the studies say."""

import json

import pytest

from delcore.errors import InputError
from delcore.plots import plot_logs, plot_variants
from delcore.run_logs import MOST_RUNS, RunLog, read_log, read_logs, terms_of


def log_of(name: str, *losses: float, loss: str = "mle") -> RunLog:
    lines = tuple({"step": 10 * i, "loss": value, "grad_norm": None} for i, value in enumerate(losses, 1))
    return RunLog(name, loss, 0, 20, lines, ())


def write(folder, text, **settings):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(text)
    if settings:
        (folder / "delcore.json").write_text(json.dumps({"settings": settings}))
    return folder


def test_log_of_a_finished_run_has_its_record(tmp_path):
    run = write(tmp_path / "r", '{"step": 10, "loss": 1}\n{"step": 20, "loss": NaN}\n', loss="del", seed=3, steps=20)
    log = read_log(run)
    assert (log.name, log.loss, log.seed, log.state, log.last_step) == ("r", "del", 3, "finished", 20)


def test_log_of_a_killed_run_drops_its_last_half_line(tmp_path):
    run = write(tmp_path / "ntl_was-4", '{"step": 10, "loss": 1}\n{"step": 20, "lo')
    log = read_log(run)
    assert (log.loss, log.seed, log.last_step, log.state) == ("ntl_was", None, 10, "under way, or stopped")
    (run / "metrics.jsonl").write_text('{"step": 10, "loss": 1}\n{"step": 20, "loss": 2}')
    assert read_log(run).last_step == 20, "a whole last line counts without its end"


@pytest.mark.parametrize("text", ["x\n", "[]\n", '{"loss": 1}\n', '{"step": true}\n', "{" * 100_000 + "\n"])
def test_line_that_is_no_entry_is_named(tmp_path, text):
    with pytest.raises(InputError, match="line 1 is no entry"):
        read_log(write(tmp_path / "r", text))


def test_file_that_is_no_text_is_refused(tmp_path):
    run = write(tmp_path / "r", "")
    (run / "metrics.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(InputError, match="cannot be read"):
        read_log(run)


def test_folder_gives_its_runs_in_order_or_says_that_there_are_none(tmp_path):
    for name in ("b-1", "a-1"):
        write(tmp_path / name, "")
    assert [log.name for log in read_logs(tmp_path)[0]] == ["a-1", "b-1"]
    assert [log.name for log in read_logs(tmp_path / "a-1")[0]] == ["a-1"]
    with pytest.raises(InputError, match="holds no metrics.jsonl"):
        read_logs(tmp_path / "nothing")
    for i in range(MOST_RUNS):
        write(tmp_path / f"c-{i}", "")
    with pytest.raises(InputError, match="at most"):
        read_logs(tmp_path)


def test_damaged_log_is_a_line_beside_the_others(tmp_path):
    for name, text in (("a-1", ""), ("b-1", "x\n"), ("c-1", "")):
        write(tmp_path / name, text)
    logs, problems = read_logs(tmp_path)
    assert [log.name for log in logs] == ["a-1", "c-1"]
    assert len(problems) == 1 and f"{tmp_path / 'b-1' / 'metrics.jsonl'}, line 1" in problems[0]
    assert read_logs(tmp_path / "b-1") == ([], problems)


def test_every_number_that_is_logged_has_a_panel_and_a_gap_where_it_is_none():
    logs = [log_of("mle-0", 1.0, float("nan")), log_of("mle-1", 2.0, 1.0), log_of("del-0", 3.0, loss="del")]
    assert terms_of(logs) == ["loss"]
    figure = plot_logs(logs, ["loss", "<b>new</b>"])
    assert [trace.y for trace in figure.data[:3]] == [(1.0, None), (2.0, 1.0), (3.0,)]
    assert [trace.showlegend for trace in figure.data] == [True, False, True, False, False, False]
    titles = [note.text for note in figure.layout.annotations]
    assert titles == ["loss (nats)", "&lt;b&gt;new&lt;/b&gt;"]
    assert figure.data[0].line.color != figure.data[2].line.color


def test_logs_without_a_line_have_no_figure():
    with pytest.raises(InputError, match="nothing to show"):
        plot_logs([log_of("mle-0")], [])


def study(**changes):
    value = {"mean": 0.2, "low": 0.1, "high": 0.3, "count": 3}
    rows = [
        {"variant": variant, "group": group, "measure": "gap_nats", "value": value}
        for variant in ("mle", "ntl_was-matched")
        for group in ("readings", "decimals")
    ]
    return {
        "study": "losses",
        "variants": [{"name": "mle", "loss": "mle"}, {"name": "ntl_was-matched", "loss": "ntl_was"}],
        "equilibrium_gap_nats": {"mle": {"readings": 0.0, "decimals": 0.0}, "ntl_was-matched": None},
        "rows": rows,
    } | changes


def test_variants_show_their_intervals_and_equilibria_by_group():
    figure = plot_variants(study(), "gap_nats", ["readings", "decimals"])
    own = [trace for trace in figure.data if trace.error_x.array]
    assert [trace.y[0] for trace in own] == ["MLE", "NTL-WAS, matched"] * 2
    assert own[0].error_x.array[0] == pytest.approx(0.1) and own[0].error_x.arrayminus[0] == pytest.approx(0.1)
    assert own[1].marker.symbol.endswith("-open") and not own[0].marker.symbol.endswith("-open")
    goals = [trace for trace in figure.data if not trace.error_x.array]
    assert [trace.y for trace in goals] == [("MLE",)] * 2
    assert "nats" in figure.layout.xaxis.title.text and "n = 3" in figure.layout.xaxis.title.text


def test_variants_of_one_seed_have_no_interval_and_narrow_windows_stack_panels():
    single = {"mean": 0.2, "low": None, "high": None, "count": 1}
    rows = [row | {"value": single} for row in study()["rows"]]
    figure = plot_variants(study(rows=rows), "gap_nats", ["readings", "decimals"], columns=1)
    assert {trace.error_x.array[0] for trace in figure.data if trace.error_x.array} == {0.0}
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]


def test_axis_of_shares_ends_where_shares_do_and_that_of_nats_where_the_values_do():
    rows = [row | {"measure": "exact_match"} for row in study()["rows"]]
    shares = plot_variants(study(rows=rows), "exact_match", ["readings", "decimals"])
    assert {axis.autorangeoptions.clipmax for axis in shares.select_xaxes()} == {1.02}
    nats = plot_variants(study(), "gap_nats", ["readings", "decimals"])
    assert {axis.autorangeoptions.clipmax for axis in nats.select_xaxes()} == {None}


def test_measure_that_a_study_does_not_hold_is_refused():
    with pytest.raises(InputError, match="exact_match"):
        plot_variants(study(), "exact_match", ["readings"])
