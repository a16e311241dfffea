"""A sweep runs what is missing, resumes what was stopped, and compares in pairs."""

import dataclasses
import json

import pytest

from delcore import InputError, TrainConfig, train
from delcore import sweep as sweep_module
from delcore.sweep import format_rows, parse_losses, read_table, sweep, tabulate, write_tables


def base(out, **changes):
    settings = {"steps": 2, "batch_size": 2, "eval_samples": 4, "max_length": 64, "device": "cpu", "log_every": 2}
    return TrainConfig(loss="mle", out=out, **{**settings, **changes})


def final(cross_entropy):
    line = dict.fromkeys(sweep_module.MEASURES, 0.5)
    return {**line, "cross_entropy": cross_entropy}


def test_difference_is_taken_seed_by_seed():
    rows = tabulate({"mle": {0: final(1.0), 1: final(5.0)}, "del": {0: final(1.5), 1: final(5.5)}})
    by_loss = {row.loss: row for row in rows if row.measure == "cross_entropy"}
    assert by_loss["mle"].difference is None
    assert by_loss["del"].value.mean == 3.5
    assert by_loss["del"].difference.mean == by_loss["del"].difference.low == by_loss["del"].difference.high == 0.5


def test_difference_uses_only_the_seeds_that_both_have():
    rows = tabulate({"mle": {0: final(1.0)}, "del": {0: final(2.0), 1: final(9.0)}})
    difference = next(row for row in rows if row.loss == "del").difference
    assert (difference.mean, difference.count) == (1.0, 1)


def test_sweep_runs_tabulates_and_passes_over_what_is_done(tmp_path, monkeypatch):
    rows = sweep(base(tmp_path), ["mle", "del"], [0, 1])
    assert {path.name for path in tmp_path.iterdir()} == {
        *("mle-0", "mle-1", "del-0", "del-1"),
        *("table.json", "table.csv", "table.md"),
    }
    stored = json.loads((tmp_path / "table.json").read_text())
    assert [(row["loss"], row["measure"]) for row in stored] == [(row.loss, row.measure) for row in rows]
    assert {row.value.count for row in rows} == {2}
    monkeypatch.setattr(train, "finetune", lambda *_, **__: pytest.fail("a finished run was run again"))
    assert sweep(base(tmp_path), ["mle", "del"], [0, 1]) == rows


def test_tables_are_whole_or_as_they_were(tmp_path, monkeypatch):
    rows = tabulate({"mle": {0: final(1.0)}})
    write_tables(tmp_path, rows)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(before["table.csv"].splitlines()) == 1 + len(rows)

    def killed(path, write):
        path.write_bytes(b"")
        raise KeyboardInterrupt

    monkeypatch.setattr("delcore.checkpoints.write_synced", killed)
    with pytest.raises(KeyboardInterrupt):
        write_tables(tmp_path, tabulate({"del": {0: final(2.0)}}))
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_sweep_with_other_settings_does_not_take_the_old_runs(tmp_path):
    sweep(base(tmp_path), ["mle"], [0])
    with pytest.raises(InputError, match="another configuration: `learning_rate`"):
        sweep(base(tmp_path, learning_rate=1e-2), ["mle"], [0])


def test_alpha_goes_only_to_losses_that_have_one(tmp_path):
    given = dataclasses.replace(base(tmp_path), loss="del", alpha=0.4)
    alphas = {name: sweep_module.run_config(given, name, 0).alpha for name in ("mle", "mixce", "emo", "del", "ntl_was")}
    assert alphas == {"mle": None, "mixce": None, "emo": None, "del": 0.4, "ntl_was": 0.4}


def test_sweep_of_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match="`losses` must not be empty"):
        sweep(base(tmp_path), [], [0])
    with pytest.raises(InputError, match="`seeds` must not be empty"):
        sweep(base(tmp_path), ["mle"], [])


def test_all_losses_are_the_seven_published_ones():
    assert parse_losses("all") == ["mle", "mixce", "emo", "ntl_was", "ntl_mse", "dist2", "del"]
    with pytest.raises(InputError, match="`loss` must be one of"):
        parse_losses("mle,dell")
    with pytest.raises(InputError, match="twice"):
        parse_losses("mle,mle")


def test_table_shows_value_and_paired_difference():
    text = format_rows(tabulate({"mle": {0: final(1.0)}, "del": {0: final(1.25)}}))
    assert "| `mle` | 1.0000 |" in text
    assert "| `del` | 1.2500 (+0.2500) |" in text


def test_table_is_read_as_it_was_written(tmp_path):
    rows = tabulate({"mle": {0: final(1.0), 1: final(5.0)}, "del": {0: final(1.5)}})
    write_tables(tmp_path, rows)
    assert read_table(tmp_path) == rows


def row_as_text(mean="1.0", loss='"mle"'):
    value = f'{{"mean": {mean}, "low": null, "high": null, "count": 1}}'
    return f'[{{"loss": {loss}, "measure": "cross_entropy", "value": {value}, "difference": null}}]'


def test_number_too_large_for_a_table_is_infinite(tmp_path):
    (tmp_path / "table.json").write_text(row_as_text("9" * 400))
    assert read_table(tmp_path)[0].value.mean == float("inf")


UNUSABLE = [row_as_text('"1"'), row_as_text("null"), row_as_text(loss='["mle"]')]


@pytest.mark.parametrize("content", [None, "{", "[1]", '[{"loss": "mle"}]', *UNUSABLE])
def test_table_that_is_missing_or_damaged_is_refused(tmp_path, content):
    if content:
        (tmp_path / "table.json").write_text(content)
    with pytest.raises(InputError, match=r"table\.json"):
        read_table(tmp_path)
