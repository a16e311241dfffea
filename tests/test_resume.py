"""A run that is stopped, by a signal or by kill -9, goes on as if nothing had happened: cases B55 and B60."""

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from delcore import InputError, TrainConfig, checkpoints, finetune, load_model, saving, train
from delcore import prepare as preparing
from delcore.digits import IGNORE
from delcore.prepare import CHECKPOINTS
from tests.models_for_tests import save_tiny, tiny_loaded
from tests.processes_for_tests import Delcore, run_delcore
from tests.test_train import assert_same_weights, final_weights, quick_preparation, record_of, weights_of, write_jsonl  # noqa: F401

STEPS = 12
LOGS = ("metrics.jsonl", "heldout.jsonl")


def config(out: Path, **changes) -> TrainConfig:
    settings = {"loss": "del", "steps": STEPS, "batch_size": 4, "max_length": 96, "device": "cpu"}
    settings |= {"save_every": 2, "log_every": 3, "eval_every": 5, "eval_samples": 4}
    return TrainConfig(**{**settings, **changes, "out": out})


def gpt2_with_dropout():
    """Its forward pass draws random numbers, so they must go on where they were."""
    torch.manual_seed(0)
    size = {"vocab_size": 259, "n_positions": 128, "n_embd": 16, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**size, bos_token_id=1, eos_token_id=2, resid_pdrop=0.2))
    return tiny_loaded(context=128)._replace(model=model)


def run(out: Path, *, progress=None, loaded=None, **changes) -> train.Run:
    return finetune(config(out, **changes), loaded=loaded or tiny_loaded(context=128), progress=progress)


def stop_at(monkeypatch, step: int, number: signal.Signals = signal.SIGTERM) -> None:
    """Send this process a signal while it prepares a step."""
    real = train.encode_step

    def encode_step(job, at):
        if at == step:
            os.kill(os.getpid(), number)
        return real(job, at)

    monkeypatch.setattr(train, "encode_step", encode_step)


def stopped(monkeypatch, out: Path, step: int, **changes) -> train.Run:
    with monkeypatch.context() as patched:
        stop_at(patched, step)
        ended = run(out, **changes)
    assert (ended.stopped_by, ended.steps_done) == (signal.SIGTERM, step)
    return ended


def logs_of(folder: Path) -> dict[str, list[dict]]:
    """All lines of the logs without the one number that is not the same twice."""
    texts = {name: (folder / name).read_text() for name in LOGS if (folder / name).exists()}
    parsed = {name: [json.loads(line) for line in text.splitlines()] for name, text in texts.items()}
    return {name: [{**line, "tokens_per_second": None} for line in lines] for name, lines in parsed.items()}


def assert_same_run(one: Path, other: Path) -> None:
    assert_same_weights(final_weights(one), final_weights(other))
    assert logs_of(one) == logs_of(other)
    ours, theirs = record_of(one), record_of(other)
    for key in ("steps_done", "samples", "samples_cut", "samples_unsupervised", "data_sha256", "model_revision"):
        assert ours[key] == theirs[key]


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- the same run, stopped and not


VARIANTS = {
    "plain": {},
    "micro-batches": {"micro_batch_size": 3},
    "lora": {"lora_rank": 2, "learning_rate": 0.02},
    # The embedding must be the one at the run's start, so it has to have moved by the time of the stop.
    "emo": {"loss": "emo", "learning_rate": 0.05},
    "full logits": {"lean": False, "gradient_checkpointing": True},
    "bf16": {"precision": "bf16", "learning_rate": 0.02},
    "bf16-mixed lora": {"precision": "bf16-mixed", "lora_rank": 2},
    "cut samples": {"max_length": 16, "supervise": "all"},
    "epochs": {"epochs": 2.0},
    "dropout": {},
}


