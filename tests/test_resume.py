"""A run that is stopped, by a signal or by kill -9, goes on as if nothing had happened: cases B55 and B60."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from delcore import InputError, TrainConfig, checkpoints, finetune, train
from delcore.prepare import CHECKPOINTS, prepare
from tests.models_for_tests import save_tiny, tiny_loaded
from tests.test_train import assert_same_weights, weights_of, write_jsonl

STEPS = 12


def config(out: Path, **changes) -> TrainConfig:
    settings = {"loss": "del", "steps": STEPS, "batch_size": 4, "max_length": 96, "device": "cpu"}
    settings |= {"save_every": 2, "log_every": 3, "eval_every": 5, "eval_samples": 4}
    return TrainConfig(**{**settings, **changes, "out": out})


def run(out: Path, *, progress=None, **changes) -> train.Run:
    return finetune(config(out, **changes), loaded=tiny_loaded(context=128), progress=progress)


def stop_after(monkeypatch, step: int) -> None:
    real = train.encode_step

    def encode_step(job, at):
        if at == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(job, at)

    monkeypatch.setattr(train, "encode_step", encode_step)


def logs_of(folder: Path, *names: str) -> list[list[dict]]:
    """The lines of some logs without the one number that is not the same twice."""
    logs = [(folder / name).read_text().splitlines() for name in names or LOGS]
    return [[{**json.loads(line), "tokens_per_second": None} for line in log] for log in logs]


LOGS = ("metrics.jsonl", "heldout.jsonl")

VARIANTS = {
    "plain": {},
    "micro-batches": {"micro_batch_size": 3},
    "lora": {"lora_rank": 2},
    "emo": {"loss": "emo"},
    "epochs": {"epochs": 2.0},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_resumed_run_equals_one_that_was_never_stopped(tmp_path, monkeypatch, changes):
    if "epochs" in changes:
        rows = [{"prompt": f"{n} + {n} = ", "response": str(2 * n)} for n in range(20)]
        changes = {**changes, "data": str(write_jsonl(tmp_path / "data.jsonl", *rows)), "eval_every": 0}
    whole = run(tmp_path / "whole", **changes)
    with monkeypatch.context() as patched:
        stop_after(patched, 5)  # no multiple of log_every, and not where a checkpoint is due
        assert run(tmp_path / "cut", **changes).steps_done == 5
    resumed = run(tmp_path / "cut", resume=True, **changes)
    assert resumed.steps_done == whole.steps_done == whole.config.steps
    name = "adapter_model.safetensors" if "lora_rank" in changes else "model.safetensors"
    assert_same_weights(weights_of(whole.path, name), weights_of(resumed.path, name))
    if "epochs" not in changes:
        assert logs_of(whole.path) == logs_of(resumed.path)
    assert not (resumed.path / CHECKPOINTS).exists()


def test_samples_after_a_mid_epoch_resume_are_those_of_a_straight_run(tmp_path):
    """B60: 64 samples, batch 4, stopped after step 5 of epoch 2."""
    rows = [{"prompt": f"{n} = ", "response": str(n)} for n in range(64)]
    data = str(write_jsonl(tmp_path / "data.jsonl", *rows))
    job = prepare(config(tmp_path / "run", data=data, eval_every=0), tiny_loaded(context=128))
    seen = [tuple(tuple(one.input_ids) for one in train.encode_step(job, step)) for step in range(1, 49)]
    for epoch in range(3):
        drawn = [sample for step in seen[16 * epoch : 16 * epoch + 16] for sample in step]
        assert len(set(drawn)) == 64
    assert train.encode_step(job, 16 + 6) == train.encode_step(job, 22)
    assert seen[:16] != seen[16:32]


def test_newest_checkpoint_that_was_cut_is_named_and_the_one_before_taken(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole")
    with monkeypatch.context() as patched:
        stop_after(patched, 7)
        run(tmp_path / "cut")
    newest = max((tmp_path / "cut" / CHECKPOINTS).iterdir())
    state = newest / checkpoints.STATE
    os.truncate(state, state.stat().st_size // 2)
    lines = []
    resumed = run(tmp_path / "cut", resume=True, progress=lines.append)
    assert [line for line in lines if newest.name in line and "bytes" in line]
    assert [line for line in lines if "Going on after step 6" in line]
    assert_same_weights(weights_of(whole.path), weights_of(resumed.path))


def test_run_without_a_whole_checkpoint_begins_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        stop_after(patched, 3)
        run(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / CHECKPOINTS)
    assert_same_weights(weights_of(run(tmp_path / "run", resume=True).path), weights_of(run(tmp_path / "other").path))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"learning_rate": 1e-2}, "`learning_rate` was 0.0003 and is now 0.01"),
        ({"loss": "mle"}, "`loss` was 'del' and is now 'mle'"),
        ({"seed": 5}, "`seed` was 0 and is now 5"),
        ({"options": {"place": "none"}}, "`options`"),
    ],
)
def test_resuming_with_other_settings_is_refused_and_nothing_is_touched(tmp_path, monkeypatch, changes, named):
    with monkeypatch.context() as patched:
        stop_after(patched, 3)
        run(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="another configuration") as refused:
        run(tmp_path / "run", resume=True, **changes)
    assert named in str(refused.value)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_resuming_on_other_data_is_refused(tmp_path, monkeypatch):
    data = write_jsonl(tmp_path / "data.jsonl", *({"prompt": f"{n} ", "response": str(n)} for n in range(20)))
    with monkeypatch.context() as patched:
        stop_after(patched, 3)
        run(tmp_path / "run", data=str(data))
    write_jsonl(data, *({"prompt": f"{n} ", "response": str(n)} for n in range(21)))
    with pytest.raises(InputError, match="`data_sha256`"):
        run(tmp_path / "run", data=str(data), resume=True)


def test_finished_run_and_foreign_folder_are_told_apart(tmp_path):
    run(tmp_path / "run", steps=2)
    with pytest.raises(InputError, match="finished run of 2 steps"):
        run(tmp_path / "run", steps=2, resume=True)
    with pytest.raises(InputError, match="not empty.*--resume"):
        run(tmp_path / "run", steps=2)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no run to resume"):
        run(tmp_path / "notes", resume=True)
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["diary.txt"]


def test_resume_where_there_is_nothing_begins(tmp_path):
    assert run(tmp_path / "new", resume=True, steps=2).steps_done == 2


def small_disk(monkeypatch, free: int) -> None:
    real = shutil.disk_usage
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda path: real(path)._replace(free=free))


def test_full_disk_during_a_run_is_a_warning_with_the_missing_bytes(tmp_path, monkeypatch):
    lines = []
    real = checkpoints.check_space

    def check_space(folder, needed):
        with monkeypatch.context() as patched:
            if folder.name == CHECKPOINTS:
                small_disk(patched, 10)
            real(folder, needed)

    monkeypatch.setattr(checkpoints, "check_space", check_space)
    done = run(tmp_path / "run", steps=4, progress=lines.append)
    assert done.steps_done == 4
    assert [line for line in lines if line.startswith("Warning") and "bytes; " in line and "are missing" in line]


def test_full_disk_at_the_end_keeps_the_checkpoint_and_the_run_can_go_on(tmp_path, monkeypatch):
    from delcore import saving

    whole = run(tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(saving, "check_space", lambda folder, needed: checkpoints.check_space(folder, 10**15))
        with pytest.raises(InputError, match="no room for 1,000,000,000,000,000 bytes.*--resume"):
            run(tmp_path / "run")
    assert checkpoints.newest_checkpoint(tmp_path / "run" / CHECKPOINTS).name == "step-00000010"
    assert_same_weights(weights_of(whole.path), weights_of(run(tmp_path / "run", resume=True).path))


# ---------------------------------------------------------------- real processes, killed


def start(folder: Path, model: Path, *more: str) -> subprocess.Popen:
    command = ["train", "--loss", "del", "--model", str(model), "--out", str(folder), "--steps", "60"]
    settings = ["--batch-size", "4", "--max-length", "96", "--save-every", "3", "--log-every", "4", "--device", "cpu"]
    return subprocess.Popen(
        [sys.executable, "-m", "delcore", *command, *settings, *more],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for(process: subprocess.Popen, happened, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        if process.poll() is not None:
            return
        assert time.monotonic() < deadline
        time.sleep(0.001)


def finish(process: subprocess.Popen) -> str:
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 0, stderr
    return stderr


@pytest.fixture(scope="module")
def whole_process(tmp_path_factory):
    """A model, and a run of it in a process of its own that nobody stopped."""
    folder = tmp_path_factory.mktemp("killed")
    model = save_tiny(folder / "model", context=128)
    finish(start(folder / "whole", model))
    return model, folder / "whole"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_kill_at_any_moment_loses_nothing(tmp_path, whole_process, seed):
    """Three kills of each run: at a random moment, inside a checkpoint's save, and inside the last one."""
    model, whole = whole_process
    out = tmp_path / "run"
    moments = random.Random(seed)
    writing = [
        lambda: (out / "metrics.jsonl").exists() and time.sleep(moments.uniform(0, 1)) is None,
        lambda: any((out / CHECKPOINTS).glob(".writing-*")),
        lambda: (out / CHECKPOINTS).is_dir() and (out / ".saving").is_dir(),
    ]
    for happened in writing:
        process = start(out, model, "--resume")
        wait_for(process, happened)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    last = start(out, model, "--resume")
    _, stderr = last.communicate(timeout=240)
    assert last.returncode == 0 or "finished run" in stderr, stderr
    assert_same_weights(weights_of(whole), weights_of(out))
    assert logs_of(out, "metrics.jsonl") == logs_of(whole, "metrics.jsonl")
