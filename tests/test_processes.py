"""Two real processes on one CPU (DDP over gloo) train what one does.

The quick tests start them as `accelerate launch` does, with its environment variables; the slow ones with
`accelerate launch` itself and the package's own configuration.
"""

import json
import signal
import subprocess
from pathlib import Path

import pytest
import torch

from delcore import TrainConfig
from delcore import prepare as preparing
from delcore.prepare import CHECKPOINTS
from tests.processes_for_tests import (
    LAUNCH,
    Delcore,
    end_python,
    group_variables,
    run_delcore,
    run_group,
    start_group,
    start_python,
)
from tests.test_train import final_weights, record_of, write_jsonl

TOLERANCE = 1e-5
"""Of weights that moved by some 1e-3: sums in another order differ in the last bits, which AdamW can enlarge."""

pytestmark = pytest.mark.timeout(120)


def command(model: Path, out: Path, *more) -> list:
    settings = ("--steps", 4, "--batch-size", 8, "--max-length", 96, "--device", "cpu")
    measured = ("--eval-every", 2, "--eval-samples", 4)
    return ["train", "--model", model, "--out", out, *settings, *measured, *more]


def lines_of(folder: Path, name: str) -> list[dict]:
    lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


def assert_same_training(one: Path, two: Path) -> None:
    ours, theirs = final_weights(one), final_weights(two)
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(theirs[name], ours[name], rtol=0, atol=TOLERANCE)
    for log in ("metrics.jsonl", "heldout.jsonl"):
        assert lines_of(one, log)
        for mine, other in zip(lines_of(one, log), lines_of(two, log), strict=True):
            assert other == pytest.approx(mine, rel=1e-4, abs=1e-6)


def train_both(model: Path, folder: Path, *more) -> str:
    """The same command by one process and by two; what the two said."""
    code, said = run_delcore(*command(model, folder / "one", *more), errors=folder / "errors one")
    assert code == 0, said
    codes, said = run_group(*command(model, folder / "two", *more), errors=folder / "errors two")
    assert codes == [0, 0], said
    return said


VARIANTS = {
    "del": ("--loss", "del"),
    "emo": ("--loss", "emo"),
    "del accumulated": ("--loss", "del", "--micro-batch-size", 2),
    "emo accumulated by one": ("--loss", "emo", "--micro-batch-size", 1),
    "uneven micro-batches": ("--loss", "dist2", "--micro-batch-size", 3),
    "lora": ("--loss", "ntl_was", "--lora-rank", 2),
    "lora accumulated": ("--loss", "del", "--lora-rank", 2, "--micro-batch-size", 2, "--gradient-checkpointing"),
    "full logits": ("--loss", "mixce", "--full-logits"),
    "clipped hard": ("--loss", "ntl_mse", "--clip", 0.01),
    "few lines": ("--loss", "mle", "--log-every", 3),
}
QUICK = ("del", "emo accumulated by one", "lora accumulated")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
)
def test_two_processes_train_the_weights_of_one(tmp_path, model, name):
    said = train_both(model, tmp_path, *VARIANTS[name])
    assert said.count("Saved") == 1
    assert said.count("step 4/4") == 1
    assert "Traceback" not in said
    assert record_of(tmp_path / "two")["processes"] == 2
    assert_same_training(tmp_path / "one", tmp_path / "two")
    assert record_of(tmp_path / "one")["samples"] == record_of(tmp_path / "two")["samples"] == 32
    start, end = final_weights(model), final_weights(tmp_path / "two")
    if start.keys() == end.keys():
        assert max((start[key] - end[key]).abs().max() for key in start) > 10 * TOLERANCE


def test_process_whose_samples_teach_nothing_takes_part_all_the_same(tmp_path, model):
    """Sorted by length and dealt in turns, every second sample is cut before its response begins."""
    rows = [{"prompt": "p" * (140 if n % 2 else 100), "response": str(n)} for n in range(8)]
    rows[0]["prompt"] = "p"
    data = write_jsonl(tmp_path / "data.jsonl", *rows)
    train_both(model, tmp_path, "--loss", "del", "--data", data, "--eval-data", data)
    line = lines_of(tmp_path / "two", "metrics.jsonl")[0]
    assert (line["tokens"], line["digits"]) == (2, 1)