QUICK = ("micro-batches", "lora", "emo", "epochs", "dropout")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
)
def test_resumed_run_equals_one_that_was_never_stopped(tmp_path, monkeypatch, name):
    """Stopped at step 5: no multiple of `log_every`, and no step at which a checkpoint is due."""
    changes = VARIANTS[name]
    if name == "epochs":
        rows = [{"prompt": f"{n} + {n} = ", "response": str(2 * n)} for n in range(24)]
        changes = {**changes, "data": str(write_jsonl(tmp_path / "data.jsonl", *rows))}
    model = gpt2_with_dropout if name == "dropout" else lambda: tiny_loaded(context=128)
    run(tmp_path / "whole", loaded=model(), **changes)
    stopped(monkeypatch, tmp_path / "cut", 5, loaded=model(), **changes)
    assert [path.name for path in sorted((tmp_path / "cut" / CHECKPOINTS).iterdir())][-1] == "step-00000005"
    resumed = run(tmp_path / "cut", resume=True, loaded=model(), **changes)
    assert resumed.steps_done == resumed.config.steps
    assert_same_run(tmp_path / "whole", tmp_path / "cut")
    assert not (resumed.path / CHECKPOINTS).exists()


def test_checkpoint_before_anything_was_learned_counts_no_step_of_the_optimiser(tmp_path, monkeypatch):
    def mask_first(patched):
        real = train.encode_step

        def encode_step(job, step):
            samples = real(job, step)
            return [one._replace(labels=[IGNORE] * len(one.labels)) for one in samples] if step == 1 else samples

        patched.setattr(train, "encode_step", encode_step)

    mask_first(monkeypatch)
    run(tmp_path / "whole")
    stopped(monkeypatch, tmp_path / "cut", 1)
    run(tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_record_that_lacks_a_newer_setting_had_its_default(tmp_path, monkeypatch):
    stopped(monkeypatch, tmp_path / "run", 1)
    file = tmp_path / "run" / "config.json"
    text = json.loads(file.read_text())
    del text["delcore"]["settings"]["eval_split"]
    file.write_text(json.dumps(text))
    with pytest.raises(InputError, match="eval_split"):
        run(tmp_path / "run", resume=True, eval_split="validation")
    assert run(tmp_path / "run", resume=True).steps_done == STEPS


def test_resuming_with_other_heldout_samples_is_refused(tmp_path, monkeypatch):
    other = write_jsonl(tmp_path / "other.jsonl", {"prompt": "1 ", "response": "2"})
    changes = {"eval_data": str(other), "eval_every": 2}
    stopped(monkeypatch, tmp_path / "run", 1, **changes)
    write_jsonl(other, {"prompt": "1 ", "response": "3"})
    with pytest.raises(InputError, match="heldout_sha256"):
        run(tmp_path / "run", resume=True, **changes)


def test_run_stopped_at_every_other_step_equals_one_that_was_never_stopped(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole", steps=6)
    for step in (1, 3, 4):
        stopped(monkeypatch, tmp_path / "cut", step, steps=6, resume=True)
    resumed = run(tmp_path / "cut", steps=6, resume=True)
    assert_same_run(whole.path, resumed.path)
    without_speed = [{**line, "tokens_per_second": None} for line in resumed.metrics]
    assert without_speed == logs_of(whole.path)["metrics.jsonl"]
    assert resumed.heldout == whole.heldout


def test_checkpoints_do_not_change_a_run(tmp_path):
    run(tmp_path / "none", save_every=0)
    run(tmp_path / "many", save_every=1)
    assert_same_run(tmp_path / "none", tmp_path / "many")


def test_samples_after_a_mid_epoch_resume_are_those_of_a_straight_run(tmp_path, monkeypatch):
    """B60: 64 samples, batch 4, stopped after step 5 of epoch 2."""
    rows = [{"prompt": f"{n} = ", "response": str(n)} for n in range(64)]
    settings = {"data": str(write_jsonl(tmp_path / "data.jsonl", *rows)), "steps": 32, "eval_every": 0, "log_every": 1}
    seen: dict[str, list[list[tuple[int, ...]]]] = {"straight": [], "stopped": []}
    real, into = train.encode_step, ["straight"]

    def watch(job, step):
        if step == 16 + 5 and into[0] == "stopped" and not settings.get("resume"):
            os.kill(os.getpid(), signal.SIGTERM)
        encoded = real(job, step)
        seen[into[0]].append([tuple(sample.input_ids) for sample in encoded])
        return encoded

    monkeypatch.setattr(train, "encode_step", watch)
    straight = run(tmp_path / "straight", **settings)
    into[0] = "stopped"
    assert run(tmp_path / "stopped", **settings).steps_done == 21
    settings["resume"] = True
    resumed = run(tmp_path / "stopped", **settings)
    assert seen["stopped"] == seen["straight"]
    first, second = (list(itertools.chain(*seen["stopped"][start : start + 16])) for start in (0, 16))
    assert len(set(first)) == len(set(second)) == 64
    assert first != second
    assert [line["loss"] for line in resumed.metrics] == [line["loss"] for line in straight.metrics]


# ---------------------------------------------------------------- what there is to go on from


def test_newest_checkpoint_that_was_cut_is_named_and_the_one_before_taken(tmp_path, monkeypatch):
    """B55."""
    run(tmp_path / "whole")
    stopped(monkeypatch, tmp_path / "cut", 7)
    newest = max((tmp_path / "cut" / CHECKPOINTS).iterdir())
    state = newest / checkpoints.STATE
    os.truncate(state, state.stat().st_size // 2)
    lines = []
    run(tmp_path / "cut", resume=True, progress=lines.append)
    assert [line for line in lines if newest.name in line and "bytes" in line]
    assert [line for line in lines if line == "Going on after step 6."]
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("damage", ["cut", "dropped"])
def test_run_without_a_whole_checkpoint_begins_again(tmp_path, monkeypatch, damage):
    run(tmp_path / "whole")
    stopped(monkeypatch, tmp_path / "run", 3)
    for checkpoint in (tmp_path / "run" / CHECKPOINTS).iterdir():
        if damage == "dropped":
            shutil.rmtree(checkpoint)
        else:
            os.truncate(checkpoint / checkpoints.STATE, 10)
    lines = []
    run(tmp_path / "run", resume=True, progress=lines.append)
    assert not [line for line in lines if line.startswith("Going on")]
    assert len([line for line in lines if line.startswith("Passing over")]) == (2 if damage == "cut" else 0)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_resume_where_there_is_nothing_begins(tmp_path, kind):
    if kind == "empty":
        (tmp_path / "new").mkdir()
    assert run(tmp_path / "new", resume=True, steps=2).steps_done == 2


OTHER_SETTINGS = [
    ({"learning_rate": 1e-2}, "`learning_rate` was 0.0003 and is now 0.01"),
    ({"loss": "mle"}, "`loss` was 'del' and is now 'mle'"),
    ({"seed": 5}, "`seed` was 0 and is now 5"),
    ({"steps": 13}, "`steps` was 12 and is now 13"),
    ({"batch_size": 8}, "`batch_size` was 4 and is now 8"),
    ({"options": {"place": "none"}}, "`options` was {} and is now {'place': 'none'}"),
    ({"alpha": 0.2}, "`alpha` was None and is now 0.2"),
    ({"lora_rank": 2}, "`lora_rank` was 0 and is now 2"),
    ({"precision": "bf16"}, "`precision` was 'float32' and is now 'bf16'"),
    ({"loaded": 1}, "`model_revision` was '0' and is now '1'"),
]


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory):
    """A run stopped after step 3, for tests that leave it as it is."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preparing, "FIRST_SAMPLES", 20)
        stopped(patched, out, 3)
    return out


@pytest.mark.parametrize(("changes", "named"), OTHER_SETTINGS, ids=lambda value: str(value)[:24])
def test_resuming_with_other_settings_is_refused_and_nothing_is_touched(stopped_run, changes, named):
    before = files_of(stopped_run)
    if "loaded" in changes:
        changes = {"loaded": tiny_loaded(context=128, seed=changes["loaded"])}
    with pytest.raises(InputError, match="another configuration") as refused:
        run(stopped_run, resume=True, **changes)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)
    assert files_of(stopped_run) == before


def test_resuming_on_other_data_is_refused(tmp_path, monkeypatch):
    rows = [{"prompt": f"{n} ", "response": str(n)} for n in range(20)]
    data = write_jsonl(tmp_path / "data.jsonl", *rows)
    stopped(monkeypatch, tmp_path / "run", 3, data=str(data))
    write_jsonl(data, *rows[:-1], {"prompt": "19 ", "response": "20"})
    with pytest.raises(InputError, match="`data_sha256`"):
        run(tmp_path / "run", data=str(data), resume=True)


def test_settings_that_change_no_number_may_change_on_resuming(tmp_path, monkeypatch):
    run(tmp_path / "whole")
    stopped(monkeypatch, tmp_path / "cut", 5)
    (tmp_path / "cut").rename(tmp_path / "moved")
    run(tmp_path / "moved", resume=True, save_every=3, tensorboard=True, device="auto")
    if not torch.cuda.is_available():
        assert_same_run(tmp_path / "whole", tmp_path / "moved")


def test_finished_run_and_foreign_folder_are_told_apart(tmp_path):
    run(tmp_path / "run", steps=2)
    before = files_of(tmp_path / "run")
    with pytest.raises(InputError, match="finished run of 2 steps"):
        run(tmp_path / "run", steps=2, resume=True)
    with pytest.raises(InputError, match=r"not empty.*--resume"):
        run(tmp_path / "run", steps=2)
    assert files_of(tmp_path / "run") == before
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no run to resume"):
        run(tmp_path / "notes", resume=True)
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["diary.txt"]
    save_tiny(tmp_path / "model")
    with pytest.raises(InputError, match="holds no run to resume"):
        run(tmp_path / "model", resume=True)


# ---------------------------------------------------------------- a full disk


def small_disk(monkeypatch, free: int) -> None:
    real = shutil.disk_usage
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda path: real(path)._replace(free=free))


def test_full_disk_during_a_run_is_a_warning_with_the_missing_bytes(tmp_path, monkeypatch):
    run(tmp_path / "whole")
    lines = []
    real = checkpoints.check_space

    def check_space(folder, needed):
        with monkeypatch.context() as patched:
            if folder.name == CHECKPOINTS and next(saves) == 1:
                small_disk(patched, 10)
            real(folder, needed)

    saves = itertools.count()
    monkeypatch.setattr(checkpoints, "check_space", check_space)
    run(tmp_path / "run", progress=lines.append)
    (warning,) = [line for line in lines if line.startswith("Warning")]
    assert "bytes; " in warning
    assert " are missing" in warning
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_full_disk_at_the_end_keeps_the_checkpoint_and_the_run_can_go_on(tmp_path, monkeypatch):
    run(tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(saving, "check_space", lambda folder, needed: checkpoints.check_space(folder, 10**15))
        with pytest.raises(InputError, match=r"no room for 1,000,000,000,000,000 bytes.*--resume"):
            run(tmp_path / "run")
    assert checkpoints.newest_checkpoint(tmp_path / "run" / CHECKPOINTS).name == "step-00000010"
    run(tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_adapters_need_room_for_themselves_only(tmp_path, monkeypatch):
    small_disk(monkeypatch, 20_000)  # the adapters take 7,000 bytes, the frozen base 28,000
    assert run(tmp_path / "run", lora_rank=1, save_every=0).steps_done == STEPS


# ---------------------------------------------------------------- signals at awkward moments


def test_ctrl_c_during_the_final_save_lets_it_end(tmp_path, monkeypatch):
    run(tmp_path / "whole", save_every=0)
    real = saving._move_into

    def interrupted(out, write, *more):
        if (out / "config.json").exists():
            os.kill(os.getpid(), signal.SIGINT)
        return real(out, write, *more)

    monkeypatch.setattr(saving, "_move_into", interrupted)
    try:
        run(tmp_path / "run", save_every=0)
    except KeyboardInterrupt:
        pytest.fail("the trained weights are gone")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_signal_during_the_last_step_is_no_reason_to_resume(tmp_path, monkeypatch):
    stop_at(monkeypatch, STEPS)
    lines = []
    ended = run(tmp_path / "run", progress=lines.append)
    assert ended.steps_done == STEPS
    assert not (tmp_path / "run" / CHECKPOINTS).exists()
    assert not [line for line in lines if "--resume" in line]


def test_stop_on_a_full_disk_does_not_promise_a_checkpoint(tmp_path, monkeypatch):
    stop_at(monkeypatch, 5)
    small_disk(monkeypatch, 30_000)  # enough for the weights, not for the moments
    lines = []
    run(tmp_path / "run", save_every=0, progress=lines.append)
    assert [line for line in lines if line.startswith("Warning")]
    assert not [line for line in lines if "--resume goes on" in line]


# ---------------------------------------------------------------- real processes, killed


SETTINGS = ("--loss", "del", "--batch-size", 4, "--max-length", 96, "--device", "cpu", "--log-every", 4)
SCHEDULE = ("--steps", 30, "--save-every", 3, "--eval-every", 7, "--eval-samples", 4)


def command(model: Path, out: Path, *more) -> list:
    return ["train", "--model", model, "--out", out, *SETTINGS, *SCHEDULE, *more]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, model):
    """A run in a process of its own that nobody stopped."""
    folder = tmp_path_factory.mktemp("whole")
    code, said = run_delcore(*command(model, folder / "run"), errors=folder / "errors")
    assert code == 0, said
    return folder / "run"


def lines_in(out: Path) -> int:
    return (out / "metrics.jsonl").read_text().count("\n") if (out / "metrics.jsonl").exists() else 0


def kill_when(process: Delcore, happens, seconds: float = 60) -> bool:
    """Kill a process while something is the case; it is held for a moment to make sure. False if it ended before."""
    while True:
        process.wait_until(lambda: happens() or not process.process.is_alive(), seconds)
        if not process.process.is_alive():
            return False
        process.send(signal.SIGSTOP)
        if happens():
            process.send(signal.SIGKILL)
            assert process.end() == -signal.SIGKILL
            return True
        process.send(signal.SIGCONT)


def resume_and_compare(model: Path, out: Path, whole: Path, errors: Path) -> str:
    code, said = run_delcore(*command(model, out, "--resume"), errors=errors)
    assert code == 0, said
    assert_same_run(whole, out)
    assert not [path for path in out.rglob(".*")]
    return said


def test_kill_at_random_steps_then_resume_equals_a_run_that_was_never_killed(tmp_path, model, whole):
    out, draw = tmp_path / "run", random.Random(0)
    for kill, lines in enumerate(sorted(draw.sample(range(1, 7), 2))):
        process = Delcore(*command(model, out, "--resume"), errors=tmp_path / f"errors{kill}")
        assert kill_when(process, lambda lines=lines: lines_in(out) >= lines), process.said()
    said = resume_and_compare(model, out, whole, tmp_path / "errors")
    assert "Going on after step" in said


def test_kill_inside_a_checkpoints_save_then_resume_goes_on_from_the_one_before(tmp_path, model, whole):
    out = tmp_path / "run"
    seen = []

    def saves():
        """A second or later checkpoint is half written."""
        scratch = sorted((out / CHECKPOINTS).glob(".writing-*"))
        seen[:] = [int(path.name.partition("-")[2]) for path in scratch]
        return seen and seen[0] >= 6

    process = Delcore(*command(model, out), errors=tmp_path / "errors")
    assert kill_when(process, saves), "Of eight saves none was seen."
    assert not (out / CHECKPOINTS / f"step-{seen[0]:08d}").exists()
    said = resume_and_compare(model, out, whole, tmp_path / "again")
    assert f"Going on after step {seen[0] - 3}." in said


def test_kill_inside_the_final_save_then_resume_equals_a_run_that_was_never_killed(tmp_path, model, whole):
    for attempt in range(8):  # it takes some milliseconds, which can go by unseen
        out = tmp_path / f"run{attempt}"

        def saves_weights(out=out):
            begun = any((out / ".saving").glob("*.safetensors")) or (out / "model.safetensors").exists()
            return begun and "steps_done" not in record_of(out)

        process = Delcore(*command(model, out), errors=tmp_path / f"errors{attempt}")
        if kill_when(process, saves_weights):
            break
    else:
        pytest.fail("No save was seen.")
    said = resume_and_compare(model, out, whole, tmp_path / "again")
    assert "Going on after step 27." in said


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_kill_again_and_again_at_random_moments_then_resume_equals_a_run_that_was_never_killed(
    tmp_path, model, whole, seed
):
    """Up to five kills of each run, after random times from the moment its record stands."""
    out, draw = tmp_path / "run", random.Random(seed)
    for kill in range(5):
        process = Delcore(*command(model, out, "--resume"), errors=tmp_path / f"errors{kill}")
        process.wait_until(lambda process=process: (out / "config.json").exists() or not process.process.is_alive())
        process.process.join(draw.uniform(0.05, 0.6))
        process.process.kill()
        process.process.join()
        if process.process.exitcode != -signal.SIGKILL:
            break
    code, said = run_delcore(*command(model, out, "--resume"), errors=tmp_path / "errors")
    assert code == 0 or "is a finished run" in said, said
    assert_same_run(whole, out)


def test_kill_before_the_record_stands_then_resume_begins(tmp_path):
    """As a process leaves it that is killed in its first write."""
    (tmp_path / "run" / ".saving").mkdir(parents=True)
    (tmp_path / "run" / ".saving" / "config.json").write_text("{")
    assert run(tmp_path / "run", resume=True, steps=2).steps_done == 2


def test_kill_while_a_resumed_run_opens_its_log_loses_no_line(tmp_path, monkeypatch):
    """What opening a log for writing does to it is all that has happened when the process is killed."""
    run(tmp_path / "whole")
    stopped(monkeypatch, tmp_path / "run", 7)
    real = Path.open

    class KilledError(BaseException):
        pass

    def open_and_be_killed(path, mode="r", *more, **options):
        file = real(path, mode, *more, **options)
        if path.name in LOGS and "w" in mode:
            file.close()
            raise KilledError
        return file

    with monkeypatch.context() as patched, contextlib.suppress(KilledError):
        patched.setattr(Path, "open", open_and_be_killed)
        run(tmp_path / "run", resume=True)
    if (tmp_path / "run" / CHECKPOINTS).exists():
        run(tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_ends_a_process_with_its_code_and_resume_equals_a_run_that_was_never_stopped(
    tmp_path, model, whole, number, code
):
    out = tmp_path / "run"
    process = Delcore(*command(model, out), errors=tmp_path / "errors")
    process.wait_until(lambda: lines_in(out) >= 2)
    process.send(number)
    assert process.end() == code
    said = process.said()
    assert "Traceback" not in said
    assert "Stopped after step" in said
    done = record_of(out)["steps_done"]
    assert 8 <= done < 30
    assert (out / CHECKPOINTS / f"step-{done:08d}").is_dir()
    assert load_model(out)
    assert f"Going on after step {done}." in resume_and_compare(model, out, whole, tmp_path / "again")


# ---------------------------------------------------------------- real processes that cannot write


def test_checkpoint_that_cannot_be_written_whole_is_a_warning_and_the_run_goes_on(tmp_path, model, whole):
    """The checkpoint takes 94,000 bytes, the weights 30,000."""
    code, said = run_delcore(*command(model, tmp_path / "run"), errors=tmp_path / "errors", file_limit=60_000)
    assert code == 0, said
    assert said.count("Warning: Checkpoint") == 9
    assert "Traceback" not in said
    assert_same_run(whole, tmp_path / "run")


def test_final_save_that_cannot_be_written_whole_is_one_line_and_resume_works(tmp_path, model, whole):
    out = tmp_path / "run"
    process = Delcore(*command(model, out), errors=tmp_path / "first")
    assert kill_when(process, (out / CHECKPOINTS / "step-00000027").exists)
    code, said = run_delcore(*command(model, out, "--resume"), errors=tmp_path / "second", file_limit=20_000)
    assert code not in (0, None)
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if line.startswith("delcore: ")]
    assert checkpoints.newest_checkpoint(out / CHECKPOINTS).name == "step-00000027"
    resume_and_compare(model, out, whole, tmp_path / "third")


# ---------------------------------------------------------------- as a shell starts it


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill_of_a_command_then_resume_equals_one_that_was_never_killed(tmp_path):
    """The embedded model, and nothing forked: `python -m delcore`."""

    def start(out: Path) -> subprocess.Popen:
        more = ["--steps", "20", "--save-every", "3", "--resume"]
        argv = ["train", "--out", str(out), *map(str, SETTINGS), *more]
        return subprocess.Popen([sys.executable, "-m", "delcore", *argv], stderr=subprocess.PIPE, text=True)

    def finish(process: subprocess.Popen) -> None:
        _, said = process.communicate(timeout=200)
        assert process.returncode == 0, said

    finish(start(tmp_path / "whole"))
    process = start(tmp_path / "run")
    try:
        while lines_in(tmp_path / "run") < 2:
            assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
    assert not (tmp_path / "run" / "model.safetensors").exists()
    finish(start(tmp_path / "run"))
    assert_same_run(tmp_path / "whole", tmp_path / "run")
