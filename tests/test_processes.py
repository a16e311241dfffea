"""Two real processes on one CPU (DDP over gloo) train what one does."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import delcore
from tests.models_for_tests import save_tiny
from tests.test_train import weights_of

LAUNCH = Path(delcore.__file__).parent / "launch" / "several_gpus.yaml"
SETTINGS = ("--steps", "4", "--batch-size", "8", "--max-length", "96", "--device", "cpu", "--eval-every", "4")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny", context=128)


def train(model: Path, out: Path, *more: str, processes: int = 1, settings=SETTINGS) -> subprocess.CompletedProcess:
    launcher = ["accelerate.commands.launch", "--config_file", str(LAUNCH), "--num_processes", "2", "-m"]
    launch = [] if processes == 1 else ["-m", *launcher]
    module = ["-m", "delcore"] if processes == 1 else ["delcore"]
    process = subprocess.Popen(
        [sys.executable, *launch, *module, "train", "--model", str(model), "--out", str(out), *settings, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def lines_of(out: Path, name: str = "metrics.jsonl") -> list[dict]:
    lines = [json.loads(line) for line in (out / name).read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


@pytest.mark.parametrize(
    "more",
    [("--loss", "del"), ("--loss", "emo", "--micro-batch-size", "2"), ("--loss", "dist2", "--lora-rank", "2")],
    ids=lambda more: "-".join(more).replace("--", ""),
)
def test_two_processes_train_the_weights_of_one(tmp_path, model, more):
    one = train(model, tmp_path / "one", *more)
    two = train(model, tmp_path / "two", *more, processes=2)
    assert (one.returncode, two.returncode) == (0, 0), two.stderr
    assert two.stderr.count("Saved") == 1
    name = "adapter_model.safetensors" if "--lora-rank" in more else "model.safetensors"
    ours, theirs = (weights_of(tmp_path / folder, name) for folder in ("one", "two"))
    for key in ours:
        torch.testing.assert_close(theirs[key], ours[key], rtol=0, atol=1e-5)
    for log in ("metrics.jsonl", "heldout.jsonl"):
        for mine, other in zip(lines_of(tmp_path / "one", log), lines_of(tmp_path / "two", log), strict=True):
            assert other == pytest.approx(mine, rel=1e-4, abs=1e-6)


def test_samples_that_cannot_be_shared_out_are_refused_once(tmp_path, model):
    settings = ("--steps", "1", "--batch-size", "3", "--device", "cpu")
    refused = train(model, tmp_path / "run", "--loss", "del", processes=2, settings=settings)
    assert refused.returncode != 0
    assert refused.stderr.count("`--batch-size` 3 must be a multiple of the 2 processes.") == 1
    assert not (tmp_path / "run").exists()
