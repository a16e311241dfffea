"""A checkpoint is whole or not there: case B55, a disk that is full, and what is kept."""

import os
import shutil
import subprocess
import sys

import pytest
import torch

from delcore import InputError, checkpoints
from delcore.checkpoints import (
    MARKER,
    STATE,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
    write_json,
    write_whole,
)


def state_of(step):
    return {"step": step, "model": {"weight": torch.full((50, 50), float(step))}, "log": {"pending": [[1.0]]}}


@pytest.fixture
def two(tmp_path):
    for step in (10, 20):
        save_checkpoint(tmp_path, step, state_of(step))
    return tmp_path


def cut(file):
    os.truncate(file, file.stat().st_size // 2)


def test_checkpoint_is_read_as_it_was_saved(two):
    state = load_checkpoint(newest_checkpoint(two))
    assert state["step"] == 20
    assert torch.equal(state["model"]["weight"], torch.full((50, 50), 20.0))
    assert state["log"] == {"pending": [[1.0]]}


def test_checkpoints_beyond_two_are_dropped_oldest_first(two):
    save_checkpoint(two, 30, state_of(30))
    assert sorted(path.name for path in two.iterdir()) == ["step-00000020", "step-00000030"]


@pytest.mark.parametrize("damage", ["cut", "no state", "no marker", "empty marker", "marker of another shape"])
def test_newest_checkpoint_that_is_damaged_is_named_and_passed_over(two, damage):
    newest = two / "step-00000020"
    if damage == "cut":
        cut(newest / STATE)
    elif damage == "no state":
        (newest / STATE).unlink()
    elif damage == "no marker":
        (newest / MARKER).unlink()
    else:
        (newest / MARKER).write_text("" if damage == "empty marker" else "[1]")
    said = []
    assert newest_checkpoint(two, said.append).name == "step-00000010"
    assert len(said) == 1
    assert "step-00000020" in said[0]
    with pytest.raises(InputError, match="no whole checkpoint"):
        load_checkpoint(newest)


def test_checkpoint_of_the_right_size_but_damaged_is_an_error_that_names_it(two):
    newest = two / "step-00000020"
    size = (newest / STATE).stat().st_size
    (newest / STATE).write_bytes(b"\0" * size)
    with pytest.raises(InputError, match="step-00000020 cannot be read"):
        load_checkpoint(newest)


def test_checkpoint_holding_a_pickled_object_is_refused(tmp_path):
    path = save_checkpoint(tmp_path, 1, {"step": 1, "evil": shutil.rmtree})
    with pytest.raises(InputError, match="cannot be read"):
        load_checkpoint(path)


def test_folder_without_checkpoints_has_no_newest(tmp_path):
    assert newest_checkpoint(tmp_path / "none") is None


def test_save_that_was_cut_short_leaves_nothing_that_counts(two):
    for step in (27, 30):
        (two / f".writing-000000{step}").mkdir()
        (two / f".writing-000000{step}" / STATE).write_bytes(b"half")
    assert newest_checkpoint(two).name == "step-00000020"
    save_checkpoint(two, 30, state_of(30))
    assert newest_checkpoint(two).name == "step-00000030"
    assert not list(two.glob(".writing-*"))


def test_full_disk_is_told_in_bytes_before_anything_is_written(two, monkeypatch):
    usage = shutil.disk_usage(two)._replace(free=4000)
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(InputError, match=r"no room for 10,000 bytes; 6,000 are missing"):
        save_checkpoint(two, 30, state_of(30))
    assert sorted(path.name for path in two.iterdir()) == ["step-00000010", "step-00000020"]


def test_disk_that_fills_up_during_the_save_keeps_the_older_checkpoints(two, monkeypatch):
    real = torch.save

    def fill(state, file):
        real(state, file)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints.torch, "save", fill)
    with pytest.raises(InputError, match="Checkpoint 30 cannot be written.*No space left.*as they were"):
        save_checkpoint(two, 30, state_of(30))
    assert sorted(path.name for path in two.iterdir()) == ["step-00000010", "step-00000020"]


def test_shared_storages_are_counted_once():
    weight = torch.zeros(10)
    assert checkpoints.tensor_bytes({"a": weight, "b": [weight, weight[:5]], "c": 3}) == 40


def test_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path, monkeypatch):
    file = tmp_path / "new folder" / "results.json"
    write_json(file, {"α": 0.1})
    assert file.read_text(encoding="utf-8") == '{\n "α": 0.1\n}\n'

    def full(path, write):
        path.write_text("{")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "write_synced", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, "other")
    assert file.read_text(encoding="utf-8") == '{\n "α": 0.1\n}\n'
    assert [path.name for path in file.parent.iterdir()] == ["results.json"]


@pytest.mark.skipif(os.name != "posix", reason="only there is it known which processes run")
def test_what_killed_writers_left_goes_with_the_next_write_and_that_of_living_ones_stays(tmp_path, monkeypatch):
    file = tmp_path / "results.json"
    names = []
    write = checkpoints.write_synced
    monkeypatch.setattr(checkpoints, "write_synced", lambda path, how: (names.append(path.name), write(path, how)))
    write_whole(file, "first")
    (own,) = names
    assert own.startswith(checkpoints.WRITING)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for number in (dead.pid, 10**30, os.getppid(), "x"):
        (tmp_path / own.replace(str(os.getpid()), str(number))).write_text("half")
    elsewhere = tmp_path / f"{checkpoints.WRITING}results.json-elsewhere-{dead.pid}"
    elsewhere.write_text("half")
    write_whole(file, "whole")
    left = {path.name.removeprefix(own.removesuffix(str(os.getpid()))) for path in tmp_path.iterdir()}
    assert left == {str(os.getppid()), "x", elsewhere.name, file.name}
    assert file.read_text() == "whole"