def test_samples_that_cannot_be_dealt_out_are_refused_once(tmp_path, model):
    codes, said = run_group(
        *command(model, tmp_path / "run", "--loss", "del", "--batch-size", 3), errors=tmp_path / "e"
    )
    assert codes == [2, 2]
    assert said.count("delcore: `--batch-size` 3 must be a multiple of the 2 processes.") == 1
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


def test_sweep_of_two_processes_gives_one_table(tmp_path, model):
    argv = ["sweep", "--losses", "mle,del", "--seeds", 1, *command(model, tmp_path / "sweep")[1:]]
    codes, said = run_group(*argv, errors=tmp_path / "e")
    assert codes == [0, 0], said
    for line in ("Saved table.md", "| loss |", "| `del` |", "run 2 of 2"):
        assert said.count(line) == 1, said
    assert "Traceback" not in said
    assert (tmp_path / "sweep" / "figure.html").is_file()


def test_bad_input_of_two_processes_is_one_line(tmp_path, model):
    codes, said = run_group(*command(model, tmp_path / "run", "--loss", "dell"), errors=tmp_path / "e")
    assert codes == [2, 2]
    assert said.count("\n") == said.count("delcore: ") == 1


@pytest.mark.parametrize("resume", [False, True])
def test_two_processes_may_look_at_an_empty_run_folder_at_once(tmp_path, monkeypatch, resume):
    """While one of them sees whether a file can be made there, the other one looks."""
    config = TrainConfig(loss="del", out=tmp_path, resume=resume)
    real = Path.touch

    def touch(path, *more):
        real(path, *more)
        with monkeypatch.context() as once:
            once.setattr(Path, "touch", real)
            preparing.check_out(config)

    monkeypatch.setattr(Path, "touch", touch)
    preparing.check_out(config)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("count", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_heldout_samples_of_any_number_are_all_measured(tmp_path, model, count):
    train_both(model, tmp_path, "--loss", "del", "--eval-samples", count)
    for mine, other in zip(*(lines_of(tmp_path / name, "heldout.jsonl") for name in ("one", "two")), strict=True):
        assert other == pytest.approx(mine, rel=1e-4, abs=1e-6)


EMO_LORA = ("--loss", "emo", "--lora-rank", 2)


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (1, ("--loss", "del")),
        (2, EMO_LORA),
        pytest.param(2, ("--loss", "del"), marks=pytest.mark.slow),
        pytest.param(1, EMO_LORA, marks=pytest.mark.slow),
    ],
)
def test_run_stopped_with_some_processes_goes_on_with_others(tmp_path, model, more, first):
    whole, out = tmp_path / "whole", tmp_path / "cut"
    settings = (*more, "--steps", 40, "--eval-every", 10, "--log-every", 4)
    code, said = run_delcore(*command(model, whole, *settings), errors=tmp_path / "errors")
    assert code == 0, said
    group = start_group(*command(model, out, *settings), errors=tmp_path / "first", ranks=first)
    try:
        group[0].wait_until(lambda: (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_text())
        group[-1].send(signal.SIGTERM)  # to the one that does not save
        assert [one.end() for one in group] == [143] * first
    finally:
        for one in group:
            one.process.kill()
    done = record_of(out)["steps_done"]
    assert 4 <= done < 40
    assert (out / CHECKPOINTS / f"step-{done:08d}").is_dir()
    codes, said = run_group(*command(model, out, *settings, "--resume"), errors=tmp_path / "second", ranks=3 - first)
    assert codes == [0] * (3 - first), said
    assert said.count(f"Going on after step {done}.") == 1
    assert_same_training_after_a_while(whole, out)


def assert_same_training_after_a_while(one: Path, two: Path) -> None:
    """After forty steps the last bits have grown by AdamW, but not by as much as one step at another place."""
    ours, theirs = final_weights(one), final_weights(two)
    for name in ours:
        torch.testing.assert_close(theirs[name], ours[name], rtol=0, atol=10 * TOLERANCE)
    for log in ("metrics.jsonl", "heldout.jsonl"):
        for mine, other in zip(lines_of(one, log), lines_of(two, log), strict=True):
            assert other == pytest.approx(mine, rel=1e-3, abs=1e-5)


# ---------------------------------------------------------------- with accelerate launch


def launch(model: Path, out: Path, *more) -> subprocess.Popen:
    launcher = ["accelerate.commands.launch", "--config_file", str(LAUNCH), "-m", "delcore"]
    return start_python("-m", *launcher, *command(model, out, *more), stderr=subprocess.STDOUT)


def end(process: subprocess.Popen) -> tuple[int, str]:
    said, _ = end_python(process)
    return process.returncode, said


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["del", "emo", "del accumulated", "lora"])
def test_accelerate_launch_with_our_configuration_trains_the_weights_of_one(tmp_path, model, name):
    code, said = run_delcore(*command(model, tmp_path / "one", *VARIANTS[name]), errors=tmp_path / "errors")
    assert code == 0, said
    code, said = end(launch(model, tmp_path / "two", *VARIANTS[name]))
    assert code == 0, said
    assert said.count("Saved") == 1
    assert record_of(tmp_path / "two")["processes"] == 2
    assert_same_training(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_accelerate_launch_says_what_is_wrong_once(tmp_path, model):
    code, said = end(launch(model, tmp_path / "run", "--loss", "del", "--batch-size", 3))
    assert code not in (0, None)
    assert said.count("`--batch-size` 3 must be a multiple of the 2 processes.") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_to_accelerate_launch_saves_and_the_run_goes_on(tmp_path, model, number):
    """The launcher hands the signal on to all processes, and waits half a minute for them."""
    out = tmp_path / "run"
    more = ("--loss", "del", "--steps", 2000, "--eval-every", 0)
    process = launch(model, out, *more)
    try:
        while not ((out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_text().count("\n") > 3):
            assert process.poll() is None, process.stdout.read()
        process.send_signal(number)
    finally:
        code, said = end(process)
    assert code != 0
    done = record_of(out).get("steps_done")
    assert done, said
    assert (out / CHECKPOINTS / f"step-{done:08d}").is_dir()


# ---------------------------------------------------------------- with shared weights


def run_sharded(*argv: object) -> tuple[list[int], str]:
    """Exit codes and words of two processes that share the weights (FSDP2)."""
    group = [
        start_python("-m", "tests.fsdp_for_tests", *argv, stderr=subprocess.STDOUT, **variables)
        for variables in group_variables(2)
    ]
    ended = [end(one) for one in group]
    return [code for code, _ in ended], "".join(said for _, said in ended)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["del", "emo", "del accumulated", "lora", "full logits"])
def test_processes_that_share_the_weights_train_the_weights_of_one(tmp_path, model, name):
    code, said = run_delcore(*command(model, tmp_path / "one", *VARIANTS[name]), errors=tmp_path / "errors")
    assert code == 0, said
    codes, said = run_sharded(*command(model, tmp_path / "two", *VARIANTS[name]))
    assert codes == [0, 0], said
    assert said.count("Saved") == 1
    assert_same_training(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("more", [("--loss", "del"), EMO_LORA])
def test_run_stopped_by_one_process_goes_on_with_shared_weights(tmp_path, model, more):
    whole, out = tmp_path / "whole", tmp_path / "cut"
    settings = (*more, "--steps", 40, "--eval-every", 10, "--log-every", 4)
    code, said = run_delcore(*command(model, whole, *settings), errors=tmp_path / "errors")
    assert code == 0, said
    first = Delcore(*command(model, out, *settings), errors=tmp_path / "first")
    first.wait_until(lambda: (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_text())
    first.send(signal.SIGTERM)
    assert first.end() == 143
    codes, said = run_sharded(*command(model, out, *settings, "--resume"))
    assert codes == [0, 0], said
    assert "Going on after step" in said
    assert_same_training_after_a_while(whole, out)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_adapters_that_would_be_merged_with_shared_weights_are_refused_at_the_start(tmp_path):
    codes, said = run_sharded(*command("embedded", tmp_path / "run", "--loss", "del", "--lora-rank", 2))
    assert codes == [2, 2], said
    assert said.count("delcore: ") == 1
    assert "merged" in said
    assert not (tmp_path / "run").exists()
